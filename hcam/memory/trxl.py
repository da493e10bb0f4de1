"""TransformerXL, gated as in GTrXL, and the control, which has local attention alone."""

from dataclasses import dataclass

from . import checks, stack
from .types import Memory


@dataclass(frozen=True, kw_only=True)
class TrXL:
    """Gated TransformerXL: the paper's strongest baseline. Each option says where the paper has it.

    Every step attends to the last `window` steps, wherever an unroll begins. The original attends to "extra length"
    steps before the unroll and to the unroll so far, hence to 256 + 1 .. 256 + 64 steps.
    """

    width: int = 512  # appendix A.2, table; 1024 in appendix "Comparing a TrXL that is 2x wider/deeper than HCAM"
    layers: int = 4  # same table; 8 in the same appendix
    heads: int = 8  # same table
    window: int = 320  # "TrXL extra length" 256 and an unroll of 64, same table (its first task); own step included
    top_k: int | None = None  # keep only the k largest logits: appendix "Sparsity without hierarchy", k 16 or 32
    gated: bool = True  # GRU gating (Parisotto et al. 2020), section 2; off in appendix "Memory layer gating"
    mlp: int = 4  # hidden width of a layer's MLP over `width`. Unspecified in the paper

    def __post_init__(self) -> None:
        _check(self)
        if self.top_k is not None:
            checks.sizes(self, "top_k")
            checks.top_k_fits(self.top_k, self.window, "steps in the window")

    def window_for(self, steps: int) -> int:
        """The window that holds an episode of so many steps, and never a shorter one than there is."""
        return max(self.window, steps)

    def build(self, dtype: str) -> Memory:
        return stack.build(stack.Stack(self, dtype, self.window, self.top_k, block=None))


@dataclass(frozen=True, kw_only=True)
class Local:
    """No memory beyond the local window: HCAM without its chunks, the control of every memory experiment."""

    width: int = 512
    layers: int = 4
    heads: int = 8
    window: int = 32  # HCAM's default, one chunk. A stack of L layers passes on what is up to L (window - 1) steps old
    gated: bool = False
    mlp: int = 4

    def __post_init__(self) -> None:
        _check(self)

    def build(self, dtype: str) -> Memory:
        return stack.build(stack.Stack(self, dtype, self.window, top_k=None, block=None))


def _check(config: TrXL | Local) -> None:
    checks.sizes(config, "width", "layers", "heads", "window", "mlp")
    checks.depth(layers=config.layers)
    checks.heads_divide(config.width, config.heads)
    checks.even_width(config.width, "relative positions")
    checks.switch(gated=config.gated)
