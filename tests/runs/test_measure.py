import pytest

from hcam.runs import measure
from hcam.runs.measure import RETURN, SUCCESS

PART = {"success": 0.5, "low": 0.4, "high": 0.6, "return": 4.25, "return_low": 4.0, "return_high": 4.5}


def test_each_measure_reads_its_own_entries():
    assert (SUCCESS.text(SUCCESS.score(PART)), SUCCESS.around(PART)) == ("50.0 %", "40.0 to 60.0")
    assert (RETURN.text(RETURN.score(PART)), RETURN.around(PART, "-")) == ("4.25", "4.00-4.50")
    assert RETURN.text(26.83) == "26.8"
    assert (RETURN.interval(PART), SUCCESS.interval({"low": 0.4})) == ((4.0, 4.5), None)


@pytest.mark.parametrize("one", [SUCCESS, RETURN])
def test_what_is_unknown_is_a_dash(one):
    assert one.text(None) == one.bare(float("nan")) == "-"
    assert one.score({}) is None
    assert one.around({}) == ""


def test_only_a_return_is_compared_with_the_oracle():
    assert RETURN.of_oracle(16.0, 32.0) == "50 % of the oracle"
    assert SUCCESS.of_oracle(0.5, 1.0) == RETURN.of_oracle(1.0, None) == RETURN.of_oracle(None, 1.0) == ""
    assert RETURN.of_oracle(1.0, 0.0) == ""


def test_run_folders_of_earlier_versions_are_scored_by_success():
    assert measure.find(None) is measure.find("success") is measure.find(["?"]) is SUCCESS
    assert measure.find("return") is RETURN
