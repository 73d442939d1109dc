"""The data, and batches cut into pieces that are padded to one size."""

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

_SPARE = 4.0  # standard deviations of a batch's size that fit into one piece


class Digits(NamedTuple):
    """Scikit-learn's handwritten digits, 8 by 8 pixels in [-1, 1]: 1437 private ones to train on, 360 public ones."""

    images: NDArray[Any]  # float32 [records, 64]
    labels: NDArray[Any]  # int32 [records]
    test_images: NDArray[Any]
    test_labels: NDArray[Any]


def load_digits() -> Digits:
    """Comes with scikit-learn: nothing is downloaded. The pixels' range, 0 to 16, is known without looking at them."""
    from sklearn import datasets, model_selection  # type: ignore[import-untyped]

    images, labels = datasets.load_digits(return_X_y=True)
    train, test = model_selection.train_test_split(np.arange(labels.size), test_size=0.2, random_state=0)
    images, labels = (images / 8.0 - 1.0).astype(np.float32), labels.astype(np.int32)
    return Digits(images[train], labels[train], images[test], labels[test])


def piece_size(num_records: int, num_steps: int, num_selected: int) -> int:
    """Room for nearly every batch: a binomial's mean and four standard deviations."""
    rate = num_selected / num_steps
    spare = _SPARE * math.sqrt(num_records * rate * (1.0 - rate))
    return min(num_records, math.ceil(num_records * rate + spare))


def padded_pieces(records: NDArray[Any], size: int) -> Iterator[tuple[NDArray[Any], NDArray[Any]]]:
    """(indices, weights), both [size], that hold each of `records` once with weight 1, and padding with weight 0.

    One piece as a rule; more where a batch is larger, for dropping what does not fit would change the mechanism; one
    of padding alone where it is empty, for an empty batch is noised and released as any other.
    """
    for start in range(0, max(1, records.size), size):
        here = records[start : start + size]
        indices, weights = np.zeros(size, np.int32), np.zeros(size, np.float32)
        indices[: here.size], weights[: here.size] = here, 1.0
        yield indices, weights
