import os
import signal
import subprocess
import sys
import time

import pytest

from hcam import __version__
from hcam.cli import COMMANDS, main, tasks


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

    monkeypatch.setattr(tasks, "tasks", interrupted)
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


def test_the_version_is_there_at_once():
    """Neither JAX nor the parser of options is imported for it."""
    code = "import sys; from hcam.cli import main; main(['--version']); print(*({'jax', 'tyro'} & sys.modules.keys()))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["hcam", __version__]


@pytest.mark.parametrize("words", [["--help"], ["tasks", "--help"], ["train", "--help"], ["bench"]])
def test_help_needs_no_docstrings(words):
    """python -OO drops them."""
    done = subprocess.run([sys.executable, "-OO", "-m", "hcam", *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "hcam" in done.stdout


def test_ctrl_c_while_importing_is_one_line():
    """At many moments of the first second, in which JAX is imported."""
    for pause in (0.25, 0.4, 0.55, 0.7, 0.85):
        process = subprocess.Popen(
            [sys.executable, "-m", "hcam", "tasks"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        time.sleep(pause)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
        if process.returncode == 0:  # it was faster
            continue
        assert process.returncode in (130, -signal.SIGINT)
        if "hcam/cli" in err or "stopped" in err:
            assert err == "hcam tasks: stopped.\n"


def test_words_that_are_empty_are_named(capsys):
    for words, sentence in (
        (["train", "--task", ""], "there is no task ''"),
        (["train", "--preset", ""], "ballet has no preset ''"),
        (["train", "--memory", ""], "there is no memory ''"),
        (["train", "--resume", ""], "is no run folder"),
    ):
        assert main(words) == 2
        assert sentence in capsys.readouterr().err


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no processes to fork")
def test_output_that_nobody_reads_is_no_accident():
    done = subprocess.run(f"{sys.executable} -m hcam tasks | true", shell=True, capture_output=True, text=True)
    assert "Traceback" not in done.stderr


def test_help_ends_in_a_terminal_of_one_column():
    words = [sys.executable, "-m", "hcam", "train", "--help"]
    done = subprocess.run(words, env=os.environ | {"COLUMNS": "1"}, capture_output=True, timeout=60)
    assert done.returncode == 0
    assert done.stdout
