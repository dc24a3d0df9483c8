"""Products of an activation with a second tensor, as in SwiGLU and GeGLU."""

from __future__ import annotations

from typing import Any

import numpy as np

from ._arrays import Rows, chosen, element_type, empty, input_rows, output_rows, refuse_overlap
from ._library import ACTIVATION, C, F32, F64, GatedOptions, check


def _inputs(gate: Any, up: Any) -> tuple[Rows, Rows, int]:
    of_gate, of_up = input_rows(gate, "gate"), input_rows(up, "up")
    if of_gate.array.dtype != of_up.array.dtype:
        raise TypeError(f"gate and up have elements of {of_gate.array.dtype.name} and {of_up.array.dtype.name}")
    if of_gate.array.shape != of_up.array.shape:
        raise ValueError(f"gate has the shape {of_gate.array.shape} and up {of_up.array.shape}")
    return of_gate, of_up, element_type(of_gate.array, "gate")


def _options(rapt_type: int, activation: str, gate: Rows, up: Rows, y: Rows) -> GatedOptions:
    return GatedOptions(
        type=rapt_type,
        activation=chosen(ACTIVATION, "activation", activation),
        rows=gate.rows,
        cols=gate.cols,
        gate_stride=gate.stride,
        up_stride=up.stride,
        y_stride=y.stride,
    )


def gated(gate: Any, up: Any, activation: str = "silu", out: Any = None) -> np.ndarray:
    """activation(gate) * up, rounded to their type: f32, f64, f16 or bf16, of one shape.

    `activation` is "silu" (SwiGLU), "gelu" or "gelu_tanh" (GeGLU). gate and up may be halves of one array. `out` may be
    gate or up.
    """
    of_gate, of_up, rapt_type = _inputs(gate, up)
    result, rows = output_rows(out, of_gate.array.shape, rapt_type, of_gate.array)
    for array, name in ((of_gate.array, "gate"), (of_up.array, "up")):
        refuse_overlap(array, result, name)
    options = _options(rapt_type, activation, of_gate, of_up, rows)
    check(C.rapt_gated(of_gate.address, of_up.address, rows.address, options))
    return result


def gated_backward(gate: Any, up: Any, dy: Any, activation: str = "silu") -> tuple[np.ndarray, np.ndarray]:
    """The gradients of gate and up, given dy, that of gated(gate, up, activation). The types are f32 and f64."""
    arrays = [np.ascontiguousarray(rows.array) for rows in (*_inputs(gate, up)[:2], input_rows(dy, "dy"))]
    if arrays[2].dtype != arrays[0].dtype:
        raise TypeError(f"gate and dy have elements of {arrays[0].dtype.name} and {arrays[2].dtype.name}")
    if arrays[2].shape != arrays[0].shape:
        raise ValueError(f"gate has the shape {arrays[0].shape} and dy {arrays[2].shape}")
    rapt_type = element_type(arrays[0], "gate")
    if rapt_type not in (F32, F64):
        raise TypeError(f"gate has elements of {arrays[0].dtype.name}: gated_backward has f32 and f64")
    of_gate, of_up, of_dy = (input_rows(array, "gate") for array in arrays)
    dgate, dup = (empty(arrays[0].shape, rapt_type, arrays[0]) for _ in range(2))
    options = _options(rapt_type, activation, of_gate, of_up, of_dy)
    check(
        C.rapt_gated_backward(
            of_gate.address, of_up.address, of_dy.address, dgate.ctypes.data, dup.ctypes.data, options
        )
    )
    return dgate, dup
