"""The data, and batches that are cut into pieces padded to one size."""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from jaxacct import training

_SPARE = 4.0  # standard deviations of a batch's size that fit into one piece


class Digits(NamedTuple):
    """Scikit-learn's handwritten digits, 8 by 8 pixels in [-1, 1]: 1437 private ones to train on, 360 public ones."""

    images: NDArray[Any]  # float32 [records, 64]
    labels: NDArray[Any]  # int32 [records]
    test_images: NDArray[Any]
    test_labels: NDArray[Any]


def load_digits() -> Digits:
    """The digits that come with scikit-learn (no download is needed). The range of pixels, 0 to 16, is public."""
    from sklearn import datasets, model_selection  # type: ignore[import-untyped]

    images, labels = datasets.load_digits(return_X_y=True)
    train, test = model_selection.train_test_split(np.arange(labels.size), test_size=0.2, random_state=0)
    images, labels = (images / 8.0 - 1.0).astype(np.float32), labels.astype(np.int32)
    return Digits(images[train], labels[train], images[test], labels[test])


def piece_size(num_records: int, num_steps: int, num_selected: int) -> int:
    """A number of rows that fits nearly every batch: a binomial's mean plus four standard deviations."""
    rate = num_selected / num_steps
    spare = _SPARE * math.sqrt(num_records * rate * (1.0 - rate))
    return min(num_records, math.ceil(num_records * rate + spare))


def draw(run: training.Epoch, num_records: int, seed: int, size: int) -> training.Batches:
    """The batches of `run`, in pieces of `size` rows: enough of them for all records, so that none is ever left out."""
    return training.batches(run, num_records, seed, max_batch_size=num_records + 1).microbatches(size)


def filled(batch: training.Batch) -> training.Batch:
    """The pieces of a batch that hold records, which come first: usually one piece, and one even without records."""
    number = max(1, int(batch.mask.any(axis=1).sum()))
    return training.Batch(batch.indices[:number], batch.mask[:number])
