"""`hcam export`."""

from pathlib import Path

import tyro

from hcam.runs.text import printable


def export(
    run: tyro.conf.Positional[Path],
    out: tyro.conf.Positional[Path],
    best: bool = False,
    seed: int = 0,
) -> int:
    """Write a trained agent to a small folder, to give away: parameters in bfloat16, and what made it.

    Args:
        run: A run folder, an exported folder, or pretrained:NAME; the latter two are copied.
        out: A folder that does not exist yet.
        best: Take the checkpoint that was best in training instead of the last one.
        seed: Which of the seeds that were trained at once; the first is 0.
    """
    from hcam.runs import pretrained

    pretrained.export(run, out, best=best, seed=seed)
    files = sorted(out.iterdir())
    for path in files:
        print(f"{printable(path)}  {size(path.stat().st_size)}")
    total = size(sum(path.stat().st_size for path in files))
    print(f"in all {total}; evaluate it with:  hcam eval {printable(out)}")
    return 0


def size(count: int) -> str:
    """In the unit that leaves few digits."""
    for unit, bytes_of in (("MB", 10**6), ("kB", 10**3)):
        if count >= bytes_of:
            return f"{count / bytes_of:.1f} {unit}"
    return f"{count} bytes"
