"""The projection that every weight matrix goes through."""

import functools

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
    out_axes = tuple(range(x.ndim - num_in, d_out.ndim))
    w_out_axes = tuple(range(num_in, w.ndim))
    batch = tuple(range(x.ndim - num_in))
    d_x = jnp.tensordot(d_out, w.astype(d_out.dtype), (out_axes, w_out_axes))
    d_w = jnp.tensordot(x, d_out, (batch, batch), preferred_element_type=w.dtype)
    return d_x, d_w


_linear.defvjp(_forward, _backward)
