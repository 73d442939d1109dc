"""Answers from the host while a compiled program runs: as for concrete numbers, and with nothing to compile.

The program passes its numbers to the host (`jax.pure_callback`). The host computes the answers as it does outside
programs, for a whole batch at once, and the program continues with the upper ends, rounded up to its float type.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jaxacct._jax import jax, jnp
from jaxacct._precision._floats import rounded_up
from jaxacct._precision._varying import varied, varying
from jaxacct.accounting._slopes import TracedQuestion, along, moving

Arrays = tuple[NDArray[Any], ...]


def asked_on_host(asked: TracedQuestion) -> Any:
    """[*shape]: the upper end that the host computes when the program runs, with the slopes that it computes there."""
    shape, dtype = asked.shape, jnp.result_type(float)

    def called(answers: Callable[[Sequence[Any]], Sequence[Any]], count: int, numbers: Sequence[Any]) -> Any:
        def on_host(*numbers: Any) -> Arrays:
            given = [np.asarray(x).astype(np.float64) for x in numbers]
            size = np.broadcast_shapes(*(x.shape for x in given))
            value, *slopes = (np.broadcast_to(x, size) for x in answers(given))
            return rounded_up(value, dtype), *(x.astype(dtype) for x in slopes)

        @jax.custom_jvp
        def ask(*numbers: Any) -> Any:
            # one shape for all, so that what `vmap` puts in front is in front of each
            whole = [jnp.broadcast_to(x, shape) for x in numbers]
            output: Any = jax.ShapeDtypeStruct(shape, dtype)  # type: ignore[no-untyped-call]
            found = jax.pure_callback(on_host, (output,) * count, *whole, vmap_method="broadcast_all")
            # JAX assumes that what comes back is equal on all devices, inside `shard_map` too
            return varied(found, frozenset().union(*map(varying, whole)))

        @ask.defjvp
        def _refuse(*_: Any) -> Any:
            raise ValueError("on_host=True gives no second derivatives: omit it, or take finite differences")

        return ask(*numbers)

    @jax.custom_jvp
    def call(*numbers: Any) -> Any:
        return called(lambda given: (asked.find(given).high,), 1, numbers)[0]

    @functools.partial(call.defjvp, symbolic_zeros=True)
    def _jvp(primals: Any, tangents: Any) -> Any:
        active = moving(tangents)

        def answers(given: Sequence[Any]) -> Sequence[Any]:
            found = asked.with_slopes(given, active)
            if found is None:
                raise ValueError(
                    "on_host=True gives no derivative with respect to a number that is 0, or where no number slightly "
                    "smaller or larger is in range: omit it"
                )
            return found[0], *found[1]

        out, *slopes = called(answers, 1 + len(active), primals)
        return out, along(out, slopes, [tangents[i] for i in active])

    return call(*asked.numbers)
