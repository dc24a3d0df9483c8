"""Convolutions of one to three dimensions, their transposes and gradients."""

from __future__ import annotations

import math
from collections.abc import Sequence
from ctypes import byref, c_size_t, c_void_p
from typing import Any, Literal, Union

import numpy as np

from ._arguments import choice, integer, shown
from ._arrays import Array, TensorLike, address, arithmetic_type, as_array, as_numbers, element_type, empty, in_kind_of
from ._library import ARITHMETIC, BF16, F16, F32, F64, REPEAT, C, ConvolutionOptions, check
from ._linear import IN_BLOCKS, QUANTIZED, ROW, Arithmetic, PackedWeights
from ._threads import run_tasks, thread_count

_Sizes = Union[int, Sequence[int]]
_Padding = Union[int, Sequence[Union[int, Sequence[int]]], Literal["same", "valid"]]
_Y, _DX, _DW = 0, 1, 2
_MOST = 1 << 59


def _per_dimension(sizes: Any, name: str, dims: int, least: int) -> list[int]:
    given = list(sizes) if isinstance(sizes, (tuple, list)) else [sizes] * dims
    if len(given) == 1:
        given *= dims
    if len(given) != dims:
        raise ValueError(f"{name} is {shown(sizes)}, which is not a number or {dims} numbers")
    return [integer(size, name, least, _MOST) for size in given]


def _pads(padding: Any, taps: list[int], dilation: list[int], stride: list[int]) -> tuple[list[int], list[int]]:
    """What is before and behind. A pair in the place of a number gives both, as ONNX has them."""
    dims = len(taps)
    if isinstance(padding, str):
        if padding == "valid":
            return [0] * dims, [0] * dims
        if padding != "same":
            raise ValueError(f"padding is {shown(padding)}, neither 'same' nor 'valid'")
        if any(step != 1 for step in stride):
            raise ValueError("padding is 'same', which needs a stride of 1")
        total = [(count - 1) * step for count, step in zip(taps, dilation)]
        return [pad // 2 for pad in total], [pad - pad // 2 for pad in total]
    given = list(padding) if isinstance(padding, (tuple, list)) else [padding] * dims
    if len(given) == 1:
        given *= dims
    if len(given) != dims:
        raise ValueError(f"padding is {shown(padding)}, which does not have {dims} numbers or pairs")
    pairs = [pad if isinstance(pad, (tuple, list)) else (pad, pad) for pad in given]
    if any(len(pair) != 2 for pair in pairs):
        raise ValueError(f"padding is {shown(padding)}, which does not have {dims} numbers or pairs")
    return ([integer(pair[i], "padding", 0, _MOST) for pair in pairs] for i in range(2))  # type: ignore[return-value]


def _operand(x: Any, name: str, ndim: int, rapt_type: int | None = None) -> tuple[Array, int]:
    array = as_array(x, name)
    found = element_type(array, name)
    if found not in (F32, F64, F16, BF16):
        raise TypeError(f"{name} has elements of {array.dtype.name}, and convolutions have f32, f64, f16 and bf16")
    if rapt_type is not None and found != rapt_type:
        raise TypeError(f"{name} has elements of {array.dtype.name}, which is not the type of the other array")
    if array.ndim != ndim:
        raise ValueError(f"{name} has {array.ndim} dimensions, not {ndim}")
    steps = [stride for length, stride in zip(array.shape, array.strides) if length > 1]
    fits = all(stride >= 0 and stride % array.itemsize == 0 for stride in steps)
    return (array if fits else np.ascontiguousarray(array)), found


def _strides(array: Array) -> list[int]:
    return [
        (stride // array.itemsize or REPEAT) if length > 1 else 1 for length, stride in zip(array.shape, array.strides)
    ]


class _Call:
    """A call of rapt_convolution: its options, and what its arrays must be."""

    def __init__(self, result: int, rapt_type: int, dims: int, groups: Any) -> None:
        self.dims, self.rapt_type = dims, rapt_type
        self.options = ConvolutionOptions(type=rapt_type, result=result, dims=dims)
        self.options.groups = integer(groups, "groups", 1, _MOST)
        self.kept: list[Any] = []

    def set_window(self, taps: Sequence[int], stride: Any, padding: Any, dilation: Any) -> None:
        o, dims = self.options, self.dims
        if any(count == 0 for count in taps):
            raise ValueError(f"weight has the taps {tuple(taps)}, of which none may be 0")
        steps = _per_dimension(stride, "stride", dims, 1)
        dilations = _per_dimension(dilation, "dilation", dims, 1)
        before, behind = _pads(padding, list(taps), dilations, steps)
        o.taps[:dims], o.stride[:dims], o.dilation[:dims] = list(taps), steps, dilations
        o.pad_before[:dims], o.pad_after[:dims] = before, behind

    def set_shape(self, batch: int, in_channels: int, in_size: Sequence[int], out_channels: int) -> None:
        o = self.options
        o.batch, o.in_channels, o.out_channels = batch, in_channels, out_channels
        o.in_size[: self.dims] = list(in_size)
        for name, channels in (("in", in_channels), ("out", out_channels)):
            if channels % o.groups != 0:
                raise ValueError(f"groups is {o.groups}, which does not divide the {channels} channels {name}")

    def set_bias(self, bias: Any, channels: int) -> None:
        if bias is None:
            return
        wide = np.ascontiguousarray(as_numbers(bias, "bias", arithmetic_type(self.rapt_type)))
        if wide.shape != (channels,):
            raise ValueError(f"bias has the shape {wide.shape}, not {(channels,)}")
        self.kept.append(wide)
        self.options.bias = address(wide)

    def set_packed(self, w: PackedWeights, arithmetic: Arithmetic, x_group: Any) -> Array:
        o = self.options
        if w.type not in QUANTIZED and w.type not in IN_BLOCKS and w._number != self.rapt_type:
            raise TypeError(f"weight has packed weights of {w.type}, which is not the type of input")
        o.packed_w, o.w_type, o.scale_group = 1, w._number, w.scale_group
        if arithmetic is not None:
            o.arithmetic = choice(ARITHMETIC, "arithmetic", arithmetic)
        group = integer(x_group, "x_group", -1)
        o.x_group = ROW if group == -1 else group
        return w.data

    def positions(self) -> tuple[int, ...]:
        made = (c_size_t * 3)()
        check(C.rapt_convolution_positions(byref(self.options), made))
        return tuple(made[: self.dims])

    def run(self, a: Array, b: Array, out: Array, threads: int | None, work: float) -> None:
        o, count = byref(self.options), c_size_t()
        threads = thread_count(threads, work)
        check(C.rapt_convolution_workspace(o, byref(count)))
        workspace = count.value
        check(C.rapt_convolution_tasks(o, byref(count)))
        arrays = address(a), address(b), address(out)

        def run(first: int, last: int, scratch: int) -> None:
            check(C.rapt_convolution_run(*arrays, o, first, last, scratch, workspace))

        run_tasks(run, count.value, workspace, threads)


def _conv(
    dims: int, input: Any, weight: Any, bias: Any, stride: Any, padding: Any, dilation: Any, groups: Any,
    kernel_size: Any, arithmetic: Arithmetic, x_group: Any, threads: Any,
) -> Any:  # fmt: skip
    x, rapt_type = _operand(input, "input", 2 + dims)
    call = _Call(_Y, rapt_type, dims, groups)
    if isinstance(weight, PackedWeights):
        if kernel_size is None:
            raise ValueError("kernel_size is None, which packed weights do not say")
        taps = _per_dimension(kernel_size, "kernel_size", dims, 1)
        shape = [weight.shape[0], x.shape[1], *taps]
        if weight.shape[1] != math.prod(shape[1:]):
            raise ValueError(f"weight has {weight.shape[1]} inputs, not {shape[1]} channels of {math.prod(taps)} taps")
        if call.options.groups != 1:
            raise ValueError(f"groups is {call.options.groups}, and packed weights have one")
        w = call.set_packed(weight, arithmetic, x_group)
    else:
        if kernel_size is not None or arithmetic is not None or x_group != 0:
            raise ValueError("kernel_size, arithmetic and x_group go only with packed weights")
        w = np.ascontiguousarray(_operand(weight, "weight", 2 + dims, rapt_type)[0])
        shape = list(w.shape)
    call.set_window(shape[2:], stride, padding, dilation)
    call.set_shape(x.shape[0], x.shape[1], x.shape[2:], shape[0])
    if shape[1] * call.options.groups != x.shape[1]:
        raise ValueError(f"weight has {shape[1]} channels in each group, and input has {x.shape[1]} in all")
    call.set_bias(bias, shape[0])
    call.options.x_strides[: 2 + dims] = _strides(x)
    y = empty((x.shape[0], shape[0], *call.positions()), rapt_type, x)
    call.run(x, w, y, threads, float(y.size) * math.prod(shape[1:]))
    return in_kind_of(input, y)


def conv1d(
    input: TensorLike, weight: TensorLike | PackedWeights, bias: Any = None, stride: _Sizes = 1, padding: _Padding = 0,
    dilation: _Sizes = 1, groups: int = 1, *, kernel_size: _Sizes | None = None, arithmetic: Arithmetic = None,
    x_group: int = 0, threads: int | None = 1,
) -> Any:  # fmt: skip
    """A convolution over one dimension: input [batch][channels][length], weight [out_channels][channels / groups][taps].

    The types are f32, f64, f16 or bf16, the same for both. Elements of 16 bits are multiplied in f32, and the sum is rounded
    once. bias has one number for each output channel. input may have any strides: channels that are last are not copied.

    stride, padding and dilation are numbers, or one for each dimension. padding may also be "valid", "same", or have a pair
    (before, behind) for a dimension. groups that are the number of channels make it depthwise.

    Products with padding are left out: an infinite weight does no harm there. A result has the same bits alone and in a batch,
    for any strides and threads; a 1x1 convolution has those of rapt.linear. threads: None for all CPUs.

    weight may also come from pack_weights, pack_quantized or pack_blocks, of a matrix [out_channels][channels * taps], without
    groups. kernel_size then says the taps. Quantized weights multiply as in rapt.linear, where a row of x is what an output
    reads; arithmetic and x_group are as there.

    A TypeError is another type, a ValueError a shape that does not fit.

    >>> rapt.conv1d(np.ones((1, 1, 4), np.float32), np.ones((1, 1, 3), np.float32), padding=1)
    array([[[2., 3., 3., 2.]]], dtype=float32)
    >>> packed = rapt.pack_quantized(np.ones((1, 3), np.int8), "i8")
    >>> rapt.conv1d(np.ones((1, 1, 4), np.float32), packed, padding=1, kernel_size=3)
    array([[[2., 3., 3., 2.]]], dtype=float32)
    """
    return _conv(1, input, weight, bias, stride, padding, dilation, groups, kernel_size, arithmetic, x_group, threads)


def conv2d(
    input: TensorLike, weight: TensorLike | PackedWeights, bias: Any = None, stride: _Sizes = 1, padding: _Padding = 0,
    dilation: _Sizes = 1, groups: int = 1, *, kernel_size: _Sizes | None = None, arithmetic: Arithmetic = None,
    x_group: int = 0, threads: int | None = 1,
) -> Any:  # fmt: skip
    """conv1d over two dimensions: input [batch][channels][height][width]."""
    return _conv(2, input, weight, bias, stride, padding, dilation, groups, kernel_size, arithmetic, x_group, threads)


def conv3d(
    input: TensorLike, weight: TensorLike | PackedWeights, bias: Any = None, stride: _Sizes = 1, padding: _Padding = 0,
    dilation: _Sizes = 1, groups: int = 1, *, kernel_size: _Sizes | None = None, arithmetic: Arithmetic = None,
    x_group: int = 0, threads: int | None = 1,
) -> Any:  # fmt: skip
    """conv1d over three dimensions: input [batch][channels][depth][height][width]."""
    return _conv(3, input, weight, bias, stride, padding, dilation, groups, kernel_size, arithmetic, x_group, threads)


def conv_input(
    input_size: Sequence[int], weight: TensorLike, grad_output: TensorLike, bias: Any = None, stride: _Sizes = 1,
    padding: _Padding = 0, dilation: _Sizes = 1, groups: int = 1, *, threads: int | None = 1,
) -> Any:  # fmt: skip
    """The gradient of a convolution's input, whose shape is input_size, as torch.nn.grad.conv2d_input, for one to three dimensions.

    It is the transposed convolution of grad_output, to which bias adds a number for each channel of input. The other arguments
    are those of conv1d.
    """
    shape = [integer(size, "input_size", 0, _MOST) for size in input_size]
    dims = len(shape) - 2
    if not 1 <= dims <= 3:
        raise ValueError(f"input_size has {len(shape)} numbers, not 3 to 5")
    dy, rapt_type = _operand(grad_output, "grad_output", 2 + dims)
    w, _ = _operand(weight, "weight", 2 + dims, rapt_type)
    w = np.ascontiguousarray(w)
    call = _Call(_DX, rapt_type, dims, groups)
    call.set_window(w.shape[2:], stride, padding, dilation)
    call.set_shape(shape[0], shape[1], shape[2:], w.shape[0])
    if w.shape[1] * call.options.groups != shape[1]:
        raise ValueError(f"weight has {w.shape[1]} channels in each group, and input_size has {shape[1]} in all")
    expected = (shape[0], w.shape[0], *call.positions())
    if dy.shape != expected:
        raise ValueError(f"grad_output has the shape {dy.shape}, not {expected}")
    call.set_bias(bias, shape[1])
    call.options.y_strides[: 2 + dims] = _strides(dy)
    dx = empty(tuple(shape), rapt_type, dy)
    call.run(dy, w, dx, threads, float(dy.size) * math.prod(w.shape[1:]))
    return in_kind_of(grad_output, dx)


def conv_weight(
    input: TensorLike, weight_size: Sequence[int], grad_output: TensorLike, stride: _Sizes = 1, padding: _Padding = 0,
    dilation: _Sizes = 1, groups: int = 1, *, threads: int | None = 1,
) -> Any:  # fmt: skip
    """The gradient of a convolution's weight, whose shape is weight_size, as torch.nn.grad.conv2d_weight, for one to three dimensions.

    The other arguments are those of conv1d. The gradient of the bias is rapt.sum(grad_output, axis=...) over all dimensions
    but the channels.
    """
    shape = [integer(size, "weight_size", 0, _MOST) for size in weight_size]
    dims = len(shape) - 2
    if not 1 <= dims <= 3:
        raise ValueError(f"weight_size has {len(shape)} numbers, not 3 to 5")
    x, rapt_type = _operand(input, "input", 2 + dims)
    dy, _ = _operand(grad_output, "grad_output", 2 + dims, rapt_type)
    call = _Call(_DW, rapt_type, dims, groups)
    call.set_window(shape[2:], stride, padding, dilation)
    call.set_shape(x.shape[0], x.shape[1], x.shape[2:], shape[0])
    if shape[1] * call.options.groups != x.shape[1]:
        raise ValueError(f"weight_size has {shape[1]} channels in each group, and input has {x.shape[1]} in all")
    expected = (x.shape[0], shape[0], *call.positions())
    if dy.shape != expected:
        raise ValueError(f"grad_output has the shape {dy.shape}, not {expected}")
    call.options.x_strides[: 2 + dims], call.options.y_strides[: 2 + dims] = _strides(x), _strides(dy)
    dw = empty(tuple(shape), rapt_type, x)
    call.run(x, dy, dw, threads, float(dy.size) * math.prod(shape[1:]))
    return in_kind_of(input, dw)


def conv_transpose(
    input: TensorLike, weight: TensorLike, bias: Any = None, stride: _Sizes = 1, padding: _Sizes = 0,
    output_padding: _Sizes = 0, groups: int = 1, dilation: _Sizes = 1, *, threads: int | None = 1,
) -> Any:  # fmt: skip
    """A transposed convolution of one to three dimensions, as torch's conv_transpose1d, conv_transpose2d and conv_transpose3d.

    weight is [channels][out_channels / groups][taps], and the size of the result is
    (size - 1) * stride - 2 * padding + dilation * (taps - 1) + output_padding + 1. output_padding is below stride. input, bias,
    groups and threads are as in conv1d.
    """
    x = as_array(input, "input")
    w = as_array(weight, "weight")
    dims = x.ndim - 2
    if not 1 <= dims <= 3 or w.ndim != x.ndim:
        raise ValueError(f"input has {x.ndim} dimensions and weight {w.ndim}, which should be the same, 3 to 5")
    steps, pads = _per_dimension(stride, "stride", dims, 1), _per_dimension(padding, "padding", dims, 0)
    more, gaps = _per_dimension(output_padding, "output_padding", dims, 0), _per_dimension(
        dilation, "dilation", dims, 1
    )
    if any(extra >= step for extra, step in zip(more, steps)):
        raise ValueError("output_padding is not below stride")
    count = integer(groups, "groups", 1, _MOST)
    sizes = [
        (size - 1) * step - 2 * pad + gap * (taps - 1) + extra + 1
        for size, step, pad, gap, taps, extra in zip(x.shape[2:], steps, pads, gaps, w.shape[2:], more)
    ]
    if any(size < 0 for size in sizes):
        raise ValueError(f"the result would have the sizes {tuple(sizes)}")
    return conv_input(
        (x.shape[0], w.shape[1] * count, *sizes), weight, input, bias, steps, pads, gaps, count, threads=threads
    )
