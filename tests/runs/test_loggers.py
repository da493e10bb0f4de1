"""TensorBoard and Weights & Biases: the same rows, under names with slashes."""

import math
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


def test_tensorboard_for_real(tmp_path):
    pytest.importorskip("tensorboardX", reason="the extra hcam[tensorboard] is not installed")
    (logger,) = loggers(tmp_path, True, False, {})
    logger.write(row())
    logger.close()
    (events,) = (tmp_path / "tensorboard").iterdir()
    assert b"success/4_delay16" in events.read_bytes()
