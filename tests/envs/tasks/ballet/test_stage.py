import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hcam.envs.render import sprites
from hcam.envs.tasks.ballet import stage
from hcam.envs.tasks.ballet.choreography import PLACES


def scenes(count):
    """Anything that can be on stage: dancers within a tile of their places, the agent anywhere on the floor."""
    rng = np.random.default_rng(0)
    shape = rng.integers(0, len(sprites.SHAPES) + 1, (count, 9))  # the last is nobody
    shape[:, 4] = stage.NOTHING
    return stage.Scene(
        jnp.asarray(rng.integers(1, 10, (count, 2)), jnp.int32),
        jnp.asarray(np.array(PLACES) + rng.integers(-1, 2, (count, 9, 2)), jnp.int32),
        jnp.asarray(shape, jnp.int32),
        jnp.asarray(rng.integers(0, len(sprites.COLORS), (count, 9)), jnp.int32),
    )


@pytest.mark.parametrize("tile", [9, 3, 1])
def test_both_forms_agree_byte_for_byte(tile):
    """draw() takes strips on a CPU and tiles elsewhere; each test machine sees only one of them, so compare here."""
    many = scenes(200)
    strips, tiles = (
        jax.jit(jax.vmap(lambda scene, form=form: form(scene, tile)))(many)
        for form in (stage.in_strips, stage.in_tiles)
    )
    np.testing.assert_array_equal(strips, tiles)
    assert strips.dtype == jnp.uint8
    assert len(np.unique(np.asarray(strips).reshape(200, -1), axis=0)) > 190
    np.testing.assert_array_equal(jax.vmap(lambda scene: stage.draw(scene, tile))(many), strips)


def test_a_dancer_hides_the_agent():
    one = jax.tree.map(lambda leaf: leaf[0], scenes(1))
    alone = one._replace(shape_p=jnp.full(9, stage.NOTHING, jnp.int32), agent=jnp.array([2, 3]))
    met = alone._replace(shape_p=alone.shape_p.at[0].set(2), dancer_p=one.dancer_p.at[0].set(jnp.array([2, 3])))
    assert (np.asarray(stage.draw(alone, 9))[45:54, 45:54] == 255).all()
    tile = np.asarray(stage.draw(met, 9))[45:54, 45:54]
    lit = sprites.masks(9)[2][..., None] & sprites.colors()[int(met.color_p[0])]
    np.testing.assert_array_equal(tile, lit)
    assert stage.covered(met).tolist() == [True] + [False] * 8
