import json
from pathlib import Path

import pytest

from hcam.agent import memories
from hcam.benchmarks import env as bench_env
from hcam.benchmarks import memory
from hcam.benchmarks import train as bench_train
from hcam.cli import main
from hcam.runs.folder import made_by
from tests.benchmarks.test_figure import results
from tests.benchmarks.test_train import results as train_results


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


@pytest.mark.slow
def test_bench_env_measures_and_redraws(tmp_path, capsys):
    words = ["bench", "env", "ballet", "--level", "1_delay1", "--out", str(tmp_path)]
    assert main([*words, "--batch", "1", "2", "--steps", "2", "--rounds", "1"]) == 0
    assert [entry["batch"] for entry in json.loads((tmp_path / "bench.json").read_text())["rates"]] == [1, 2]
    (tmp_path / "bench.png").unlink()
    assert main([*words, "--redraw"]) == 0
    assert (tmp_path / "bench.png").exists()
    assert "steps a second" in capsys.readouterr().out


def test_unwritable_folder_is_refused_before_measuring(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(memory, "run", lambda *args, **options: pytest.fail("measured first"))
    (tmp_path / "file").touch()
    assert main(["bench", "memory", "--out", str(tmp_path / "file" / "inside")]) == 2
    assert "file" in capsys.readouterr().err


def test_bench_train_takes_the_options_of_train_and_prints_shares(tmp_path, capsys, monkeypatch):
    asked = []

    def run(configs, rounds, watched):
        asked.append((configs, rounds, watched))
        return train_results(), {"hcam": [{"operation": "dot.1", "source": "", "calls": 3, "seconds": 2.0}]}

    monkeypatch.setattr(bench_train, "run", run)
    words = ["echo", "--memory", "lstm", "none", "--environments", "6", "--minibatches", "3", "--width", "16"]
    assert main(["bench", "train", *words, "--rounds", "2", "--profile", "--out", str(tmp_path / "new")]) == 0
    ((configs, rounds, watched),) = asked
    assert (rounds, watched) == (2, True)
    assert list(configs) == ["lstm", "none"]
    for name, config in configs.items():
        memory = config.agent.memory
        assert (config.task.task, memories.name_of(memory), memory.width) == ("echo", name, 16)
        assert (config.learner.environments, config.learner.minibatches) == (6, 3)
    kept = json.loads((tmp_path / "new" / "bench.json").read_text())
    assert kept == made_by() | {"created": kept["created"]} | train_results()  # also the commit, where there is one
    assert json.loads((tmp_path / "new" / "profile-hcam.json").read_text())[0]["calls"] == 3
    out = capsys.readouterr().out
    assert "25%" in out
    assert "dot.1" in out
    assert "7.00 GB at most" in out
    assert f"{tmp_path / 'new'}/bench.json" in out.replace("\n", "")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--preset", "papper"], "papper"),
        (["--memory", "lsmt"], "lsmt"),
        (["--task", "waltz"], "no task 'waltz'"),
        (["--rounds", "0"], "rounds must be a whole number of at least 1"),
    ],
)
def test_bench_train_refuses_in_one_sentence(words, sentence, tmp_path, capsys):
    assert main(["bench", "train", "--out", str(tmp_path), *words]) == 2
    err = capsys.readouterr().err
    assert err.startswith("hcam bench train: ")
    assert err.count("\n") == 1
    assert sentence in err


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--width", "33"], "width 33"),
        (["--minibatches", "5"], "cannot be split evenly into 5 minibatches"),
        (["--colour", "red"], "--colour"),
    ],
)
def test_bench_train_refuses_what_train_refuses(words, sentence, tmp_path, capsys):
    with pytest.raises(SystemExit) as stop:
        main(["bench", "train", "--out", str(tmp_path), *words])
    assert stop.value.code == 2
    assert sentence in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"rates": 3}'])
def test_numbers_that_are_damaged_are_named(text, tmp_path, capsys):
    (tmp_path / "bench.json").write_text(text)
    for command in ("memory", "env"):
        assert main(["bench", command, "--redraw", "--out", str(tmp_path)]) == 2
        assert f"{tmp_path}/bench.json is damaged: measure again, without --redraw." in capsys.readouterr().err


def test_no_figure_and_no_number_is_written_through_a_link(tmp_path, capsys, monkeypatch):
    kept = Path(__file__).parents[2] / "results" / "benchmarks" / "env-cpu" / "bench.json"
    monkeypatch.setattr(bench_env, "run", lambda *args, **options: json.loads(kept.read_text()))
    (tmp_path / "precious").write_text("precious")
    for name in ("bench.json", "bench.png"):
        (tmp_path / name).symlink_to(tmp_path / "precious")
    assert main(["bench", "env", "echo", "--out", str(tmp_path)]) == 0
    assert (tmp_path / "precious").read_text() == "precious"
    assert (tmp_path / "bench.png").read_bytes().startswith(b"\x89PNG")
