"""PyTorch's own sample calls of its operators, without rapt and with it: results, gradients, types, shapes and strides.

    torch_opinfo.py SAMPLES [NAME...]

Prints how many operators of each type were replaced in one of their calls, and a line for each that differs by more than
rounding. An operator that rapt does not meet counts as nothing. The calls are made of tensors without memory, too, which have to
get the same shapes, types and strides.
"""

from __future__ import annotations

import collections
import itertools
import json
import sys
import warnings
from collections.abc import Iterator
from typing import Any

import torch
from torch._subclasses.fake_utils import CrossRefFakeMode
from torch.testing._internal.common_methods_invocations import op_db

import rapt.torch

Tensor = torch.Tensor

# Types that stand for all in calls of tensors without memory.
OF_FAKE = (torch.float32, torch.bfloat16)
# Of results, relative and absolute.
WIDTHS = {torch.float32: 3e-5, torch.float64: 1e-11, torch.bfloat16: 3e-2, torch.float16: 4e-3}
# Another test has random operators. The others have numbers that cancel, long chains of roundings, or arguments that
# their first call changes.
LEFT_OUT = {
    "cov", "matrix_exp", "nn.functional.batch_norm", "native_batch_norm", "native_layer_norm", "_native_batch_norm_legit",
    "nn.functional.dropout2d", "nn.functional.dropout3d", "nn.functional.feature_alpha_dropout", "nn.functional.rrelu",
}  # fmt: skip
LEFT_OUT_PARTS = ("fft", "linalg.", "rand", "dropout", "normal", "uniform", "empty", "exponential", "multinomial", "bernoulli",
                  "geometric", "cauchy", "sparse", "jiterator", "svd", "pca", "special.", "cholesky", "lu_", "max_unpool",
                  "fractional", "ctc_loss")  # fmt: skip
KEPT = {"linalg.vector_norm", "linalg.norm", "linalg.solve_triangular", "nn.functional.normalize"}


def tensors(values: Any) -> Iterator[Tensor]:
    if isinstance(values, Tensor):
        yield values
    elif isinstance(values, (list, tuple)):
        for value in values:
            yield from tensors(value)


def results(op: Any, sample: Any) -> tuple[list[Tensor], list[Tensor]]:
    """What a call gives, and the gradients of the sum of that."""
    made = list(tensors(op(sample.input, *sample.args, **sample.kwargs)))
    leaves = [x for x in tensors([sample.input, *sample.args, *sample.kwargs.values()]) if x.requires_grad]
    ends = [x.sum() for x in made if x.requires_grad and x.is_floating_point()]
    if not leaves or not ends:
        return made, []
    return made, [x for x in torch.autograd.grad(ends, leaves, allow_unused=True) if x is not None]


def steps(x: Tensor) -> list[int]:
    return [step for step, length in zip(x.stride(), x.shape) if length > 1]


def difference(stock: Any, ours: Any) -> str | None:
    for i, (x, y) in enumerate(zip([*stock[0], *stock[1]], [*ours[0], *ours[1]])):
        if (x.shape, x.dtype) != (y.shape, y.dtype):
            return f"result {i} is {y.dtype} {tuple(y.shape)}, not {x.dtype} {tuple(x.shape)}"
        if x.layout != torch.strided or x.dtype not in WIDTHS:
            continue
        if i < len(stock[0]) and x.numel() > 1 and steps(x) != steps(y):
            return f"result {i} has the strides {y.stride()}, not {x.stride()}"
        of_x, of_y = x.detach().double(), y.detach().double()
        size = of_x[of_x.isfinite()].abs().max().item() if of_x.isfinite().any() else 0.0
        if not torch.allclose(of_x, of_y, rtol=WIDTHS[x.dtype], atol=WIDTHS[x.dtype] * max(1.0, size), equal_nan=True):
            return f"result {i} of {len(stock[0])} differs by {(of_x - of_y).abs().max().item()}"
    return None


def outcome(op: Any, sample: Any) -> Any:
    try:
        return results(op, sample)
    except Exception as error:  # noqa: BLE001
        return error


def of_fake_tensors(op: Any, sample: Any) -> str | None:
    """How the operators of a call differ from what PyTorch says of their results' shapes, types and strides."""
    try:
        with torch.no_grad(), CrossRefFakeMode():
            op(sample.input, *sample.args, **sample.kwargs)
    except Exception as error:  # noqa: BLE001
        return f"{type(error).__name__}: {error}"
    return None


def calls(count: int, names: list[str]) -> Iterator[tuple[Any, torch.dtype, list[Any]]]:
    for op in op_db:
        is_out = op.name in LEFT_OUT or (op.name not in KEPT and any(part in op.name for part in LEFT_OUT_PARTS))
        if op.name not in names if names else is_out:
            continue
        for dtype in WIDTHS:
            if "grid_sample" in op.name and dtype.itemsize == 2:
                continue  # PyTorch computes places in 16 bits
            if dtype in op.supported_dtypes("cpu"):
                has_gradients = (
                    op.supports_autograd and dtype in op.supported_backward_dtypes("cpu") and dtype.itemsize > 2
                )
                samples = op.sample_inputs("cpu", dtype, requires_grad=has_gradients)
                yield op, dtype, list(itertools.islice(samples, count))


def main(count: int, names: list[str]) -> dict[str, Any]:
    replaced: collections.Counter[str] = collections.Counter()
    differ: list[str] = []
    # All without rapt first: turning it on for each would take most of the time.
    stock = [
        (op, dtype, sample, outcome(op, sample), of_fake_tensors(op, sample) if dtype in OF_FAKE else "")
        for op, dtype, some in calls(count, names)
        for sample in some
    ]
    met: set[tuple[str, str, str]] = set()
    with rapt.torch.enabled():
        before = 0
        for op, dtype, sample, expected, of_fake in stock:
            if isinstance(expected, Exception):
                continue
            found = outcome(op, sample)
            after = sum(rapt.torch.report().replaced.values())
            key = op.name, op.variant_test_name, str(dtype).rsplit(".", 1)[1]
            if after != before and key not in met:
                met.add(key)
                replaced[key[2]] += 1
            what = f"{type(found).__name__}: {found}" if isinstance(found, Exception) else difference(expected, found)
            if after != before and what is None and of_fake is None:
                what = of_fake_tensors(op, sample)
            before = sum(rapt.torch.report().replaced.values())
            if what:
                differ.append(f"{' '.join(key)}: {what}; the call: {str(sample)[:200]}")
    return {"replaced": dict(replaced), "differ": differ}


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    torch.manual_seed(0)
    torch.set_num_threads(1)
    print(json.dumps(main(int(sys.argv[1]), sys.argv[2:])))
