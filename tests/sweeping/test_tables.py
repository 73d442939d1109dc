"""Results of sweeps as tables and files of other packages, and back: no number and no word of the question is lost."""

import importlib.util
import json

import numpy as np
import pytest

import jaxacct as ja
from jaxacct.sweeping import SweepInterrupted, SweepResult, sweep

PRODUCT = {"num_steps": np.array([10, 100, 1000]), "noise_multiplier": np.array([2.0, 1.0])}
SIDE = {"noise_multiplier": np.array([1.0, 2.0, 2.0]), "num_steps": np.array([5, 7, 7])}
ALLOCATION = ja.RandomAllocation(ja.Gaussian(None), None)
HOW = {"target_delta": 1e-6, "orders": [2.0, 4.0, 8.0]}


def needs(package):
    return pytest.mark.skipif(importlib.util.find_spec(package) is None, reason=f"{package} is not installed")


def found(layout):
    return sweep(ALLOCATION, PRODUCT if layout == "product" else SIDE, layout=layout, **HOW)


def check_same(again, first):
    np.testing.assert_array_equal(again.values, first.values)
    np.testing.assert_array_equal(again.to_numpy(), first.to_numpy())
    assert again.to_numpy().dtype == first.to_numpy().dtype
    assert (again.bound, again.target, again.num_done) == (first.bound, first.target, first.num_done)
    assert (again.quantity, again.grid.layout) == (first.quantity, first.grid.layout)
    assert again.question == json.loads(json.dumps(first.question))


@pytest.mark.parametrize("layout", ["product", "zipped"])
@pytest.mark.parametrize("kind", ["csv", pytest.param("parquet", marks=needs("pyarrow"))])
def test_files_are_loaded_as_they_were_written(tmp_path, layout, kind):
    first, path = found(layout), tmp_path / f"table.{kind}"
    getattr(first, f"to_{kind}")(path)
    check_same(SweepResult.load(path), first)
    assert SweepResult.load(path).question["orders"] == [2.0, 4.0, 8.0]


@pytest.mark.parametrize("layout", ["product", "zipped"])
def test_the_file_of_a_sweep_is_loaded(tmp_path, layout):
    path = tmp_path / "sweep.csv"
    grid = PRODUCT if layout == "product" else SIDE
    first = sweep(ALLOCATION, grid, layout=layout, out=path, chunk_size=2, **HOW)
    check_same(SweepResult.load(path), first)
    data = path.read_bytes()
    path.write_bytes(data[:-5])  # killed while it was written
    part = SweepResult.load(path)
    size = first.values.size - 1
    assert part.num_done == size
    np.testing.assert_array_equal(part.to_numpy(), first.to_numpy()[:size])
    if layout == "product":
        assert part.values.shape == (3, 2)
        assert part.values[-1, -1] == np.inf
    path.write_bytes(data[: data.index(b"\n") + 1])
    assert SweepResult.load(path).num_done == 0


def test_lower_bounds_and_deltas_are_loaded(tmp_path):
    run, name = ja.Shuffled(ja.LocalRandomizer(None), num_reports=1000), "binary randomized response"
    first = sweep(run, {"local_epsilon": [0.5, 1.0]}, target_epsilon=0.1, method=name)
    first.to_csv(tmp_path / "table.csv")
    check_same(SweepResult.load(tmp_path / "table.csv"), first)
    assert first.bound is ja.Bound.LOWER


def test_a_table_with_gaps_is_loaded(tmp_path):
    first = found("product")
    answered = np.array([True, False, True, True, False, True])
    part = SweepResult("epsilon", first.grid, first.values, first.bound, 4, 1e-6, answered)
    part.to_csv(tmp_path / "table.csv")
    again = SweepResult.load(tmp_path / "table.csv")
    np.testing.assert_array_equal(again.answered, answered)
    np.testing.assert_array_equal(again.to_numpy(), first.to_numpy()[answered])
    assert np.all(np.isinf(again.values.reshape(-1)[~answered]))


def test_other_files_are_refused(tmp_path):
    for text in ("", "noise_multiplier,epsilon\n1.0,2.0\n", "# jaxacct sweep {}\nepsilon\n1.0\n"):
        (tmp_path / "other.csv").write_text(text)
        with pytest.raises(ValueError, match=r"other.csv' is not the file of a sweep"):
            SweepResult.load(tmp_path / "other.csv")


@needs("pandas")
def test_a_frame_has_the_question(tmp_path):
    import pandas

    first = found("product")
    frame = first.to_pandas()
    assert list(frame.columns) == ["num_steps", "noise_multiplier", "epsilon"]
    assert frame.attrs["target"] == 1e-6
    first.to_csv(tmp_path / "table.csv")
    read = pandas.read_csv(tmp_path / "table.csv")
    pandas.testing.assert_frame_equal(read, frame, rtol=1e-15)


@needs("xarray")
def test_an_array_has_names_units_and_the_question():
    array = found("product").to_xarray()
    assert array.dims == ("num_steps", "noise_multiplier")
    assert array.name == "epsilon"
    assert (array.attrs["units"], array.attrs["target_delta"]) == ("nats", 1e-6)
    assert array.attrs["bound"] == "upper bound"
    assert "RandomAllocation" in array.attrs["mechanism"]
    assert json.loads(array.attrs["question"])["orders"] == [2.0, 4.0, 8.0]
    assert array.coords["noise_multiplier"].attrs["long_name"] == "noise multiplier"
    assert float(array.sel(num_steps=100, noise_multiplier=1.0)) == found("product").values[1, 1]
    side = found("zipped").to_xarray()
    assert side.dims == ("point",)
    np.testing.assert_array_equal(side.coords["num_steps"], SIDE["num_steps"])


def test_what_is_interrupted_is_a_table_too(tmp_path):
    def stop(done, total):
        if done >= 4:
            raise KeyboardInterrupt

    with pytest.raises(SweepInterrupted) as caught:
        sweep(ALLOCATION, PRODUCT, chunk_size=2, progress=stop, **HOW)
    caught.value.partial.to_csv(tmp_path / "table.csv")
    assert SweepResult.load(tmp_path / "table.csv").num_done == 4


@pytest.mark.parametrize("package", ["pandas", "xarray", "pyarrow"])
def test_a_missing_package_is_named(monkeypatch, tmp_path, package):
    real = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == package else real(name))
    first = found("zipped")
    write = {"pandas": first.to_pandas, "xarray": first.to_xarray, "pyarrow": lambda: first.to_parquet(tmp_path / "x")}
    with pytest.raises(ImportError, match=rf"{package}: pip install 'jaxacct\[table\]'"):
        write[package]()
