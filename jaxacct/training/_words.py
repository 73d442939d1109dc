"""Random words from a secret key, from which batches are drawn."""

import hashlib
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

from jaxacct._precision import is_traced

_LABEL = b"jaxacct.training.batches, 1\n"  # another number, another stream: the draws of a key are part of the contract
_SPARE = 64  # words beyond those that are accepted on average
_SMALL = 2**24  # below it a share of at most 2^-8 of 32-bit words is rejected


def secret_bytes(key: Any) -> bytes:
    """The bytes of a key: one of `jax.random.key`, the array of an older one, a whole number >= 0, or bytes.

    Raises:
      ValueError: if it is none of them, or a traced or batched key.
    """
    wanted = "must be one key of jax.random, a whole number >= 0 or bytes, outside jit"
    if isinstance(key, bytes):
        return b"b" + key
    if isinstance(key, int) and not isinstance(key, bool) and key >= 0:
        return b"i" + key.to_bytes(key.bit_length() // 8 + 1, "little")
    if is_traced(key) or not isinstance(key, jax.Array | np.ndarray):
        raise ValueError(f"key of type {type(key).__name__} {wanted}")
    is_typed = jax.numpy.issubdtype(key.dtype, jax.dtypes.prng_key)
    words = np.asarray(jax.random.key_data(key) if is_typed else key)
    if words.ndim != 1 or words.dtype != np.uint32:
        raise ValueError(f"key of shape {key.shape} and dtype {key.dtype} {wanted}")
    return b"k" + words.astype("<u4").tobytes()


class Words:
    """The words of one period, for one use: SHAKE-256 of the key and the number of the period, in blocks.

    The words are a function of these alone, the same on every machine and with every version of NumPy. As far as
    anybody knows, they cannot be told from fair coins without the key; here they are taken for fair coins.
    """

    def __init__(self, secret: bytes, period: int, use: bytes = b"") -> None:
        parts = (_LABEL, secret, period.to_bytes(8, "little"), use)
        self._prefix = b"".join(len(part).to_bytes(8, "little") + part for part in parts)
        self._blocks = 0

    def raw(self, size: int) -> bytes:
        """`size` bytes that no other call returns."""
        self._blocks += 1
        return hashlib.shake_256(self._prefix + self._blocks.to_bytes(8, "little")).digest(size)

    def uint64(self, size: int) -> NDArray[Any]:
        """`size` words of 64 bits."""
        return np.frombuffer(self.raw(8 * size), "<u8")

    def below(self, limit: int, size: int) -> NDArray[Any]:
        """uint32 or uint64 [size], independent and exactly uniform in [0, limit).

        `limit` is in [1, 2^32]. Words at or above the largest multiple of `limit` are rejected.
        """
        bits = 32 if limit <= _SMALL else 64
        multiple = 2**bits // limit * limit
        found: list[NDArray[Any]] = []
        missing = size
        while missing > 0:
            drawn = missing + missing // 128 + _SPARE
            words = np.frombuffer(self.raw(drawn * bits // 8), f"<u{bits // 8}")
            if multiple < 2**bits and words.max() >= multiple:
                words = words[words < multiple]
            found.append(words[:missing] % limit)
            missing -= found[-1].size
        return np.concatenate(found) if found else np.zeros(0, np.uint32)
