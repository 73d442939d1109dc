"""Whole batches for the data loaders of grain, which may read them in several processes."""

import functools
import operator
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray


class BatchSource:
    """A data source of pairs (records, mask), one for each place of a `BatchSampler`; padding is records of zeros."""

    def __init__(self, shards: tuple[Any, ...], records: Any) -> None:
        self._shards, self._records = shards, records

    def __len__(self) -> int:
        return len(self._shards) * len(self._shards[0])

    def __repr__(self) -> str:
        """What grain compares when it resumes."""
        return f"BatchSource({self._shards[0]!r}, <{len(self._records)} of {type(self._records).__name__}>)"

    @functools.cached_property
    def _padding(self) -> Any:
        return jax.tree.map(np.zeros_like, self._records[0])

    def __getitem__(self, place: int) -> tuple[Any, NDArray[Any]]:
        step, shard = divmod(operator.index(place), len(self._shards))
        indices, mask = self._shards[shard][step]
        rows = zip(indices.flat, mask.flat, strict=True)
        records = [self._records[int(at)] if is_record else self._padding for at, is_record in rows]
        return jax.tree.map(lambda *leaves: np.stack(leaves).reshape(*mask.shape, *np.shape(leaves[0])), *records), mask


class BatchSampler:
    """A grain sampler of whole batches: all shards of the first step, all shards of the second, and so on.

    So a loader that deals places out to processes, to those that train or to its own workers, keeps every batch whole.
    """

    def __init__(self, batches: Any, shard: tuple[int, int]) -> None:
        try:
            import grain  # type: ignore[import-untyped]
        except ModuleNotFoundError as error:
            raise ImportError("a sampler for grain needs grain: pip install 'jaxacct[grain]'") from error
        self._batches, self._count = batches, shard[1]
        # where the loader looks for shard options if it is given none
        self._shard_options = grain.sharding.ShardOptions(*shard, drop_remainder=True)

    def __len__(self) -> int:
        return len(self._batches) * self._count

    def __repr__(self) -> str:
        """What grain compares when it resumes: everything but the key."""
        return f"BatchSampler({self._batches!r})"

    def __getitem__(self, place: int) -> Any:
        import grain

        place = operator.index(place)
        if not 0 <= place < len(self):
            raise IndexError(f"place={place} must be in [0, {len(self) - 1}]")
        return grain.RecordMetadata(index=place, record_key=place)
