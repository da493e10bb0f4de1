"""TensorBoard and Weights & Biases: the same rows, under names with slashes."""

import math
import os
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from hcam.runs.loggers import loggers, scalars
from tests.runs.test_progress import row


def test_scalars_are_named_with_slashes():
    found = dict(scalars(row(seeds=[{"success": 0.5}], levels={"a": {"episodes": 0, "success": None}})))
    assert found["loss/policy"] == -0.01
    assert found["seed_0/success"] == 0.5
    assert found["rate"] == 4012.0
    assert "success/a" not in found
    assert dict(scalars(row()))["success/4_delay16"] == 0.25
    assert math.isnan(dict(scalars({"losses": {"policy": math.nan}}))["loss/policy"])


def test_what_is_no_number_is_left_out():
    odd = {
        "levels": [1],
        "seeds": {"a": 1},
        "losses": "x",
        "steps": 10**400,
        "health": {"a": 10**400, "b": None, "c": 1},
    }
    assert dict(scalars(odd)) == {"seeds/a": 1.0, "health/c": 1.0}
    assert dict(scalars({"levels": {"a": 3, "b": {"success": 1}}, "seeds": [None, 1, {"x": 2}]})) == {
        "success/b": 1.0,
        "seed_2/x": 2.0,
    }


@pytest.mark.parametrize(("module", "extra"), [("tensorboardX", "tensorboard"), ("wandb", "wandb")])
def test_missing_logger_names_the_extra(module, extra, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, module, None)  # what makes an import fail
    assert loggers(tmp_path, False, False, {}) == []
    with pytest.raises(ValueError, match=rf'pip install "hcam\[{extra}\]"'):
        loggers(tmp_path, extra == "tensorboard", extra == "wandb", {})


def test_tensorboard_forgets_what_a_resumed_run_repeats(tmp_path, monkeypatch):
    told: list[Any] = []

    class Writer:
        def __init__(self, folder, purge_step):
            told.append((folder, purge_step))

        def add_scalar(self, name, value, step):
            told.append((name, value, step))

        def close(self):
            told.append("closed")

    monkeypatch.setitem(sys.modules, "tensorboardX", SimpleNamespace(SummaryWriter=Writer))
    (logger,) = loggers(tmp_path, True, False, {})
    logger.write(row(steps=7))
    logger.close()
    assert told[0] == (str(tmp_path / "tensorboard"), 7)
    assert ("success/4_delay16", 0.25, 7) in told
    assert told[-1] == "closed"


def test_tensorboard_that_never_wrote_closes(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorboardX", SimpleNamespace())
    loggers(tmp_path, True, False, {})[0].close()


def test_wandb_goes_on_in_the_same_run(tmp_path, monkeypatch):
    begun: list[Any] = []
    logged: list[Any] = []

    def init(**options):
        begun.append(options)
        log = lambda values, step: logged.append((values, step))  # noqa: E731
        return SimpleNamespace(id=options["id"] or "abc", log=log, finish=lambda: logged.append("finished"))

    monkeypatch.setitem(sys.modules, "wandb", SimpleNamespace(init=init))
    for _ in range(2):
        (logger,) = loggers(tmp_path, False, True, {"seed": 3})
    logger.write(row(steps=7))
    logger.close()
    assert [options["id"] for options in begun] == [None, "abc"]
    assert begun[0]["project"] == "hcam"
    assert begun[0]["config"] == {"seed": 3}
    assert begun[0]["dir"] == str(tmp_path)
    assert logged[0][0]["success/2_delay2_of4"] == 0.61
    assert logged[0][1] == 7
    assert logged[-1] == "finished"


def test_an_id_of_wandb_is_an_id_and_no_link(tmp_path, monkeypatch):
    begun: list[Any] = []

    def init(**options):
        begun.append(options["id"])
        return SimpleNamespace(id="new")

    monkeypatch.setitem(sys.modules, "wandb", SimpleNamespace(init=init))
    for text in (b"", b"a/../b", b"x" * 200, b"\xff", b"a\nb"):
        (tmp_path / "wandb.id").write_bytes(text)
        loggers(tmp_path, False, True, {})
        assert (tmp_path / "wandb.id").read_text() == "new"
    assert begun == [None] * 5
    (tmp_path / "mine").write_text("mine")
    (tmp_path / "wandb.id").unlink()
    (tmp_path / "wandb.id").symlink_to("mine")
    loggers(tmp_path, False, True, {})
    assert (tmp_path / "mine").read_text() == "mine"
    assert begun[-1] == "mine"  # reading through a link is allowed


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_an_id_that_is_a_pipe_is_not_waited_for(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "wandb", SimpleNamespace(init=None))
    os.mkfifo(tmp_path / "wandb.id")
    with pytest.raises(OSError, match=r"wandb\.id is a named pipe"):
        loggers(tmp_path, False, True, {})


def test_tensorboard_for_real(tmp_path):
    pytest.importorskip("tensorboardX", reason="the extra hcam[tensorboard] is not installed")
    (logger,) = loggers(tmp_path, True, False, {})
    logger.write(row())
    logger.close()
    (events,) = (tmp_path / "tensorboard").iterdir()
    assert b"success/4_delay16" in events.read_bytes()
