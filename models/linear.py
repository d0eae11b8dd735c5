"""The projection that every weight matrix goes through."""

import functools
import math

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float


def linear(x: Float[Array, "..."], w: Float[Array, "..."], num_in: int = 1) -> Float[Array, "..."]:
    """Contract the last `num_in` axes of `x` with the first `num_in` axes of `w`.

    The product is what `jnp.tensordot(x, w, num_in)` gives, with `w` cast to the dtype of `x`. Two
    things are ours: the gradient of `w` is accumulated and returned in w's own dtype, and the
    operands of the backward products are materialised as they are. Without that barrier XLA on CPU
    fuses the transposition that the product needs into whatever elementwise code made the operand,
    and that code then walks memory with a stride (a quarter of a train step of a small model).
    """
    return _linear(x, w, num_in)  # type: ignore[reportReturnType]  # custom_vjp hides the type


@functools.partial(jax.custom_vjp, nondiff_argnums=(2,))
def _linear(x, w, num_in):
    return jnp.tensordot(x, w.astype(x.dtype), num_in)


def _forward(x, w, num_in):
    return _linear(x, w, num_in), (x, w)


def _backward(num_in, saved, d_out):
    x, w = jax.lax.optimization_barrier(saved)
    d_out = jax.lax.optimization_barrier(d_out)
    num_inputs = math.prod(w.shape[:num_in])
    # Two axes each: of more, XLA on CPU first makes a transposed copy.
    flat_x, flat_w = x.reshape(-1, num_inputs), w.reshape(num_inputs, -1)
    flat_d_out = d_out.reshape(-1, flat_w.shape[1])
    d_x = jnp.einsum("no,io->ni", flat_d_out, flat_w.astype(d_out.dtype))
    d_w = jnp.einsum("ni,no->io", flat_x, flat_d_out, preferred_element_type=w.dtype)
    return d_x.reshape(x.shape), d_w.reshape(w.shape)


_linear.defvjp(_forward, _backward)
