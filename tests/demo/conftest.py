"""The optimizer and the model of the demonstration mix dtypes: these tests run under the standard promotion."""

import pytest


@pytest.fixture(autouse=True)
def _strict_promotion() -> None:
    """In place of the fixture of the folder above; tests of strict promotion set it."""
