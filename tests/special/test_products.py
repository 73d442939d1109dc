"""Products of matrices that start no threads."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from jaxacct.special import rows_times, rows_times_rows

# Answers that multiply large matrices; then the CPU time of all threads but the first, in clock ticks.
_ASKED = """
import os
import time
from pathlib import Path
import numpy  # whose threads start here
import jaxacct as ja

def ticks():
    every = [task for task in Path("/proc/self/task").iterdir() if task.name != str(os.getpid())]
    times = [(task / "stat").read_text().rsplit(")", 1)[1].split()[11:13] for task in every]
    return sum(int(x) for both in times for x in both)

time.sleep(0.5)  # in which new threads wait for work
start = ticks()
ja.delta(ja.BallsInBins((1.0, 0.5, 0.9, 0.4, 0.7), noise_multiplier=0.9, num_batches=18), target_epsilon=2.0)
ja.epsilon(ja.ScheduledAllocation((13.0, 8.0, 0.7), num_steps=(300, 200, 100)), target_delta=1e-6)
print(ticks() - start)
"""


@pytest.mark.parametrize("shape", [(3, 5, 7), (60, 2000, 60), (2, 9000, 40), (1, 300, 20000), (700, 1, 900)])
def test_they_are_the_products(shape):
    n, m, inner = shape
    rng = np.random.default_rng(n)
    left, right = rng.standard_normal((n, inner)), rng.standard_normal((m, inner))
    np.testing.assert_allclose(rows_times_rows(left, right), left @ right.T, atol=1e-11)
    np.testing.assert_allclose(rows_times(left, right[0]), left @ right[0], atol=1e-11)


def test_stacks_and_complex_numbers_too():
    """In several tiles, with rows and columns left over, and leading axes that broadcast."""
    rng = np.random.default_rng(1)
    left, right = rng.standard_normal((2, 3, 1, 70, 500)), rng.standard_normal((2, 4, 300, 500))
    left, right = left[0] + 1j * left[1], right[0] + 1j * right[1]
    found = rows_times_rows(left, right)
    assert found.shape == (3, 4, 70, 300)
    np.testing.assert_allclose(found, left @ right.swapaxes(-1, -2), atol=1e-11)


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="counts the time of threads in /proc")
def test_answers_start_no_threads():
    """Where several threads share a core, each product would wait for them for milliseconds."""
    several = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "4")
    done = subprocess.run(
        [sys.executable, "-c", _ASKED], env={**os.environ, **several}, capture_output=True, text=True, check=True
    )
    assert int(done.stdout) <= 1, f"other threads took {done.stdout} ticks"
