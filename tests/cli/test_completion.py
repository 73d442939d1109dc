"""Completion by the shell: the printed script completes what the parser accepts."""

import shutil
import subprocess
import sys

import pytest

from jaxacct.cli import main
from jaxacct.cli._completion import SHELLS

_TRY = """
source "$1"; shift
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=()
function=$(complete -p jaxacct | sed 's/.*-F \\([^ ]*\\).*/\\1/')
$function jaxacct "${COMP_WORDS[-1]}" "${COMP_WORDS[-2]}"
printf '%s\\n' "${COMPREPLY[@]}"
"""


def _script(capsys: pytest.CaptureFixture[str], shell: str) -> str:
    pytest.importorskip("shtab")
    with pytest.raises(SystemExit) as ended:
        main(["--print-completion", shell])
    assert ended.value.code in (0, None)
    return capsys.readouterr().out


@pytest.mark.parametrize("shell", SHELLS)
def test_script_names_commands_schemes_and_options(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = _script(capsys, shell)
    for word in ("jaxacct", "calibrate", "allocation", "--noise-multiplier", "doctor"):
        assert word.replace("--", "") in text


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash")
def test_bash_completes(capsys: pytest.CaptureFixture[str], tmp_path) -> None:
    script = tmp_path / "jaxacct.bash"
    script.write_text(_script(capsys, "bash"))
    (tmp_path / "sweep.csv").touch()
    for typed, expected in (
        ("ep", ["epsilon"]),
        ("epsilon alloc", ["allocation"]),
        ("epsilon allocation --num-e", ["--num-epochs"]),
        ("report poisson --style m", ["markdown"]),
        ("calibrate poisson --field num", ["num-steps"]),
        (f"sweep poisson --out {tmp_path}/sw", [f"{tmp_path}/sweep.csv"]),
        ("epsilon gausian", []),
    ):
        command = ["bash", "--norc", "-c", _TRY, "bash", str(script), "jaxacct", *typed.split()]
        ran = subprocess.run(command, capture_output=True, text=True)
        assert ran.stdout.split() == expected, (typed, ran.stderr)


def test_unknown_shell_is_refused_by_name(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--print-completion", "bsh"])
    assert ended.value.code == 2
    assert "did you mean" in capsys.readouterr().err.lower()


def test_without_shtab_it_says_what_to_install(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "shtab", None)
    with pytest.raises(SystemExit) as ended:
        main(["--print-completion", "bash"])
    assert ended.value.code == 2
    assert "pip install 'jaxacct[completion]'" in capsys.readouterr().err
