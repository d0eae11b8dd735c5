"""Reading arguments: shapes, dtypes and ranges are checked before any arithmetic.

Shapes and dtypes are known while tracing, so those checks cost nothing under `jit`. Values are
known only outside it: the value checks look at concrete arrays and let tracers pass, and each
kernel states what it returns for a bad value that reaches it traced.
"""

import math

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jax.typing import ArrayLike


def is_concrete(value: object) -> bool:
    """True when the values can be read now, that is, outside `jit`, `vmap` and `grad`."""
    return not isinstance(value, Tracer)


def as_float32(name: str, value: ArrayLike) -> jax.Array:
    """`value` (bool, integer or real of any width) as float32."""
    array = _as_array(name, value)
    if not (jnp.issubdtype(array.dtype, jnp.floating) or _is_whole(array)):
        raise ValueError(f"{name} must be real numbers; got dtype {array.dtype}")
    return array.astype(jnp.float32)


def as_flags(name: str, value: ArrayLike) -> jax.Array:
    """`value` as bool; of numbers only 1 is True, so that a failure code is never a success."""
    array = _as_array(name, value)
    if array.dtype == jnp.bool_:
        return array
    if not (jnp.issubdtype(array.dtype, jnp.floating) or _is_whole(array)):
        raise ValueError(f"{name} must be bool, or numbers that are 0 or 1; got {array.dtype}")
    return array == 1


def as_int32(name: str, value: ArrayLike) -> jax.Array:
    """`value` (any integer dtype) as int32; floats are refused, since rounding would hide a bug."""
    array = _as_array(name, value)
    if not jnp.issubdtype(array.dtype, jnp.integer):
        raise ValueError(f"{name} must be integers; got dtype {array.dtype}")
    return array.astype(jnp.int32)


def check_axes(name: str, array: jax.Array, axes: tuple[str, ...]) -> None:
    """The trailing axes must exist and none of them may be empty."""
    expected = "[..., " + ", ".join(axes) + "]"
    if array.ndim < len(axes):
        raise ValueError(f"{name} must be {expected}; got shape {array.shape}")
    for axis, size in zip(axes, array.shape[array.ndim - len(axes) :], strict=True):
        if size == 0:
            raise ValueError(
                f"{name} must be {expected} with {axis} >= 1; got {axis} = 0 in shape {array.shape}"
            )


def check_shape(name: str, array: jax.Array, shape: tuple[int, ...], why: str) -> None:
    """Shapes must be equal, because broadcasting would hide a mix-up of axes."""
    if array.shape != shape:
        raise ValueError(f"{name} must have shape {shape} ({why}); got shape {array.shape}")


def read_interval(
    name: str,
    value: float,
    low: float,
    high: float = math.inf,
    *,
    open_high: bool = False,
) -> float:
    """A scalar setting in [low, high], or in [low, high) when `open_high`, ready for arithmetic.

    A concrete one comes back as a Python float, which leaves the dtype of an expression alone; a
    NumPy float64 would widen it under 64-bit mode.
    """
    if not is_concrete(value):
        return jnp.asarray(value, jnp.float32)  # pyright: ignore[reportReturnType]
    number = float(value)
    inside = low <= number < high if open_high else low <= number <= high
    if not inside:
        bracket = ")" if open_high or math.isinf(high) else "]"
        raise ValueError(f"{name} must lie in [{low:g}, {high:g}{bracket}; got {number:g}")
    return number


def check_range(
    name: str,
    values: jax.Array,
    low: int | float,
    high: int | float,
    rule: str,
    where: jax.Array | None = None,
) -> None:
    """Every entry (that `where` selects) of a concrete array must lie in low..high."""
    if not is_concrete(values) or (where is not None and not is_concrete(where)):
        return
    read = np.asarray(values) if where is None else np.asarray(values)[np.asarray(where)]
    outside = ~((read >= low) & (read <= high))
    if outside.any():
        bad = read[outside].flat[0]
        raise ValueError(f"{name} must lie in {low}..{high} ({rule}); got {bad}")


def read_keep(keep: ArrayLike | None, shape: tuple[int, ...], why: str) -> jax.Array:
    """The mask of what counts, all True when there is none."""
    if keep is None:
        return jnp.ones(shape, jnp.bool_)
    kept = as_flags("keep", keep)
    check_shape("keep", kept, shape, why)
    return kept


def positions(shape: tuple[int, ...]) -> jax.Array:
    """Index along the last axis at every entry, as int32 of that shape."""
    return jax.lax.broadcasted_iota(jnp.int32, shape, len(shape) - 1)


def _as_array(name: str, value: ArrayLike) -> jax.Array:
    try:
        return jnp.asarray(value)
    except TypeError as error:
        raise ValueError(f"{name} must be an array of numbers; got {type(value)}") from error


def _is_whole(array: jax.Array) -> bool:
    return array.dtype == jnp.bool_ or jnp.issubdtype(array.dtype, jnp.integer)
