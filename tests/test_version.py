"""Statements, sweep files and workers tell the version of the code that runs, not that of stale metadata."""

import importlib.metadata
import re
from pathlib import Path

import pytest

import jaxacct as ja
from jaxacct._version import __version__
from jaxacct.cli._doctor import examination
from jaxacct.workers._spread import versions


@pytest.fixture(autouse=True)
def _stale(monkeypatch: pytest.MonkeyPatch) -> None:
    """The metadata of an editable installation that was made some versions ago."""
    real = importlib.metadata.version
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "0.0.1" if name == "jaxacct" else real(name))


def test_told_everywhere() -> None:
    assert re.fullmatch(r"\d+\.\d+\.\d+", __version__)
    assert ja.__version__ == __version__
    assert f"# jaxacct {__version__}" in ja.report(ja.Gaussian(1.0), target_delta=1e-5)
    assert f"jaxacct {__version__}\n" in examination()[0]
    assert versions()[0] == f"jaxacct=={__version__}"


def test_files_of_other_versions_are_not_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "sweep.csv"
    grid = {"noise_multiplier": [1.0, 2.0]}
    ja.sweep(ja.Gaussian(None), grid, target_delta=1e-5, out=file)
    monkeypatch.setattr("jaxacct.sweeping._question.__version__", "0.0.1")
    with pytest.raises(ValueError, match=r"0\.0\.1"):
        ja.sweep(ja.Gaussian(None), grid, target_delta=1e-5, out=file, resume=True)
