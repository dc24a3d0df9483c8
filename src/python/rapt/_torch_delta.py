"""The gated delta rule as an operator of PyTorch, in the place of the loops of transformers' models.

The loops are those of Qwen3-Next, and of Kimi Linear with a decay of each key dimension. There are two of each: one takes a token
at a time, and the other is the chunked form, which has other bits and is used for prompts. Rapt has one rule for both.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from ._library import BF16, F16, F32, REPEAT, C, DeltaRuleOptions, Strides, check, count
from ._threads import run_tasks
from ._torch_table import Tensor, count_call, threads
from ._workspace import SMALL, run_at_once

# Debian's PyTorch, over which types are checked, lacks what these have.
_torch: Any = torch
_NAME = "gated_delta_rule"
_TYPES = {torch.float32: F32, torch.float16: F16, torch.bfloat16: BF16}
# By module and name. Gradients are those of a loop, after disable() too.
LOOPS: dict[str, Callable[..., Any]] = {}


def _strides(x: Tensor) -> Strides:
    """Of [batch][tokens][heads], in the library's order."""
    batch, token, head = (stride if stride or size == 1 else REPEAT for stride, size in zip(x.stride()[:3], x.shape))
    return Strides(batch, head, token)


def _rows(x: Tensor, dtype: torch.dtype) -> Tensor:
    x = x.to(dtype)
    return x if x.dim() == 3 or x.stride(3) == 1 else x.contiguous()


def _rule(
    q: Tensor, k: Tensor, v: Tensor, g: Tensor, beta: Tensor, state: Tensor | None, l2_norm: bool, loop: str
) -> tuple[Tensor, Tensor]:
    """The outputs in q's type, and the state in float32, where everything is computed."""
    batch, tokens, heads, value_dim = v.shape
    key_dim = q.shape[3]
    dtype = q.dtype if q.dtype == k.dtype == v.dtype and q.dtype in _TYPES else torch.float32
    out = v.new_empty(v.shape, dtype=dtype)
    after = v.new_empty((batch, heads, key_dim, value_dim), dtype=torch.float32)
    # Gates of 16 bits have the same values in float32.
    queries, keys, values, decays = _rows(q, dtype), _rows(k, dtype), _rows(v, dtype), _rows(g, torch.float32)
    betas, before = beta.float(), None if state is None else state.float().contiguous()
    options = DeltaRuleOptions(
        type=_TYPES[dtype],
        batch=batch,
        tokens=tokens,
        q_heads=q.shape[2],
        k_heads=q.shape[2],
        v_heads=heads,
        key_dim=key_dim,
        value_dim=value_dim,
        q_strides=_strides(queries),
        k_strides=_strides(keys),
        v_strides=_strides(values),
        out_strides=_strides(out),
        l2_norm=int(l2_norm),
        g=decays.data_ptr(),
        g_strides=_strides(decays),
        decay_per_key=int(g.dim() == 4),
        beta=betas.data_ptr(),
        beta_strides=_strides(betas),
        state=None if before is None else before.data_ptr(),
        final_state=after.data_ptr(),
    )
    arguments = queries.data_ptr(), keys.data_ptr(), values.data_ptr(), out.data_ptr(), options
    size_needed = partial(count, C.rapt_delta_rule_workspace, options, check=check)
    work = 3 * batch * heads * tokens * key_dim * value_dim
    if work <= SMALL:
        check(run_at_once(C.rapt_delta_rule, arguments, size_needed))
    else:
        workspace = size_needed()

        def run(first: int, last: int, scratch: int) -> None:
            check(C.rapt_delta_rule_run(*arguments, first, last, scratch, workspace))

        run_tasks(run, count(C.rapt_delta_rule_tasks, options, check=check), workspace, threads(work))
    count_call(_NAME)
    return out.to(q.dtype), after


def _shapes(
    q: Tensor, k: Tensor, v: Tensor, g: Tensor, beta: Tensor, state: Tensor | None, l2_norm: bool, loop: str
) -> tuple[Tensor, Tensor]:
    of_state = v.shape[0], v.shape[2], q.shape[3], v.shape[3]
    return q.new_empty(v.shape), q.new_empty(of_state, dtype=torch.float32)


def _keep(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    *tensors, ctx.l2_norm, ctx.loop = inputs
    ctx.save_for_backward(*tensors)
    ctx.set_materialize_grads(False)


def _gradients(ctx: Any, *of_results: Tensor | None) -> tuple[Tensor | None, ...]:
    """Those of the loop, which is computed again."""
    needed = ctx.needs_input_grad[:6]
    with torch.enable_grad():
        # A view each: a tensor may be several arguments. Without detach(), there are second derivatives.
        given = [None if x is None else x.view_as(x) for x in ctx.saved_tensors]
        *tensors, state = given
        results = LOOPS[ctx.loop](
            *tensors, initial_state=state, output_final_state=True, use_qk_l2norm_in_kernel=ctx.l2_norm
        )
    known: list[tuple[Any, Any]] = [(y, dy) for y, dy in zip(results, of_results) if dy is not None]
    wanted: list[Any] = [x for x, is_needed in zip(given, needed) if is_needed]
    made: list[Tensor | None] = [None] * len(wanted)
    if known:
        outputs, of_outputs = zip(*known)
        with_graph = torch.is_grad_enabled()
        made[:] = torch.autograd.grad(outputs, wanted, of_outputs, create_graph=with_graph, allow_unused=True)
    return (*(made.pop(0) if is_needed else None for is_needed in needed), None, None)


def _of_batches(info: Any, in_dims: Any, *arguments: Any) -> tuple[tuple[Tensor, ...], tuple[int, ...]]:
    """vmap's dimension is one more of sequences."""
    folded: list[Any] = []
    for x, dim in zip(arguments, in_dims):
        if isinstance(x, torch.Tensor):
            x = x.expand(info.batch_size, *x.shape) if dim is None else x.movedim(dim, 0)
            x = x.flatten(0, 1)
        folded.append(x)
    return tuple(y.reshape(info.batch_size, -1, *y.shape[1:]) for y in _called(*folded)), (0, 0)


class _UnderTransforms(torch.autograd.Function):
    """The operator under torch.func, which does not know the gradients that are registered with operators."""

    @staticmethod
    def forward(*arguments: Any) -> Any:  # type: ignore[override]
        return _operator()(*arguments)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        _keep(ctx, inputs, output)

    @staticmethod
    def backward(ctx: Any, *of_results: Any) -> Any:
        return _gradients(ctx, *of_results)

    @staticmethod
    def vmap(info: Any, in_dims: Any, *arguments: Any) -> Any:
        return _of_batches(info, in_dims, *arguments)


def _operator() -> Any:
    return getattr(_torch.ops.rapt, _NAME).default


def _called(*arguments: Any) -> tuple[Tensor, Tensor]:
    is_transformed = _torch._C._functorch.maybe_current_level() is not None
    results: tuple[Tensor, Tensor] = (_UnderTransforms.apply if is_transformed else _operator())(*arguments)
    return results


class _Defined:
    library: Any = None  # until the process ends: compiled programs call the operator


def define() -> None:
    if _Defined.library is not None:
        return
    library = _Defined.library = _torch.library.Library("rapt", "FRAGMENT")
    library.define(
        f"{_NAME}(Tensor q, Tensor k, Tensor v, Tensor g, Tensor beta, Tensor? state, bool l2_norm, str loop)"
        " -> (Tensor, Tensor)"
    )
    library.impl(_NAME, _rule, "CPU")
    name = f"rapt::{_NAME}"
    _torch.library.register_fake(name, _shapes, lib=library)
    _torch.library.register_autograd(name, _gradients, setup_context=_keep, lib=library)
    _torch.library.register_vmap(name, _of_batches, lib=library)


def _is_taken(tensors: list[Any], state: Any, per_key: bool) -> bool:
    """Whether these are numbers in the memory of the CPU, of the shapes that models have."""
    for x in tensors if state is None else [*tensors, state]:
        if not isinstance(x, torch.Tensor) or x.device.type != "cpu" or x.layout != torch.strided:
            return False
        if not x.is_floating_point() or x.numel() == 0:
            return False
    q, k, v, g, beta = tensors
    if q.dim() != 4 or q.shape != k.shape or v.dim() != 4 or v.shape[:2] != q.shape[:2] or beta.shape != v.shape[:3]:
        return False
    if g.shape != (q.shape if per_key else beta.shape) or (
        v.shape[2] != q.shape[2] if per_key else v.shape[2] % q.shape[2]
    ):
        return False
    return state is None or state.shape == (v.shape[0], v.shape[2], q.shape[3], v.shape[3])


def _of_model(
    per_key: bool,
    loop: str,
    /,
    query: Any = None,
    key: Any = None,
    value: Any = None,
    g: Any = None,
    beta: Any = None,
    chunk_size: Any = None,
    initial_state: Any = None,
    output_final_state: bool = False,
    use_qk_l2norm_in_kernel: bool = False,
    **_: Any,
) -> Any:
    """What a loop returns, [batch, tokens, heads, dim] and the state, or NotImplemented."""
    tensors = [query, key, value, g, beta]
    if not _is_taken(tensors, initial_state, per_key):
        return NotImplemented
    out, after = _called(*tensors, initial_state, bool(use_qk_l2norm_in_kernel), loop)
    return out, after if output_final_state else None


gated = partial(_of_model, False)  # decays are [batch, tokens, heads]
gated_by_key = partial(_of_model, True)  # decays are [batch, tokens, heads, key dim]
