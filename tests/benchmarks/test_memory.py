import re
from dataclasses import replace

import jax
import pytest

from hcam.benchmarks import memory
from hcam.benchmarks.memory import CPU, PAPER, Sizes

TINY = Sizes(batch=1, actors=2, unroll=8, width=8, heads=2, chunk=4, top_k=2, layers=1)


@pytest.mark.slow
def test_measures_everything_that_is_promised():
    with jax.numpy_dtype_promotion("standard"):  # jax.nn.dot_product_attention promotes inside
        results = memory.run(TINY, (16, 32), rounds=1)
    assert [entry["name"] for entry in results["paper"]] == list(PAPER)
    assert [entry["length"] for entry in results["read"]] == [entry["length"] for entry in results["act"]] == [16, 32]
    for entry in results["paper"] + results["read"]:
        assert entry["difference"] < 1e-5  # it is the same function that is timed
        for part in ("forward", "both"):
            assert set(entry[part]) >= {"dense", "gather", "released", "full"}
            assert all(cost["seconds"] > 0 for cost in entry[part].values())
    assert all(set(entry) == {"length", "hcam", "hcam_cached", "full"} for entry in results["act"])


@pytest.mark.slow
def test_acting_holds_the_past_and_copies_none_of_it():
    """Scratch memory that grew with the history would mean that a step copies the ring (see `ring.put`)."""
    for actors in (1, 2):
        sizes = replace(TINY, actors=actors, layers=3)
        short, long = (memory.measure_acting(sizes, length, rounds=1, steps=4) for length in (256, 4096))
        for name in ("hcam", "hcam_cached"):
            grown = long[name]["scratch"] - short[name]["scratch"]
            ring = 4096 * sizes.width * 4 * actors
            # A step may hold one score per chunk and a sort of them, but no copy of a layer's past.
            assert grown < ring / 2, (name, actors, short[name], long[name])


@pytest.mark.parametrize("change", [{"batch": 0}, {"unroll": -1}, {"width": 7}, {"heads": 3}, {"dtype": "int8"}])
def test_refuses_sizes_that_do_not_fit(change):
    with pytest.raises(ValueError, match=re.compile(r"^[^\n]+\.$")):
        replace(CPU, **change)


@pytest.mark.parametrize("lengths", [(), (64,)])
def test_refuses_lengths_without_chunks_to_choose_from(lengths):
    with pytest.raises(ValueError, match="every length must hold top-k chunks, 256 steps"):
        memory.run(CPU, lengths, rounds=1)
