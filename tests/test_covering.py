"""Each module has a test of its own name in the mirrored folder, or a line in tests/covering.txt that says which."""

from support.covering import TESTS, is_near, mirrored, modules

_LINES = (TESTS / "covering.txt").read_text().splitlines()
_TABLE = dict(line.split() for line in _LINES if not line.startswith("#"))
_STEPS = 2


def _has_own(module: str) -> bool:
    return any((TESTS / place).exists() for place in mirrored(module))


def test_every_module_has_a_test():
    without = [name for name in modules() if not _has_own(name) and name not in _TABLE]
    assert not without, (
        "name its test after it, in the mirrored folder, or say in tests/covering.txt which one covers it"
    )


def test_the_table_holds_nothing_else():
    assert len(_TABLE) == sum(not line.startswith("#") for line in _LINES), "a module stands twice"
    assert [name for name in _TABLE if name not in modules() or _has_own(name)] == []


def test_what_the_table_names_is_near_the_module():
    far = []
    for module, test in _TABLE.items():
        path = TESTS / test
        if not path.exists() or not is_near(path, module, _STEPS):
            far.append((module, test))
    assert not far


def test_a_test_that_is_far_is_seen():
    assert not is_near(TESTS / "plot/test_plot.py", "bounds.check_in._one_setting", 0)
    assert mirrored("bounds.allocation._exact") == [
        "test_exact.py",
        "bounds/test_exact.py",
        "bounds/allocation/test_exact.py",
        "bounds/allocation/exact/test_exact.py",
    ]
