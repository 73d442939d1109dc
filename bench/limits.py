"""The device's limits as XLA reaches them: float64 operations and bytes moved in a second, by two small programs."""

from harness import run_child

_MEASURE = "import limits; print(json.dumps(limits.measured()))"
_CHAIN = 256  # multiplications and additions on each number, in one fused program


def limits() -> dict:
    """Of the device on which the cases run: its kind, flop/s and byte/s; measured in a child."""
    return run_child(_MEASURE)[0]


def measured() -> dict:
    """In this process; called by `limits`."""
    import time

    import jax
    import jax.numpy as jnp
    import numpy as np

    def chain(x, a, b):
        for _ in range(_CHAIN):
            x = x * a + b
        return x

    def seconds(fn, *args) -> float:
        jax.block_until_ready(fn(*args))
        found = []
        for _ in range(7):
            start = time.perf_counter()
            jax.block_until_ready(fn(*args))
            found.append(time.perf_counter() - start)
        return min(found)

    device = jax.devices()[0]
    on_gpu = device.platform == "gpu"
    with jax.enable_x64(True):
        few, many = (2**24, 2**27) if on_gpu else (2**18, 2**24)
        a, b = np.float64(0.999), np.float64(0.001)
        arithmetic = seconds(jax.jit(chain), jnp.ones(few, jnp.float64), a, b)
        copying = seconds(jax.jit(lambda x: x + 1.0), jnp.ones(many, jnp.float64))
    return {
        "platform": device.platform,
        "kind": device.device_kind,
        "flops": 2 * _CHAIN * few / arithmetic,
        "bytes": 2 * 8 * many / copying,
    }
