"""Keeps compiled programs from one command to the next, if the user asks for it."""

from collections.abc import MutableMapping
from pathlib import Path

_OWN = "JAXACCT_CACHE"
_SECONDS = "0.1"  # programs that compile faster are not worth a file


def keep_compiled(environment: MutableMapping[str, str]) -> None:
    """Turns on JAX's cache of compiled programs if JAXACCT_CACHE asks for it, before JAX is imported.

    JAXACCT_CACHE is a directory, or 1 for `jaxacct` in the user's own cache directory; 0 or nothing leaves it off.
    JAX's own variables are left as they are if they are set.
    """
    wanted = environment.get(_OWN, "0")
    if wanted in ("", "0"):
        return
    base = Path(environment.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    environment.setdefault("JAX_COMPILATION_CACHE_DIR", str(base / "jaxacct") if wanted == "1" else wanted)
    environment.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", _SECONDS)
