"""What a task is scored by, the success of its episodes or their return, and how such numbers are named and written.

Everything that shows a score, or chooses by one, asks here: rows of metrics.jsonl and eval.json have both.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from hcam.runs.text import finite

Name = Literal["success", "return"]


@dataclass(frozen=True)
class Measure:
    name: Name  # of its entry in a row
    title: str  # as a heading
    scale: float  # from the entry to what is shown
    unit: str
    low: str  # the entries of an evaluation that have its 95 % interval
    high: str
    least: float  # below every score, or equal to the lowest: what a level counts that was not played
    way: str  # of acting, "greedy" or "sampled", whose evaluation counts in tables and on pages

    def bare(self, value: Any) -> str:
        """Returns a score without its unit, or "-" where it is unknown."""
        known = finite(value)
        if known is None:
            return "-"
        shown = self.scale * known
        return f"{shown:.{1 if self.unit or abs(shown) >= 10 else 2}f}"

    def text(self, value: Any) -> str:
        """Returns a score as 61.0 %, or as 4.31 or 26.8, or "-" where it is unknown."""
        known = finite(value)
        return "-" if known is None else self.bare(known) + self.unit

    def score(self, part: Mapping[str, Any]) -> float | None:
        """Returns the score of a row or of a level's part of it; None where it has none."""
        return finite(part.get(self.name))

    def interval(self, part: Mapping[str, Any]) -> tuple[float, float] | None:
        """Returns the 95 % interval of an evaluation."""
        low, high = finite(part.get(self.low)), finite(part.get(self.high))
        return None if low is None or high is None else (low, high)

    def around(self, part: Mapping[str, Any], joint: str = " to ") -> str:
        """Returns the interval of an evaluation as text; nothing where it has none."""
        ends = self.interval(part)
        return "" if ends is None else joint.join(map(self.bare, ends))

    def of_oracle(self, value: Any, oracle: Any) -> str:
        """Returns what part of the oracle's mean return a score is; nothing where there is none to compare with."""
        known, full = finite(value), finite(oracle)
        if self.name != "return" or known is None or full is None or full <= 0:
            return ""
        return f"{100 * known / full:.0f} % of the oracle"


SUCCESS = Measure(
    name="success",
    title="Success",
    scale=100.0,
    unit=" %",
    low="low",
    high="high",
    least=0.0,
    way="greedy",
)
RETURN = Measure(
    name="return",
    title="Return",
    scale=1.0,
    unit="",
    low="return_low",
    high="return_high",
    least=-1e30,
    way="sampled",  # an agent that must explore before it knows where to go may walk in circles if it never varies
)
MEASURES: dict[str, Measure] = {measure.name: measure for measure in (SUCCESS, RETURN)}


def find(scored_by: Any) -> Measure:
    """Returns a measure by its name; success where a run folder says nothing, as those of earlier versions."""
    return MEASURES.get(f"{scored_by}", SUCCESS)
