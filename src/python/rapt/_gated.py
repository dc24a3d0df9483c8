# mypy: no-warn-unused-ignores
"""Products of an activation with a second tensor, as in SwiGLU and GeGLU."""

from __future__ import annotations

from typing import Any, Literal, overload

import numpy as np

from ._arguments import choice
from ._arrays import Array, Rows, TensorLike, Torch, element_type, in_kind_of, input_rows, output_rows
from ._library import ACTIVATION, BF16, C, F16, F32, F64, GatedOptions, check
from ._pieces import PIECE, refuse_overlaps, rows_in_pieces
from ._prepared import Prepared, joins

# A test compares it with ACTIVATION, because a Literal has to be spelled out.
Activation = Literal["silu", "gelu", "gelu_tanh"]


def _inputs(gate: Any, up: TensorLike) -> tuple[Rows, Rows, int]:
    of_gate, of_up = input_rows(gate, "gate"), input_rows(up, "up")
    rapt_type = element_type(of_gate.array, "gate")
    if element_type(of_up.array, "up") != rapt_type:
        raise TypeError(f"gate and up have elements of {of_gate.array.dtype.name} and {of_up.array.dtype.name}")
    if of_gate.array.shape != of_up.array.shape:
        raise ValueError(f"gate has the shape {of_gate.array.shape} and up {of_up.array.shape}")
    if rapt_type not in (F32, F64, F16, BF16):
        raise TypeError(f"gate has elements of {of_gate.array.dtype.name}, and gated has f32, f64, f16 and bf16")
    return of_gate, of_up, rapt_type


def _options(rapt_type: int, activation: Activation, gate: Rows, up: Rows, y: Rows) -> GatedOptions:
    if activation is None:
        raise TypeError(f"activation is None, not one of {', '.join(ACTIVATION)}")
    return GatedOptions(
        type=rapt_type,
        activation=choice(ACTIVATION, "activation", activation),
        rows=gate.rows,
        cols=gate.cols,
        gate_stride=gate.stride,
        up_stride=up.stride,
        y_stride=y.stride,
    )


def _prepare_gated(gate: Any, up: TensorLike, activation: Activation, out: Any) -> Prepared[Any]:
    of_gate, of_up, rapt_type = _inputs(gate, up)
    rows = output_rows(out, of_gate, rapt_type)
    options = _options(rapt_type, activation, of_gate, of_up, rows)
    returned = out if out is not None else in_kind_of(gate, rows.array)
    copied = "gate" if of_gate.copied else "up" if of_up.copied else ""
    kept = of_gate, of_up, rows
    if of_gate.array.size > PIECE:
        _refuse_overlaps(*kept)
        return Prepared(rows_in_pieces, (C.rapt_gated, kept, options), returned, kept, copied)
    arguments = of_gate.address, of_up.address, rows.address, options
    return Prepared(C.rapt_gated, arguments, returned, kept, copied, _failed)


def _refuse_overlaps(gate: Rows, up: Rows, y: Rows) -> None:
    refuse_overlaps(y.array, {"gate": gate.array, "up": up.array}, {})


def _failed(status: int, kept: tuple[Rows, Rows, Rows]) -> None:
    _refuse_overlaps(*kept)
    check(status)


# fmt: off
@overload
def gated(gate: Torch, up: TensorLike, activation: Activation = "silu", out: Torch | None = None) -> Torch: ...  # type: ignore[misc]
@overload
def gated(gate: TensorLike, up: TensorLike, activation: Activation = "silu", out: Array | None = None) -> Array: ...
# fmt: on


def gated(gate: Any, up: TensorLike, activation: Activation = "silu", out: Any = None) -> Any:
    """activation(gate) * up, rounded to their type: f32, f64, f16 or bf16, of one shape.

    `activation` is "silu" (SwiGLU), "gelu" or "gelu_tanh" (GeGLU). gate and up may be halves of one array. `out` takes the
    result, and may be gate or up. A TypeError is another type, a ValueError another shape, activation or overlap.
    """
    return _prepare_gated(gate, up, activation, out)()


joins(gated, _prepare_gated)


# fmt: off
@overload
def gated_backward(  # type: ignore[misc]
    gate: Torch, up: TensorLike, dy: TensorLike, activation: Activation = "silu"
) -> tuple[Torch, Torch]: ...
@overload
def gated_backward(
    gate: TensorLike, up: TensorLike, dy: TensorLike, activation: Activation = "silu"
) -> tuple[Array, Array]: ...
# fmt: on


def gated_backward(gate: Any, up: TensorLike, dy: TensorLike, activation: Activation = "silu") -> tuple[Any, Any]:
    """The gradients of gate and up, given dy, that of gated(gate, up, activation).

    All have one shape and one type, f32, f64, f16 or bf16. A TypeError is another type, a ValueError another shape or activation.
    """
    of_gate, of_up, rapt_type = _inputs(gate, up)
    of_dy, array = input_rows(dy, "dy"), of_gate.array
    if of_dy.array.dtype != array.dtype:
        raise TypeError(f"gate and dy have elements of {array.dtype.name} and {of_dy.array.dtype.name}")
    if of_dy.array.shape != array.shape:
        raise ValueError(f"gate has the shape {array.shape} and dy {of_dy.array.shape}")
    of_gate, of_up = _contiguous(of_gate), _contiguous(of_up)
    dgate, dup = output_rows(None, of_gate, rapt_type), output_rows(None, of_gate, rapt_type)
    options = _options(rapt_type, activation, of_gate, of_up, of_dy)
    arrays = of_gate, of_up, of_dy, dgate, dup
    if array.size > PIECE:
        check(rows_in_pieces(C.rapt_gated_backward, arrays, options))
    else:
        check(C.rapt_gated_backward(*(rows.address for rows in arrays), options))
    return in_kind_of(gate, dgate.array), in_kind_of(gate, dup.array)


def _contiguous(rows: Rows) -> Rows:
    """Gradients have the strides of their tensors."""
    return rows if rows.array.flags.c_contiguous else input_rows(np.ascontiguousarray(rows.array), "gate")
