import subprocess
import sys

import pytest

from hcam import __version__
from hcam.cli import COMMANDS, main


def test_without_a_command_lists_them(capsys):
    assert main([]) == 0
    out = capsys.readouterr().out
    assert all(f"hcam {name}" in out for name in COMMANDS)


def test_unknown_command_is_named(capsys):
    assert main(["bench", "memroy"]) == 2
    assert "there is no command 'bench memroy'" in capsys.readouterr().err


@pytest.mark.parametrize("words", [["bench"], ["bench", "--help"]])
def test_a_group_of_commands_lists_its_own(words, capsys):
    assert main(words) == 0
    out = capsys.readouterr().out
    assert "hcam bench env" in out
    assert "hcam tasks" not in out


def test_version(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.strip() == f"hcam {__version__}"


def test_help_teaches(capsys):
    with pytest.raises(SystemExit, match="0"):
        main(["bench", "memory", "--help"])
    assert "Chunks recalled per query" in capsys.readouterr().out


def test_runs_as_a_module():
    done = subprocess.run([sys.executable, "-m", "hcam", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == f"hcam {__version__}"


def test_ctrl_c_is_no_accident(monkeypatch, capsys):
    def interrupted():
        raise KeyboardInterrupt

    monkeypatch.setitem(COMMANDS, "tasks", interrupted)
    assert main(["tasks"]) == 130
    assert capsys.readouterr().err == "hcam tasks: stopped.\n"


@pytest.mark.parametrize("words", [["--curriculum", "False"], ["--curriculum=true"], ["--no-curriculum", "False"]])
def test_a_switch_with_a_value_says_how_to_write_it(words, capsys):
    with pytest.raises(SystemExit) as stopped:
        main(["train", "--preset", "fast", *words])
    assert stopped.value.code == 2
    assert "it takes no value: write --curriculum or --no-curriculum.\n" in capsys.readouterr().err


def test_no_word_of_switches_without_one(capsys):
    for words, code in (["train", "--steps", "many"], 2), (["train", "--help"], 0):
        with pytest.raises(SystemExit) as stopped:
            main(words)
        assert stopped.value.code == code
        assert "takes no value" not in "".join(capsys.readouterr())
