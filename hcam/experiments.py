"""The paper's experiments as data: what each one trains, and what the paper reports of it.

Only Ballet so far. Numbers are copied from the paper ("Towards mental time travel", arXiv 2105.14039) where it prints
them; where it has a curve alone, `said` has its words instead.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from hcam.envs.choreography import PAPER_LEVELS

PRESET = "fast"  # that every experiment starts from
EXTRA = "eval-other-levels.json"  # where a run's evaluation on levels that it never learned goes

Group = Literal["memory", "held out", "variant"]


@dataclass(frozen=True)
class Reported:
    """Success in per cent, as printed: mean and standard deviation over runs, or a bound where there is none."""

    mean: float
    deviation: float | None = None

    def __str__(self) -> str:
        return f"at least {self.mean:g}" if self.deviation is None else f"{self.mean} ± {self.deviation}"


@dataclass(frozen=True)
class Experiment:
    name: str
    title: str
    words: tuple[str, ...] = ()  # options of `hcam train` besides the preset
    seeds: tuple[int, ...] = (0,)
    paper: Mapping[str, Reported] = field(default_factory=dict)  # by level, where the paper prints a number
    said: str = ""  # the paper's words, where it prints no number or has more to say
    evaluate: tuple[str, ...] = ()  # levels that are played after training and never learned
    group: Group = "variant"

    @property
    def options(self) -> dict[str, tuple[str, ...]]:
        """What makes the experiment, by the names that its settings have in config.json."""
        return {"memory": ("hcam",)} | options(self.words)

    @property
    def levels(self) -> tuple[str, ...]:
        """Those of training first."""
        return (*(options(self.words).get("levels") or PAPER_LEVELS), *self.evaluate)

    def folder(self, root: Path, seed: int) -> Path:
        return root / f"{self.name}-{seed}"

    def train(self, folder: Path, seed: int, more: Sequence[str] = ()) -> list[str]:
        """The words after `hcam train`."""
        return ["--preset", PRESET, *self.words, *more, "--seed", str(seed), "--run", folder.as_posix()]

    def commands(self, folder: Path, seed: int, more: Sequence[str] = ()) -> list[str]:
        """What to type to have the run."""
        lines = [" ".join(["hcam train", *self.train(folder, seed, more)])]
        if self.evaluate:
            lines += [
                f"hcam eval {folder.as_posix()} --level {' '.join(self.evaluate)} --out {(folder / EXTRA).as_posix()}"
            ]
        return lines


def options(words: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """{"top_k": ("1",)} of ("--top-k", "1")."""
    found: dict[str, tuple[str, ...]] = {}
    name = ""
    for word in words:
        if word.startswith("--"):
            name = word.removeprefix("--").replace("-", "_")
            found[name] = ()
        else:
            found[name] += (word,)
    return found


# Numbers: appendix "Detailed results", table "Numerical results from main experiments/figures": mean and standard
# deviation over 3 runs, average over evaluations during the last 1 % of training. It has three of the six levels. The
# others are curves without numbers (HCAM and TrXL, appendix "Varying chunk sizes") or not there at all (LSTM).
BALLET = (
    Experiment(
        "hcam",
        "HCAM",
        seeds=(0, 1, 2),
        paper={"2_delay16": Reported(99.8, 0.3), "8_delay16": Reported(98.1, 3.3), "8_delay48": Reported(97.2, 2.5)},
        group="memory",
    ),
    Experiment(
        "trxl",
        "Gated TransformerXL",
        ("--memory", "trxl"),
        paper={"2_delay16": Reported(96.9, 1.4), "8_delay16": Reported(65.7, 13.7), "8_delay48": Reported(49.2, 13.0)},
        said="\"With 8 dances per episode [...] TrXL's performance degrades, even though the entire task is short "
        'enough to fit within a single TrXL attention window." Its window is 320 steps, as ours: 8 dances with delay '
        "16 take 248, with delay 48 they take 504.",
        group="memory",
    ),
    Experiment(
        "lstm",
        "LSTM",
        ("--memory", "lstm"),
        paper={"2_delay16": Reported(97.4, 1.8), "8_delay16": Reported(25.2, 2.7), "8_delay48": Reported(29.7, 9.4)},
        said='"LSTM agents learn much more slowly": in the shortest ballets they "require much more training", with 8 '
        'dances they "do not get far above chance at choosing among the dancers".',
        group="memory",
    ),
    # Section "Remembering the ballet": "HCAM can also generalize well (>= 90%) from training on up to 6 dances to
    # testing on 8". Appendix "Ballet generalization": 8 dances, "either short or long delays", two seeds; figure only.
    Experiment(
        "hcam-246",
        "HCAM, trained on 2, 4 and 6 dances",
        ("--levels", "2_delay16", "4_delay16", "6_delay16", "2_delay48", "4_delay48", "6_delay48"),
        paper={"8_delay16": Reported(90.0), "8_delay48": Reported(90.0)},
        said='"HCAM can also generalize well (≥ 90 %) from training on up to 6 dances to testing on 8"; TrXL does not. '
        "Two seeds; otherwise a figure.",
        evaluate=("8_delay16", "8_delay48"),
        group="held out",
    ),
    # Appendix "Varying k for memory selection", caption of its figure. The same text says that the main experiments
    # used k = 16, the table of hyper-parameters says 8 for Ballet; ours is 8.
    Experiment(
        "hcam-k1",
        "HCAM, top-k 1",
        ("--top-k", "1"),
        said='"On the ballet tasks, HCAM can learn fairly well even with k = 1, both for the shorter and longer '
        'tasks." One seed.',
    ),
    # Appendix "The importance of self-supervised learning", caption of its figure.
    Experiment(
        "hcam-norec",
        "HCAM, without reconstruction",
        ("--reconstruction", "0"),
        said='Reconstruction is necessary: without it "the model [...] fails to achieve substantially-above-chance '
        'performance" in Ballet. Two runs.',
    ),
    # Appendix "Varying chunk sizes". The text names 12 and 32; 16 and 64 are those of the table of sweeps (appendix
    # A.2). As many slots as hold the 576 steps of presets.fast.
    Experiment(
        "hcam-chunk16",
        "HCAM, chunks of 16",
        ("--chunk", "16", "--slots", "36"),
        said='"The performance of the HCAM model is robust to varying chunk size." Three seeds; the text names 12 and '
        "32, the sweep had 16, 32 and 64.",
    ),
    Experiment("hcam-chunk64", "HCAM, chunks of 64", ("--chunk", "64", "--slots", "9"), said="As for chunks of 16."),
    # Appendix "Memory layer gating": its figure has rapid word learning alone.
    Experiment(
        "hcam-gated",
        "HCAM, with gated layers",
        ("--gated", "True"),
        said='Not shown for Ballet. For rapid word learning: "HCAM actually learns slightly more slowly when its '
        'layers are gated."',
    ),
    # Appendix "Sparsity without hierarchy: a top-k TrXL": "We chose k = 16 to match HCAM."
    Experiment(
        "trxl-topk",
        "Gated TransformerXL, top-k 16",
        ("--memory", "trxl", "--trxl-top-k", "16"),
        said='It "performs comparably to a standard TrXL on the ballet tasks (i.e. does not perform as well as HCAM)". '
        "Two seeds.",
    ),
)

TASKS: dict[str, tuple[Experiment, ...]] = {"ballet": BALLET}


def of_task(task: str) -> tuple[Experiment, ...]:
    if task not in TASKS:
        raise ValueError(f"there are no experiments for {task!r}: there are some for {', '.join(TASKS)}.")
    return TASKS[task]


def find(task: str, name: str) -> Experiment:
    known = {experiment.name: experiment for experiment in of_task(task)}
    if name not in known:
        raise ValueError(f"there is no experiment {name!r} for {task}: there are {', '.join(known)}.")
    return known[name]
