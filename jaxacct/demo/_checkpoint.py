"""A run on disk: one file, replaced as a whole, which can be resumed only with the settings it was begun with."""

import dataclasses
import json
import os
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp

from jaxacct.demo._plan import Plan, Settings

_NAME = "run.msgpack"


def _terms(settings: Settings, plan: Plan) -> dict[str, Any]:
    return {**dataclasses.asdict(settings), "max_releases": plan.max_releases}


def save(folder: Path, state: Any, settings: Settings, plan: Plan) -> None:
    """Writes `state`, a tree of arrays, with its settings; the previous file stays until this one is complete."""
    from flax import serialization

    folder.mkdir(parents=True, exist_ok=True)
    stored = {"terms": json.dumps(_terms(settings, plan)), "state": serialization.to_state_dict(state)}
    unfinished = folder / f"{_NAME}.unfinished"
    unfinished.write_bytes(serialization.msgpack_serialize(stored))
    os.replace(unfinished, folder / _NAME)


def refuse_to_overwrite(folder: Path) -> None:
    """Raises ValueError if a run is stored in `folder`, since its count of noise releases would be lost."""
    if (folder / _NAME).exists():
        raise ValueError(f"checkpoint={str(folder)!r} holds a run: resume it, or name another folder")


def load(folder: Path, like: Any, settings: Settings, plan: Plan) -> Any:
    """The state that was saved, in the form of `like`.

    Raises:
      ValueError: if there is no saved run, or if it was begun with other settings. Epochs are charged as they were run,
        and the accounting assumes that the length was not chosen after looking at the model.
    """
    from flax import serialization

    path = folder / _NAME
    if not path.exists():
        raise ValueError(f"checkpoint={str(folder)!r} holds no run to resume")
    stored = serialization.msgpack_restore(path.read_bytes())
    before, now = json.loads(stored["terms"]), _terms(settings, plan)
    changed = [f"{name}={now[name]!r} must be {before.get(name)!r}" for name in now if now[name] != before.get(name)]
    if changed:
        raise ValueError(f"checkpoint={str(folder)!r} was begun with other settings: {', '.join(changed)}")
    return jax.tree.map(jnp.asarray, serialization.from_state_dict(like, stored["state"]))
