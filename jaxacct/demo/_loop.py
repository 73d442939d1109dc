"""The training loop: draw a batch and release its noisy gradient, until the guard stops it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from jaxacct import training
from jaxacct.demo._audit import measure
from jaxacct.demo._batches import Digits, draw, filled, load_digits, piece_size
from jaxacct.demo._checkpoint import load, refuse_to_overwrite, save
from jaxacct.demo._model import Programs, make_network, make_optimizer, make_programs
from jaxacct.demo._picture import save_audit, save_picture
from jaxacct.demo._plan import Plan, Settings, make_plan
from jaxacct.mechanisms import RandomAllocation
from jaxacct.special import shown


class State(NamedTuple):
    """All that changes in a run; the number of steps done is the optimizer's own count of noise releases."""

    params: Any
    opt_state: Any
    accuracies: NDArray[Any]  # float32 [epochs], nan where still to come


class Outcome(NamedTuple):
    """The outcome of a run."""

    mechanism: RandomAllocation  # what was run, every epoch begun taken as a whole
    num_releases: int
    epsilon: float
    accuracies: NDArray[Any]  # after each epoch; nan where it did not come to it
    is_finished: bool
    state: State


class _Trainer(NamedTuple):
    settings: Settings
    digits: Digits
    data: training.Batches
    programs: Programs


def _steps_done(state: State) -> int:
    return int(training.release_counts(state.opt_state)[0])


def _begin(settings: Settings, plan: Plan) -> tuple[_Trainer, State]:
    digits, network = load_digits(), make_network()
    num_records = len(digits.labels)
    size = piece_size(num_records, settings.num_steps, settings.num_selected)
    data = draw(plan.run, num_records, settings.seed, size)
    optimizer = make_optimizer(network, data, plan.max_releases, settings.seed)
    params = network.init(jax.random.key(settings.seed), jnp.zeros(digits.images.shape[1], jnp.float32))
    accuracies = np.full(plan.num_epochs, np.nan, np.float32)
    trainer = _Trainer(settings, digits, data, make_programs(network, optimizer))
    return trainer, State(params, optimizer.init(params), accuracies)


def _advance(trainer: _Trainer, state: State, batch: training.Batch) -> State:
    """The state after the release of `batch`; after the last one of an epoch the accuracy is measured too."""
    settings, digits, _, programs = trainer
    indices, mask = filled(batch)
    images, labels = digits.images[indices], digits.labels[indices]
    params, opt_state = programs.step(state.params, state.opt_state, images, labels, mask)
    state = State(params, opt_state, state.accuracies)
    epochs, left = divmod(_steps_done(state), settings.num_steps)
    if left:
        return state
    accuracies = np.array(state.accuracies)
    accuracies[epochs - 1] = programs.accuracy(params, digits.test_images, digits.test_labels)
    return state._replace(accuracies=accuracies)


def _show(bar: Any, epsilon: float, accuracies: NDArray[Any]) -> None:
    """Moves the progress bar by a step, with epsilon so far and the accuracy after the last whole epoch."""
    known = accuracies[~np.isnan(accuracies)]
    accuracy = {"accuracy": f"{100.0 * known[-1]:.1f} %"} if known.size else {}
    bar.set_postfix({"epsilon": shown(epsilon), **accuracy}, refresh=False)
    bar.update()


def _train(trainer: _Trainer, plan: Plan, state: State, keep: Callable[[State], None]) -> State:
    """Trains until the guard sets its flag, or until Ctrl-C: the state is replaced as a whole or not at all."""
    from tqdm import tqdm  # type: ignore[import-untyped]

    num_steps, done = trainer.settings.num_steps, _steps_done(state)
    with tqdm(total=plan.max_releases, initial=done, unit="step") as bar:
        try:
            while not state.opt_state.budget_spent:
                state = _advance(trainer, state, trainer.data[done])
                done += 1
                _show(bar, plan.spent(done), state.accuracies)
                if done % num_steps == 0:
                    keep(state)
        except KeyboardInterrupt:
            keep(state)
    return state


def run(
    settings: Settings | None = None,
    *,
    out: str | Path | None = None,
    checkpoint: str | Path | None = None,
    resume: bool = False,
    audit: bool = False,
) -> Outcome:
    """Trains until the budget is spent, showing epsilon on the way, and prints the privacy statement of the run.

    The packages of ``pip install 'jaxacct[demo]'`` are needed.

    Args:
      settings: what to run; None for the defaults.
      out: where to save the picture; None for no picture.
      checkpoint: folder in which the run is saved, after every epoch and on Ctrl-C; None to save nothing.
      resume: whether to continue the run that is saved in `checkpoint`.
      audit: whether to train again after the run, each record included or not by a fair coin, and measure how well the
        coins can be guessed; the result is printed beside the certified interval, and drawn beside the picture.

    Returns:
      An `Outcome`, also of a run that was interrupted.

    Raises:
      ValueError: if the budget does not afford one epoch; if `checkpoint` holds a run although `resume` is false, or if
        it holds no run to resume, or one with other settings.
    """
    settings = Settings() if settings is None else settings
    folder = None if checkpoint is None else Path(checkpoint)
    if folder is None and resume:
        raise ValueError("resume=True needs the checkpoint to resume from")
    if folder is not None and not resume:
        refuse_to_overwrite(folder)
        folder.mkdir(parents=True, exist_ok=True)  # before the training that it is to keep

    plan = make_plan(settings)
    print(
        f"Epsilon {settings.target_epsilon:g} at delta {settings.target_delta:g} affords "
        f"{plan.affordable // settings.num_steps} whole epochs of {settings.num_steps} steps "
        f"at noise multiplier {settings.noise_multiplier:g}."
    )
    trainer, state = _begin(settings, plan)
    if folder is not None and resume:
        state = load(folder, state, settings, plan)
        print(f"Resumed after {_steps_done(state)} steps.")

    def keep(state: State) -> None:
        if folder is not None:
            save(folder, state, settings, plan)

    state = _train(trainer, plan, state, keep)

    count = _steps_done(state)
    outcome = Outcome(
        mechanism=settings.allocation(max(1, -(-count // settings.num_steps))),
        num_releases=count,
        epsilon=training.privacy_spent(state.opt_state, trainer.data, settings.target_delta),
        accuracies=np.asarray(state.accuracies),
        is_finished=bool(state.opt_state.budget_spent),
        state=state,
    )
    if not outcome.is_finished:
        kept = "nothing was kept" if folder is None else f"kept in {folder}, to go on with --resume"
        print(f"Interrupted after {count} of {plan.max_releases} steps, epsilon {shown(outcome.epsilon)}; {kept}.")
        return outcome
    print(
        f"The guard stopped the run after {count} steps: epsilon {shown(outcome.epsilon)}, "
        f"test accuracy {100.0 * outcome.accuracies[-1]:.1f} %.\n"
    )
    print(training.report(state.opt_state, trainer.data, settings.target_delta))
    if out is not None:
        save_picture(Path(out), settings, plan, outcome.accuracies)
        print(f"\nPicture: {out}")
    if audit:
        found = measure(settings, plan)
        print(f"\n{found.beside(plan.run.mechanism)}")
        if out is not None:
            path = Path(out)
            save_audit(path.with_stem(f"{path.stem}-audit"), found, plan)
    return outcome
