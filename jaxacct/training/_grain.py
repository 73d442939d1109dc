"""Batches for the data loaders of grain, whose samplers name one record at a time."""

import operator
from typing import Any, NamedTuple

import jax
import numpy as np


class Slot(NamedTuple):
    """What a sampler hands to a data source: the index of a record, or a row of padding."""

    record: int
    is_record: bool


class PaddedSource:
    """A data source of pairs (record, is_record): for padding, a record of zeros and False."""

    def __init__(self, records: Any) -> None:
        self._records = records

    def __len__(self) -> int:
        return len(self._records)

    def __repr__(self) -> str:
        """What grain compares when it resumes."""
        return f"PaddedSource(<{len(self)} of {type(self._records).__name__}>)"

    def __getitem__(self, slot: Slot) -> tuple[Any, np.bool_]:
        at, is_record = slot
        record = self._records[int(at)]
        if not is_record:
            record = jax.tree.map(lambda leaf: np.zeros_like(leaf), record)
        return record, np.bool_(is_record)


class RecordSampler:
    """A grain sampler: the rows of all batches, one after the other, padding included."""

    def __init__(self, batches: Any, rows: int, shard: tuple[int, int]) -> None:
        try:
            import grain  # type: ignore[import-untyped]
        except ModuleNotFoundError as error:
            raise ImportError("a sampler for grain needs grain: pip install 'jaxacct[grain]'") from error
        self._batches, self._rows = batches, rows
        # where the loader looks for shard options if it is given none
        self._shard_options = grain.sharding.ShardOptions(*shard, drop_remainder=True)
        self._last: tuple[int, Any] = (-1, None)

    def __len__(self) -> int:
        return len(self._batches) * self._rows

    def __repr__(self) -> str:
        """What grain compares when it resumes: everything but the key."""
        return f"RecordSampler({self._batches!r})"

    def __getitem__(self, place: int) -> Any:
        import grain

        place = operator.index(place)
        if not 0 <= place < len(self):
            raise IndexError(f"place={place} must be in [0, {len(self) - 1}]")
        step, row = divmod(place, self._rows)
        known, batch = self._last
        if known != step:
            batch = self._batches[step]
            self._last = step, batch
        slot = Slot(int(batch.indices[row]), bool(batch.mask[row]))
        return grain.RecordMetadata(index=place, record_key=slot)
