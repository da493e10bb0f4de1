from hcam.cli import main


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
