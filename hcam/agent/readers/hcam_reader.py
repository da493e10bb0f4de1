"""HCAM over a memory that is given, and not the agent's own past: appendix B of the paper, "The PAI task".

Every chunk of the memory is a chunk of HCAM, its key the mean of its embedded items. The query's items are the input
sequence, and all layers read the same memory.
"""

from dataclasses import dataclass
from functools import partial

import jax

from hcam.agent.network import Network
from hcam.agent.readers import given
from hcam.agent.readers.given import Sizes
from hcam.envs.spaces import Spaces
from hcam.memory import checks
from hcam.memory.chunks import summarise
from hcam.memory.layers import init_mlp, init_norm, layer_norm, mlp
from hcam.memory.projections import init_read
from hcam.memory.recall import FORMS, read_chunks
from hcam.memory.relevance import ORDERS
from hcam.memory.stack import scale_down
from hcam.types import Array, Observation, Output, Params


@dataclass(frozen=True, kw_only=True)
class HCAMReader:
    """HCAM for observations that contain a memory; the options are those of `HCAM`."""

    width: int = 512  # "memory dimension", appendix A.2, table of hyper-parameters
    layers: int = 4  # "after 4 HCAM layers", appendix B
    heads: int = 8  # "memory num. heads", appendix A.2
    top_k: int = 32  # "HCAM top-k", same table; at most all chunks are recalled
    order: str = "top_k_then_softmax"  # as in the released code; "softmax_then_top_k" is the formula of section 2
    positions: bool = True  # sinusoids inside chunks: in the released code, not in the text
    mlp: int = 4  # hidden width of a layer's MLP over `width`. Unspecified in the paper
    tied_start: bool = False  # begin with equal relevance projections of queries and keys: what is alike is relevant
    gradients: bool = False  # whether gradients reach the embedding through the memory as well. Unspecified
    form: str = "auto"  # how `read` computes: "dense", "gather", or chosen from the sizes. The results are the same

    def __post_init__(self) -> None:
        given.check(self)
        checks.sizes(self, "top_k")
        checks.depth(layers=self.layers)
        checks.choice(ORDERS, order=self.order)
        checks.choice(FORMS, form=self.form)

    def network(self, space: Spaces, actions: int, dtype: str) -> Network:
        found = given.sizes("hcam_reader", space, actions)
        return Network(partial(init_params, self, found), partial(answer, self, dtype))


def init_params(config: HCAMReader, found: Sizes, key: Array) -> Params:
    key_given, key_roles, *layer_keys = jax.random.split(key, 2 + config.layers)
    layers = {f"layer_{n}": init_layer(config, layer_key) for n, layer_key in enumerate(layer_keys)}
    return given.init(key_given, found, config.width) | given.init_roles(key_roles, config.width) | layers


def init_layer(config: HCAMReader, key: Array) -> Params:
    key_local, key_read, key_mlp = jax.random.split(key, 3)
    width = config.width
    read = init_read(key_read, width, width, width)
    read |= {"relevance_key": read["relevance_query"]} if config.tied_start else {}
    return {
        "local": scale_down(given.init_attention(key_local, width)),
        "recall": scale_down({"norm": init_norm(width), "read": read}),
        "mlp": scale_down(init_mlp(key_mlp, width, config.mlp * width)),
    }


def answer(config: HCAMReader, dtype: str, params: Params, observation: Observation) -> Output:
    seen = given.embed(params, observation, dtype)
    key_md, y_qd = summarise(seen.content_mcd), given.with_roles(params, seen.query_qd)
    for n in range(config.layers):
        y_qd = layer(config, params[f"layer_{n}"], y_qd, key_md, seen.content_mcd, seen.known_m)
    return given.answer(params, y_qd.mean(0), seen.query_qd)


def layer(config: HCAMReader, params: Params, x_qd: Array, key_md: Array, content_mcd: Array, known_m: Array) -> Array:
    """Local attention among the items of the query, recall from the given memory, MLP: as in the agent's HCAM."""
    local_qd = layer_norm(params["local"]["norm"], x_qd)
    y_qd = x_qd + given.attend(params["local"], local_qd, local_qd, config.heads)
    recalled_qd, _ = read_chunks(
        params["recall"]["read"],
        layer_norm(params["recall"]["norm"], y_qd),
        key_md,
        (content_mcd,),
        jax.numpy.broadcast_to(known_m, (len(x_qd), len(known_m))),
        k=min(config.top_k, len(known_m)),
        heads=config.heads,
        positions=config.positions,
        order=config.order,
        form=config.form,
        gradients=config.gradients,
    )
    y_qd = y_qd + recalled_qd
    return y_qd + mlp(params["mlp"], y_qd)
