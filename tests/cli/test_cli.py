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
    code = "from hcam.cli import main; print('begun', flush=True); raise SystemExit(main(['tasks']))"
    met = 0
    for pause in (0.02, 0.1, 0.2, 0.35, 0.5):
        process = subprocess.Popen(
            [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        process.stdout.readline()  # before, Python itself is starting
        time.sleep(pause)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
        assert process.returncode in (0, 130)  # 0: it was faster
        assert err == ("hcam tasks: stopped.\n" if process.returncode else "")
        met += process.returncode == 130
    assert met


def test_words_that_are_empty_are_named(capsys):
    for words, sentence in (
        (["train", "--task", ""], "there is no task ''"),
        (["train", "--preset", ""], "ballet has no preset ''"),
        (["train", "--memory", ""], "there is no memory ''"),
        (["train", "--resume", ""], "is no run folder"),
    ):
        assert main(words) == 2
        assert sentence in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [
        ["eval", "run", "--level", "a", "--level", "b"],
        ["eval", "run", "--out=a", "--out", "b"],
        ["report", "run", "--out", "a", "--out", "b"],
        ["reproduce", "ballet", "--seed", "1", "--seed", "2"],
        ["export", "run", "out", "--best", "--no-best"],
        ["show", "ballet", "--env-arg", "tile=1", "--env_arg", "tile=3"],
        ["bench", "env", "--batch", "1", "--batch", "2"],
        ["bench", "train", "--memory", "hcam", "--memory", "lstm"],
        ["train", "--env-arg", "tile=1", "--env_arg=tile=3"],
    ],
)
def test_which_of_two_values_is_meant_is_not_guessed_by_any_command(words, capsys):
    assert main(words) == 2
    assert "is given twice: give it once, with all of its values." in capsys.readouterr().err


EMPTY = (["eval", ""], ["report", ""], ["export", "run", ""], ["show", ""], ["bench", "env", ""])


@pytest.mark.parametrize("words", EMPTY)
def test_an_empty_word_is_not_taken_for_the_folder_one_is_in(words, tmp_path, monkeypatch, capsys):
    """As of `hcam report "$RUN"` where RUN is not set."""
    monkeypatch.chdir(tmp_path)
    assert main(words) == 2
    assert "one of the words is empty" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_what_the_system_refuses_is_told_without_a_number(tmp_path, capsys):
    (tmp_path / "file").touch()
    assert main(["bench", "env", "echo", "--out", str(tmp_path / "file" / "below")]) == 2
    assert capsys.readouterr().err == f"hcam bench env: Not a directory: {tmp_path / 'file' / 'below'}.\n"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no processes to fork")
def test_output_that_nobody_reads_is_no_accident():
    done = subprocess.run(f"{sys.executable} -m hcam tasks | true", shell=True, capture_output=True, text=True)
    assert "Traceback" not in done.stderr


def test_help_ends_in_a_terminal_of_one_column():
    words = [sys.executable, "-m", "hcam", "train", "--help"]
    done = subprocess.run(words, env=os.environ | {"COLUMNS": "1"}, capture_output=True, timeout=60)
    assert done.returncode == 0
    assert done.stdout
