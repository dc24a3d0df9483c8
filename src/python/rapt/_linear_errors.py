"""What a status of the library says about a linear layer, in the names and numbers of its call."""

from __future__ import annotations

from ._arrays import SUFFIXES
from ._library import BLOCKS, F8_E4M3, F8_E5M2, I4, U4, U8, C, LinearOptions
from ._status import Status

_NAMES = {
    **SUFFIXES,
    I4: "i4",
    U4: "u4",
    U8: "u8",
    F8_E4M3: "f8_e4m3",
    F8_E5M2: "f8_e5m2",
    **{of.number: name for name, of in BLOCKS.items()},
}
_FOLD = 512  # inputs of a group of weights without scale groups


def error(status: int, o: LinearOptions) -> ValueError:
    """The exception that names the argument. The library has written nothing."""
    types = f"x of {_NAMES[o.x_type]} and w of {_NAMES[o.w_type]}"
    sizes = f"{o.out_features} outputs and {o.in_features} inputs"
    damaged = f"the packed weights are damaged, or not those of {sizes} of {_NAMES[o.w_type]}"
    texts: dict[int, str] = {
        Status.OVERLAP: "out overlaps an input: it may be exactly add, and nothing else",
        Status.SIZE: f"weights of {sizes} and {o.rows} rows of x are larger than memory can be",
        Status.ARITHMETIC: f"{types} have no arithmetic {_arithmetic(o)!r}",
        Status.PACKED: damaged,
        Status.W_SCALES: damaged,  # a header says which parts the weights have
        Status.W_ZEROS: damaged,
        Status.SCALE_GROUP: f"scale_group is {o.scale_group}, not 0, 16, 32, 64, 128 or 256",
        Status.W_CODEBOOK: "arithmetic is 'i8', whose codebooks are integers from -128 to 127"
        if o.packed_w
        else damaged,
        Status.X_GROUP: _x_group(o),
    }
    return ValueError(texts.get(status) or C.rapt_status_text(status).decode())


def _arithmetic(o: LinearOptions) -> str:
    return {1: "f32", 2: "bf16", 3: "i8"}.get(o.arithmetic, "default")


def _x_group(o: LinearOptions) -> str:
    if o.arithmetic != 3:
        return f"x_group is {_shown_group(o)}, which has an effect only in arithmetic 'i8'"
    of_blocks = {of.number: of.group for of in BLOCKS.values()}
    group = of_blocks.get(o.w_type, o.scale_group or _FOLD)
    return f"x_group is {_shown_group(o)}, no multiple of {group} (the scale group of w, or {_FOLD})"


def _shown_group(o: LinearOptions) -> int:
    return -1 if o.x_group > 1 << 63 else int(o.x_group)
