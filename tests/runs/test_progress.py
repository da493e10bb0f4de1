import io
import math
import re

import pytest
from rich.console import Console

from hcam.runs.measure import RETURN
from hcam.runs.progress import Display, View, line, picture, sparkline
from hcam.runs.text import clock, finite, number, percent, printable


class Terminal(io.StringIO):
    def isatty(self):
        return True


def row(steps=245_760, **changed):
    level = {"episodes": 310, "success": 0.61, "return": 0.61, "length": 44.0}
    return {
        "update": steps // 2048,
        "steps": steps,
        "seconds": 61.2,
        "rate": 4012.0,
        "learning_rate": 0.001,
        "losses": {"policy": -0.01, "rho": 1.0},
        "levels": {"2_delay2_of4": level, "4_delay16": level | {"success": 0.25}},
        "success": 0.43,
        "return": 0.43,
    } | changed


ODD_ROWS = [
    {"steps": 1},
    row(rate=None, seconds=None, success=None, learning_rate=None, **{"return": None}),
    row(rate=math.nan, success=math.nan, losses={"policy": math.nan, "image": None, "entropy": math.inf}),
    row(rate=0.0, levels={"a": {"episodes": 0, "success": None}, "b": None}, losses=None),
    row(levels={}, seeds=[{"success": 0.1}, {"success": None}, None]),
    row(rate=10**400, seconds=10**400, success=10**400, steps=10**400, losses={"x": -(10**400)}, **{"return": 10**400}),
    row(rate=1e-300, seconds=1e300, success="half", losses={"x": "y", "z": [1]}) | {"steps": "many"},
    row(levels=[1, 2], losses=["policy"], seeds={"a": 1}, health="fine"),
    row(levels="levels", losses=3, seeds="seeds", diagnostics=[{}]),
    row(levels={"a": [1], "b": "x", "c": 3, "": {}}, seeds=[1, "x", [], {"success": 0.5}, {"success": 1}]),
    row(levels={"all": {"success": 0.5}, "日本" * 20: {}, "\x1b[31m\n\u202e\udcff": {"success": 1.0}}),
    row(levels={3: {"success": 0.5}}, losses={None: 1.0, "a": {"b": 1}}),
    row(steps=9_000_000, levels={"[/bold] a level with a very long name, and brackets [red]": {"success": 2.0}}),
]


def terminal(width=100, height=40):
    return Console(file=Terminal(), force_terminal=True, width=width, height=height, _environ={"TERM": "xterm"})


def printed(display_of, encoding="utf-8"):
    """What a display writes to a file."""
    raw = io.BytesIO()
    file = io.TextIOWrapper(raw, encoding=encoding, write_through=True)
    display_of(Console(file=file, width=40, _environ={}))
    return raw.getvalue().decode(encoding)


def test_values_as_people_read_them():
    assert [percent(value) for value in (0.61, 1, None, math.nan)] == ["61.0 %", "100.0 %", "-", "-"]
    assert [number(value) for value in (-0.01, 0, 1e-5, 3e5, None)] == ["-0.010", "0.000", "1.0e-05", "3.0e+05", "-"]
    assert [number(value) for value in (10**400, -(10**400), "x", [1])] == ["inf", "-inf", "-", "-"]
    assert [finite(value) for value in (10**400, -(10**400), math.nan, "1", None, True)] == [None] * 5 + [1.0]
    assert [clock(value) for value in (1e300, 10**400, "x", -5)] == ["?", "?", "?", "0:00"]
    assert number(math.nan) == "nan"  # a loss that is lost must be seen
    assert [clock(value) for value in (7, 440, 3723.4, None, math.inf)] == ["0:07", "7:20", "1:02:03", "?", "?"]


def test_sparkline_has_one_scale_and_gaps():
    assert sparkline([0, 0.5, 1]) == "▁▅█"
    assert sparkline([0.9, 0.95]) == "▇█"  # not stretched to its own range
    assert sparkline([None, math.nan, 1.7]) == "  █"


def test_line_says_everything_once():
    view = View("run", 2_000_000).seen(row())
    assert line(view) == (
        "  245,760 / 2,000,000 steps  4,012/s  eta 7:17  success 43.0 %  return 0.430  2_delay2_of4 61.0 %  "
        "4_delay16 25.0 %  policy -0.010  rho 1.000  learning_rate 0.001"
    )


def test_line_tells_seeds_apart():
    text = line(View("run", 10).seen(row(seeds=[{"success": 0.1}, {"success": 0.9}, {"success": 0.5}])))
    assert "3 seeds 10.0 % to 90.0 %" in text


def test_rate_is_smoothed():
    view = View("run", 10**6).seen(row(rate=1000.0)).seen(row(rate=2000.0))
    assert view.speed == "1,200/s"
    assert view.seen(row(rate=None)).rate == view.rate


def test_plain_lines_are_few_but_first_and_last_come():
    now = iter(float(second) for second in range(1000))
    rows = [row(steps=100 * n) for n in range(1, 31)]

    def run(console):
        with Display(3000, "title", console, now=lambda: next(now)) as display:
            for one in rows:
                display.update(one)

    lines = printed(run).splitlines()
    assert lines[0] == "title"
    assert lines[1].startswith("  100 / 3,000 steps")
    assert lines[-1].startswith("3,000 / 3,000 steps")
    assert 5 < len(lines) < 12  # a line each second came in, one in about five went out
    assert not any("\x1b" in text for text in lines)


def test_last_line_is_not_printed_twice():
    def run(console):
        with Display(100, "title", console) as display:
            display.update(row(steps=100))

    assert printed(run).count("100 / 100 steps") == 1


def test_plain_lines_tell_stages_and_events():
    def run(console):
        with Display(100, "title", console, now=lambda: 0.0) as display:
            display.say("resumed [from] 5 steps")
            display.compiling()
            for done in range(0, 501, 100):
                display.evaluating(done, 500)
            for steps in (1, 2, 3):
                display.update(row(steps=steps))

    text = printed(run)
    assert "resumed [from] 5 steps\n" in text
    assert "compiling" in text
    assert [word for word in text.splitlines() if "evaluating" in word] == [
        "evaluating 0 / 500",
        "evaluating 500 / 500",
    ]
    assert [word.split(" /")[0].strip() for word in text.splitlines() if " steps  " in word] == ["1", "3"]


def test_evaluation_does_not_push_out_the_last_row():
    def run(console):
        with Display(100, "title", console, now=lambda: 0.0) as display:
            display.update(row(steps=50))
            display.update(row(steps=100))
            display.evaluating(0, 500)
            display.evaluating(500, 500)

    starts = [text[:9].strip() for text in printed(run).splitlines()]
    assert starts == ["title", "50 / 100", "100 / 100", "evaluatin", "evaluatin"]


def test_ascii_log_files_take_every_line():
    def run(console):
        with Display(100, "café ▁▂", console) as display:
            display.update(row(levels={"é": {"success": 1.0}}))

    text = printed(run, "ascii")
    assert "caf?" in text
    assert "? 100.0 %" in text


def test_forced_colour_is_not_a_terminal():
    def run(console):
        forced = Console(file=console.file, _environ={"FORCE_COLOR": "1", "TERM": "xterm"})
        assert forced.is_terminal
        with Display(100, "title", forced) as display:
            display.update(row())

    assert "\x1b[?25l" not in printed(run)


@pytest.mark.parametrize("width", [1, 12, 40, 100])
@pytest.mark.parametrize("odd", range(len(ODD_ROWS)))
def test_no_row_and_no_width_breaks_the_display(odd, width):
    for total in (0, 1000):
        view = View("a title [/] of some length", total, "training").seen(ODD_ROWS[odd]).seen(row())
        for seen in (view, view.seen(ODD_ROWS[odd])):
            terminal(width).print(picture(seen, None, width))
            assert line(seen)


NAMES = ["[/x]", "run[bold]", "x$\\foo$", "\x1b]0;mine\x07\x1b[31m", "a\nb\rc", "\u202eabc", "\udcff", "x" * 5000, ""]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("encoding", ["utf-8", "ascii", "latin-1"])
def test_any_name_is_shown_and_none_acts_on_the_terminal(name, encoding):
    def run(console):
        with Display(100, name, console, now=lambda: 0.0) as display:
            display.say(name)
            display.update(row(levels={name: {"success": 1.0}}, losses={name: 1.0}))

    text = printed(run, encoding)
    assert printable(name).encode(encoding, "replace").decode(encoding) in text
    assert not [c for c in text if not c.isprintable() and c != "\n"]
    assert text.count("\n") == 3  # title, line, row


@pytest.mark.parametrize("name", NAMES)
def test_any_name_is_shown_live(name):
    console = terminal()
    with Display(100, name, console) as display:
        display.update(row(levels={name: {"success": 1.0}}, losses={name: 1.0}))
        display.say(name)
        refresh(display)
    text = console.file.getvalue()
    assert "\x1b]0;" not in text
    assert "\x07" not in text
    assert printable(name)[:20] in text


def test_all_groups_of_a_row_are_shown():
    """Whatever they are called: the learner decides."""
    groups = {"losses": {"policy": 0.5, "entropy": -2.0}, "diagnostics": {"ratio_deviation": 0.25, "entropy": 2.0}}
    text = line(View("run", 10).seen({"steps": 1, **groups}))
    assert "policy 0.500  losses entropy -2.000  ratio_deviation 0.250  diagnostics entropy 2.000" in text
    console = terminal()
    console.print(picture(View("run", 10).seen({"steps": 1, **groups}), None, 100))
    for shown in ("ratio_deviation 0.250", "diagnostics entropy 2.000"):
        assert shown in re.sub(r"\x1b\[[0-9;]*m", "", console.file.getvalue())


def refresh(display):
    assert display._live is not None
    display._live.refresh()


def test_live_display_shows_a_run():
    console = terminal()
    with Display(2_000_000, "ballet, hcam", console) as display:
        display.compiling()
        refresh(display)
        assert "compiling" in console.file.getvalue()
        for n in range(40):
            display.update(row(steps=50_000 * (n + 1), success=n / 40))
        display.say("checkpoint saved")
        display.evaluating(100, 500)
        refresh(display)
        assert "evaluating 100 / 500" in console.file.getvalue()
    text = console.file.getvalue()
    last = text[text.rindex("ballet, hcam") :]
    for shown in ("2,000,000 / 2,000,000 steps", "4,012/s", "4_delay16", "25.0 %", "last 30 rows", "▃▃▄▄", "-0.010"):
        assert shown in last
    assert "evaluating" not in last  # the picture that stays says nothing that goes on
    assert text.count("checkpoint saved") == 1


def test_narrow_terminal_keeps_what_matters():
    view = View("title", 2_000_000).seen(row())
    console = terminal(30)
    console.print(picture(view, None, 30))
    assert "61.0 %" in console.file.getvalue()
    assert "last 30 rows" not in console.file.getvalue()


def interrupted(display):
    with display:
        display.update(row())
        raise KeyboardInterrupt


def test_interrupt_passes_and_the_cursor_comes_back():
    console = terminal()
    with pytest.raises(KeyboardInterrupt):
        interrupted(Display(100, "title", console))
    text = console.file.getvalue()
    assert text.rindex("\x1b[?25h") > text.rindex("\x1b[?25l")
    assert console._live_stack == []  # the next display can start


# Tasks that are scored by their return


def test_returns_are_shown_with_the_part_of_the_oracles():
    levels = {"a": {"return": 8.0, "success": 1.0, "episodes": 3}, "b": {"return": None, "episodes": 0}}
    seeds = [{"return": 7.0, "success": 1.0}, {"return": 9.0, "success": 1.0}]
    view = View("title", 100, measure=RETURN, oracle={"a": 32.0}).seen(
        {"steps": 50, "rate": 1.0, "success": 1.0, "return": 8.0, "levels": levels, "seeds": seeds}
    )
    text = line(view)
    assert "return 8.00  2 seeds 7.00 to 9.00  a 8.00 (25 % of the oracle)  b -" in text
    assert "success" not in text
    console = Console(file=io.StringIO(), width=100, record=True)
    console.print(picture(view, None, 100))
    shown = console.export_text()
    assert re.search(r"a +8.00 +25.0 % +3 +▃", shown)
    assert "of oracle" in shown
