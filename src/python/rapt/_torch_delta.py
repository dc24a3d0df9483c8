"""The gated delta rule as an operator of PyTorch, in the place of the loops of transformers' models.

The loops are those of Qwen3-Next, and of Kimi Linear with a decay of each key dimension. There are two of each: one takes a token
at a time, and the other is the chunked form, which has other bits and is used for prompts. Rapt has one rule for both.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from ._library import BF16, F16, F32, REPEAT, C, DeltaRuleGradients, DeltaRuleOptions, Strides, check, count
from ._threads import run_tasks
from ._torch_table import Tensor, count_call, threads
from ._workspace import SMALL, run_at_once

# Debian's PyTorch, over which types are checked, lacks what these have.
_torch: Any = torch
_NAME, _BACKWARD = "gated_delta_rule", "gated_delta_rule_backward"
_TYPES = {torch.float32: F32, torch.float16: F16, torch.bfloat16: BF16}
# By module and name. Gradients that have gradients themselves are those of a loop, after disable() too.
LOOPS: dict[str, Callable[..., Any]] = {}


def _strides(x: Tensor) -> Strides:
    """Of [batch][tokens][heads], in the library's order."""
    batch, token, head = (stride if stride or size == 1 else REPEAT for stride, size in zip(x.stride()[:3], x.shape))
    return Strides(batch, head, token)


def _rows(x: Tensor, dtype: torch.dtype) -> Tensor:
    x = x.to(dtype)
    return x if x.dim() == 3 or x.stride(3) == 1 else x.contiguous()


class _Call:
    """The inputs of a call as the library takes them, and its options. Gates of 16 bits have the same values in float32."""

    def __init__(
        self, q: Tensor, k: Tensor, v: Tensor, g: Tensor, beta: Tensor, state: Tensor | None, l2_norm: bool
    ) -> None:
        self.dtype = dtype = q.dtype if q.dtype == k.dtype == v.dtype and q.dtype in _TYPES else torch.float32
        self.queries, self.keys, self.values = _rows(q, dtype), _rows(k, dtype), _rows(v, dtype)
        self.decays, self.betas = _rows(g, torch.float32), beta.float()
        self.before = None if state is None else state.float().contiguous()
        self.batch, self.tokens, self.heads, self.value_dim = v.shape
        self.key_dim = q.shape[3]
        self.options = DeltaRuleOptions(
            type=_TYPES[dtype],
            batch=self.batch,
            tokens=self.tokens,
            q_heads=q.shape[2],
            k_heads=q.shape[2],
            v_heads=self.heads,
            key_dim=self.key_dim,
            value_dim=self.value_dim,
            q_strides=_strides(self.queries),
            k_strides=_strides(self.keys),
            v_strides=_strides(self.values),
            l2_norm=int(l2_norm),
            g=self.decays.data_ptr(),
            g_strides=_strides(self.decays),
            decay_per_key=int(g.dim() == 4),
            beta=self.betas.data_ptr(),
            beta_strides=_strides(self.betas),
            state=None if self.before is None else self.before.data_ptr(),
        )
        self.inputs = self.queries.data_ptr(), self.keys.data_ptr(), self.values.data_ptr()
        self.work = 3 * self.batch * self.heads * self.tokens * self.key_dim * self.value_dim

    def new_states(self) -> Tensor:
        shape = self.batch, self.heads, self.key_dim, self.value_dim
        return self.values.new_empty(shape, dtype=torch.float32)

    def run(self, name: str, arguments: tuple[Any, ...], work: int) -> None:
        size_needed = partial(count, getattr(C, f"rapt_{name}_workspace"), self.options, check=check)
        if work <= SMALL:
            check(run_at_once(getattr(C, f"rapt_{name}"), arguments, size_needed))
            return
        workspace = size_needed()

        def run(first: int, last: int, scratch: int) -> None:
            check(getattr(C, f"rapt_{name}_run")(*arguments, first, last, scratch, workspace))

        tasks = count(getattr(C, f"rapt_{name}_tasks"), self.options, check=check)
        run_tasks(run, tasks, workspace, threads(work))


def _rule(
    q: Tensor, k: Tensor, v: Tensor, g: Tensor, beta: Tensor, state: Tensor | None, l2_norm: bool, loop: str
) -> tuple[Tensor, Tensor]:
    """The outputs in q's type, and the state in float32, where everything is computed."""
    call = _Call(q, k, v, g, beta, state, l2_norm)
    out, after = v.new_empty(v.shape, dtype=call.dtype), call.new_states()
    call.options.out_strides, call.options.final_state = _strides(out), after.data_ptr()
    call.run("delta_rule", (*call.inputs, out.data_ptr(), call.options), call.work)
    count_call(_NAME)
    return out.to(q.dtype), after


def _backward(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    g: Tensor,
    beta: Tensor,
    state: Tensor | None,
    dout: Tensor | None,
    dfinal: Tensor | None,
    l2_norm: bool,
) -> tuple[Tensor, ...]:
    """The gradients of q, k, v, g and beta in their types, and that of the state in float32."""
    call = _Call(q, k, v, g, beta, state, l2_norm)
    of_out = _rows(torch.zeros_like(v) if dout is None else dout, call.dtype)
    after = None if dfinal is None else dfinal.float().contiguous()
    dq, dk, dv = (x.new_empty(x.shape, dtype=call.dtype) for x in (q, k, v))
    dg, dbeta = (x.new_empty(x.shape, dtype=torch.float32) for x in (g, beta))
    dstate = call.new_states()
    gradients = DeltaRuleGradients(
        dout=of_out.data_ptr(),
        dq=dq.data_ptr(),
        dk=dk.data_ptr(),
        dv=dv.data_ptr(),
        dout_strides=_strides(of_out),
        dq_strides=_strides(dq),
        dk_strides=_strides(dk),
        dv_strides=_strides(dv),
        dg=dg.data_ptr(),
        dg_strides=_strides(dg),
        dbeta=dbeta.data_ptr(),
        dbeta_strides=_strides(dbeta),
        dfinal=None if after is None else after.data_ptr(),
        dstate=dstate.data_ptr(),
    )
    call.run("delta_rule_backward", (*call.inputs, call.options, gradients), 5 * call.work)
    count_call(_BACKWARD)
    return *(made.to(x.dtype) for made, x in zip((dq, dk, dv, dg, dbeta), (q, k, v, g, beta))), dstate


def _shapes(
    q: Tensor, k: Tensor, v: Tensor, g: Tensor, beta: Tensor, state: Tensor | None, l2_norm: bool, loop: str
) -> tuple[Tensor, Tensor]:
    of_state = v.shape[0], v.shape[2], q.shape[3], v.shape[3]
    return q.new_empty(v.shape), q.new_empty(of_state, dtype=torch.float32)


def _backward_shapes(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    g: Tensor,
    beta: Tensor,
    state: Tensor | None,
    dout: Tensor | None,
    dfinal: Tensor | None,
    l2_norm: bool,
) -> tuple[Tensor, ...]:
    of_state = v.shape[0], v.shape[2], q.shape[3], v.shape[3]
    return *(x.new_empty(x.shape) for x in (q, k, v, g, beta)), q.new_empty(of_state, dtype=torch.float32)


def _keep(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    *tensors, ctx.l2_norm, ctx.loop = inputs
    ctx.save_for_backward(*tensors)
    ctx.set_materialize_grads(False)


def _gradients(ctx: Any, *of_results: Tensor | None) -> tuple[Tensor | None, ...]:
    """The library's. Where they are to have gradients themselves, those of the loop, which is computed again."""
    needed = ctx.needs_input_grad[:6]
    if not torch.is_grad_enabled():
        made: Any = [None] * 6
        if any(dy is not None for dy in of_results):
            *tensors, state = ctx.saved_tensors
            made = _backward_operator()(*tensors, state, *of_results, ctx.l2_norm)
            made = [*made[:5], None if state is None else made[5].to(state.dtype)]
        return (*(dx if is_needed else None for dx, is_needed in zip(made, needed)), None, None)
    return _gradients_of_loop(ctx, *of_results)


def _gradients_of_loop(ctx: Any, *of_results: Tensor | None) -> tuple[Tensor | None, ...]:
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
        made[:] = torch.autograd.grad(outputs, wanted, of_outputs, create_graph=True, allow_unused=True)
    return (*(made.pop(0) if is_needed else None for is_needed in needed), None, None)


def _of_batches(info: Any, in_dims: Any, *arguments: Any) -> tuple[tuple[Tensor, ...], tuple[int, ...]]:
    """vmap's dimension is one more of sequences."""
    return _folded(_called, info, in_dims, arguments)


def _backward_of_batches(info: Any, in_dims: Any, *arguments: Any) -> tuple[tuple[Tensor, ...], tuple[int, ...]]:
    return _folded(_backward_operator(), info, in_dims, arguments)


def _folded(function: Any, info: Any, in_dims: Any, arguments: Any) -> tuple[tuple[Tensor, ...], tuple[int, ...]]:
    folded: list[Any] = []
    for x, dim in zip(arguments, in_dims):
        if isinstance(x, torch.Tensor):
            x = x.expand(info.batch_size, *x.shape) if dim is None else x.movedim(dim, 0)
            x = x.flatten(0, 1)
        folded.append(x)
    results = tuple(y.reshape(info.batch_size, -1, *y.shape[1:]) for y in function(*folded))
    return results, (0,) * len(results)


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


def _backward_operator() -> Any:
    return getattr(_torch.ops.rapt, _BACKWARD).default


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
    library.define(
        f"{_BACKWARD}(Tensor q, Tensor k, Tensor v, Tensor g, Tensor beta, Tensor? state, Tensor? dout, Tensor? dfinal,"
        " bool l2_norm) -> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)"
    )
    library.impl(_BACKWARD, _backward, "CPU")
    _torch.library.register_fake(f"rapt::{_BACKWARD}", _backward_shapes, lib=library)
    _torch.library.register_vmap(f"rapt::{_BACKWARD}", _backward_of_batches, lib=library)
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
