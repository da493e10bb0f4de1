import jax
import jax.numpy as jnp
from rich.console import Console

from hcam.benchmarks import profile


def event(name, seconds, pid=1, **args):
    return {"ph": "X", "pid": pid, "name": name, "dur": seconds * 1e6, "args": args}


def process(pid, name):
    return {"ph": "M", "pid": pid, "name": "process_name", "args": {"name": name}}


def test_operations_are_summed_up_the_longest_first():
    events = [event("dot", 1, hlo_op="dot.1"), event("add", 5, hlo_op="add.2"), event("dot", 3, hlo_op="dot.1")]
    events += [event("python", 99), event("while", 99, hlo_op="while.3")]  # no operation, and one that holds others
    first, second = profile.summed(events, {"dot.1": "jit(f)/dot_general"})
    assert (first["operation"], first["seconds"], first["calls"]) == ("add.2", 5, 1)
    assert (second["operation"], second["seconds"], second["calls"]) == ("dot.1", 4, 2)
    assert (first["source"], second["source"]) == ("", "jit(f)/dot_general")


def test_on_an_accelerator_all_that_ran_there_counts():
    events = [process(1, "/host:CPU"), process(2, "/device:GPU:0")]
    events += [event("launch", 9, 1, hlo_op="dot.1"), event("gemm", 2, 2, hlo_op="dot.1"), event("memcpy", 1, 2)]
    assert [(one["operation"], one["seconds"]) for one in profile.summed(events, {})] == [("dot.1", 2), ("memcpy", 1)]


def test_an_operation_belongs_to_the_innermost_part():
    assert profile.where("jit(update)/acting/while/body/vmap(window)/dot_general") == ("window", "acting")
    assert profile.where("jit(update)/learning/transpose(jvp(vmap(encoder)))/add") == ("encoder", "learning")
    assert profile.where("jit(update)/learning/optimiser/sqrt") == ("optimiser", "learning")
    assert profile.where("") == ("", "")


def test_instructions_are_known_by_their_source():
    text = """
      %add.2 = f32[3]{0} add(%a, %b), metadata={op_name="jit(f)/acting/add" stack_frame_id=2}
      ROOT %dot.1 = f32[3]{0} dot(%a, %b), lhs_contracting_dims={1}, metadata={op_name="jit(f)/dot_general"}
      copy.3 = f32[3]{0} copy(%b)
    """
    assert profile.sources(text) == {"add.2": "jit(f)/acting/add", "dot.1": "jit(f)/dot_general"}


def test_a_program_is_watched_and_shown():
    @jax.named_scope("encoder")
    def see(x):
        return jnp.sort(x @ x, axis=0)

    program = jax.jit(lambda x: (x, see(x).sum())).lower(jnp.ones((64, 64))).compile()
    state, found = profile.profile(program, jnp.ones((64, 64)))
    assert state.shape == (64, 64)
    assert any(profile.where(one["source"])[0] == "encoder" for one in found)
    console = Console(record=True, width=80)
    for table in profile.tables(found, "it"):
        console.print(table)
    text = console.export_text()
    (row,) = [line for line in text.splitlines() if line.split()[:1] == ["encoder"]]
    assert "ms" in row
    assert "100.0%" in row or float(row.split()[-1].rstrip("%")) > 10
    assert found[0]["operation"] in text
