import json
import subprocess
import sys

import pytest

from hcam import __version__
from hcam.benchmarks import memory
from hcam.cli import COMMANDS, main
from tests.benchmarks.test_figure import results


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


def test_bench_memory_writes_numbers_and_figure_and_redraws(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(memory, "run", lambda sizes, lengths, rounds, say: results())
    assert main(["bench", "memory", "--out", str(tmp_path / "a"), "--heads", "2", "--top-k", "2"]) == 0
    assert json.loads((tmp_path / "a" / "bench.json").read_text())["device"] == "abacus"
    (tmp_path / "a" / "bench.png").unlink()
    assert main(["bench", "memory", "--out", str(tmp_path / "a"), "--redraw"]) == 0
    assert (tmp_path / "a" / "bench.png").exists()
    assert "abacus" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--redraw", "--out", "nowhere"], "there is no bench.json in nowhere"),
        (["--width", "33", "--heads", "1"], "width 33 is odd"),
        (["--heads", "3"], "not divisible by heads 3"),
        (["--lengths", "64"], "every length must hold top-k chunks"),
        (["--rounds", "0"], "rounds must be a whole number of at least 1"),
    ],
)
def test_bad_input_is_one_sentence(words, sentence, capsys):
    assert main(["bench", "memory", *words]) == 2
    err = capsys.readouterr().err
    assert err.startswith("hcam bench memory: ")
    assert err.count("\n") == 1
    assert sentence in err


def test_bench_env_measures_and_redraws(tmp_path, capsys):
    words = ["bench", "env", "ballet", "--level", "1_delay1", "--out", str(tmp_path)]
    assert main([*words, "--batch", "1", "2", "--steps", "2", "--rounds", "1"]) == 0
    assert [entry["batch"] for entry in json.loads((tmp_path / "bench.json").read_text())["rates"]] == [1, 2]
    (tmp_path / "bench.png").unlink()
    assert main([*words, "--redraw"]) == 0
    assert (tmp_path / "bench.png").exists()
    assert "steps a second" in capsys.readouterr().out


def test_tasks_lists_them(capsys):
    assert main(["tasks"]) == 0
    assert "2_delay16" in capsys.readouterr().out


def test_show_writes_a_picture(tmp_path, capsys):
    assert main(["show", "ballet", "--level", "1_delay1", "--out", str(tmp_path / "new" / "x.gif")]) == 0
    assert (tmp_path / "new" / "x.gif").exists()
    assert "20 frames" in capsys.readouterr().out


def test_show_refuses_an_unknown_level(capsys):
    assert main(["show", "ballet", "--level", "9_delay1"]) == 2
    assert "a level is {N}_delay{d}, with N from 1 to 8" in capsys.readouterr().err


def test_unwritable_folder_is_refused_before_measuring(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(memory, "run", lambda *args, **options: pytest.fail("measured first"))
    (tmp_path / "file").touch()
    assert main(["bench", "memory", "--out", str(tmp_path / "file" / "inside")]) == 2
    assert "file" in capsys.readouterr().err


def test_runs_as_a_module():
    done = subprocess.run([sys.executable, "-m", "hcam", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == f"hcam {__version__}"
