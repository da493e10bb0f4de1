"""The GPU's form, interpreted, against the plain form."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hcam.envs.render import kernel, pixels, raycast
from hcam.envs.render.solids import ROW
from tests.envs.render.scenes import camera
from tests.envs.render.test_raycast import some_scene, stacked


@pytest.mark.parametrize("size", [(72, 96), (21, 45)])
def test_the_kernel_draws_what_the_plain_form_draws(size):
    scenes = stacked([some_scene(n) for n in range(3)])
    views = stacked([camera(yaw=0.3 * n, pitch=-0.15) for n in range(3)])

    def both(scene, view):
        frame, screen = raycast.frame(scene, view, size[1]), raycast.screen(*size)
        forms = raycast.words(frame, *screen), kernel.words(frame, *screen, interpret=True)
        return [pixels.split(word_hw) for word_hw in forms]

    plain, drawn = (np.asarray(image).astype(int) for image in jax.jit(jax.vmap(both))(scenes, views))
    assert plain.shape == (3, *size, 3)
    # Rounding may differ where a compiler fuses a product and a sum, which moves an edge by a pixel at most.
    assert (np.abs(plain - drawn).max(-1) > 2).mean() < 1e-3


def test_solids_are_skipped_only_where_they_are_not_seen():
    """Without windows the picture is the same: solids ahead, beside, behind and around the eye."""
    scene = some_scene(4)
    for x, y, yaw in [(0, 0, 0), (0.7, 1.6, 1.0), (-1, 1.4, 0.2), (0, 3.5, 3.0)]:
        frame = raycast.frame(scene, camera(x, y, yaw=yaw, pitch=-0.2), 96)
        wide_n = jnp.array([-1e4, 1e4, -1e4, 1e4], jnp.float32)
        start = ROW.window.start
        everywhere = frame._replace(solid_pn=frame.solid_pn.at[:, start : start + 4].set(wide_n[None]))
        draw = jax.jit(lambda frame: kernel.words(frame, *raycast.screen(72, 96), interpret=True))
        np.testing.assert_array_equal(draw(frame), draw(everywhere))


@pytest.mark.skipif(jax.__version_info__ >= (0, 11), reason="jax 0.11 lowers for a GPU only where there is one")
def test_the_kernel_lowers_for_a_gpu_as_one_call():
    scenes, views = stacked([some_scene(n) for n in range(2)]), stacked([camera(), camera(yaw=1.0)])
    program = jax.jit(jax.vmap(raycast.render)).trace(scenes, views).lower(lowering_platforms=("cuda",)).as_text()
    assert program.count("custom_call") == 1
    assert "while" not in program
