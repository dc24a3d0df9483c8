"""The gated delta rule of Qwen3-Next, Qwen3.5 and Kimi Linear, and linear attention."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ._arguments import integer
from ._arrays import (
    TensorLike,
    address,
    as_array,
    as_integers,
    as_output,
    check_output,
    element_type,
    empty,
    in_kind_of,
    may_overlap,
)
from ._library import BF16, F16, F32, C, DeltaRuleGradients, DeltaRuleOptions, Strides, check, count
from ._threads import run_tasks, thread_count

_TYPES = (F32, F16, BF16)
_NORMS = {None: 0, "add_eps": 1, "max_eps": 2}


def _input(value: TensorLike, name: str, types: tuple[int, ...]) -> tuple[Any, int]:
    array = np.ascontiguousarray(as_array(value, name))
    rapt_type = element_type(array, name)
    if rapt_type not in types:
        raise TypeError(f"{name} has elements of {array.dtype.name}, not f32, f16 or bf16, or not those of the others")
    return array, rapt_type


def _shaped(array: Any, name: str, shape: tuple[int, ...]) -> Any:
    if array.shape != shape:
        raise ValueError(f"{name} has the shape {array.shape}, not {shape}")
    return array


def _offsets(x: TensorLike, batch: int, tokens: int) -> Any:
    given = as_integers(x, "offsets")
    offsets = np.array(given, np.int32, order="C")
    if batch != 1:
        raise ValueError(f"tensors with offsets have no batch dimension, not one of {batch}")
    if offsets.ndim != 1 or len(offsets) < 2 or not np.array_equal(offsets, given):
        raise ValueError(f"offsets must have one element more than there are sequences, not the shape {offsets.shape}")
    if offsets.min() < 0 or offsets.max() > tokens or np.diff(offsets).min() < 0:
        raise ValueError(f"offsets {offsets.tolist()} decrease, or lead out of the {tokens} tokens")
    return offsets


class DeltaGradients(NamedTuple):
    """What delta_rule_backward returns.

    dq, dk, dv  the gradients of q, k and v
    dg, dbeta   those of g and beta; None without these
    dstate      that of the state before the first token, in float32
    """

    dq: Any
    dk: Any
    dv: Any
    dg: Any
    dbeta: Any
    dstate: Any


class _Call:
    """What calls of the rule and of its gradients share. The arrays live as long as this."""

    def __init__(
        self,
        q: TensorLike,
        k: TensorLike,
        v: TensorLike,
        g: TensorLike | None,
        beta: TensorLike | None,
        scale: float | None,
        l2_norm: str | None,
        eps: float | None,
        interleaved_heads: bool,
        offsets: TensorLike | None,
    ) -> None:
        queries, rapt_type = _input(q, "q", _TYPES)
        keys, _ = _input(k, "k", (rapt_type,))
        values, _ = _input(v, "v", (rapt_type,))
        for name, array in (("q", queries), ("k", keys), ("v", values)):
            if array.ndim != 4:
                raise ValueError(f"{name} has the shape {array.shape}, not [batch, heads, tokens, dim]")
        batch, q_heads, tokens, key_dim = queries.shape
        k_heads, v_heads, value_dim = keys.shape[1], values.shape[1], values.shape[3]
        _shaped(keys, "k", (batch, k_heads, tokens, key_dim))
        _shaped(values, "v", (batch, v_heads, tokens, value_dim))
        if value_dim == 0 or k_heads == 0 or v_heads == 0:
            raise ValueError("k or v has no elements")
        if l2_norm not in _NORMS:
            raise ValueError(f'l2_norm is {l2_norm!r}, not None, "add_eps" or "max_eps"')
        sequences, packed, longest = batch, None, tokens
        if offsets is not None:
            packed = _offsets(offsets, batch, tokens)
            sequences, longest = len(packed) - 1, int(np.diff(packed).max())
        options = self.options = DeltaRuleOptions(
            type=rapt_type,
            batch=sequences,
            tokens=longest,
            q_heads=q_heads,
            k_heads=k_heads,
            v_heads=v_heads,
            key_dim=key_dim,
            value_dim=value_dim,
            interleaved_heads=int(interleaved_heads),
            scale=0.0 if scale is None else float(scale),
            l2_norm=_NORMS[l2_norm],
            eps=0.0 if eps is None else float(eps),
        )
        if packed is not None:
            options.offsets = address(packed)
        gates = []
        gate_types = []
        if g is not None:
            decays, gate_type = _input(g, "g", (F32, rapt_type))
            per_key = decays.ndim == 4
            _shaped(decays, "g", (batch, v_heads, tokens, key_dim) if per_key else (batch, v_heads, tokens))
            options.g, options.decay_per_key = address(decays), int(per_key)
            gates.append(decays)
            gate_types.append(gate_type)
        if beta is not None:
            betas, gate_type = _input(beta, "beta", (F32, rapt_type))
            options.beta = address(_shaped(betas, "beta", (batch, v_heads, tokens)))
            gates.append(betas)
            gate_types.append(gate_type)
        if len(set(gate_types)) > 1:
            raise TypeError("g and beta have elements of different types")
        options.gate_type = gate_types[0] if gate_types else 0
        self.queries, self.keys, self.values, self.gates, self.rapt_type = queries, keys, values, gates, rapt_type
        self.packed = packed
        self.decays, self.betas = (gates[0] if g is not None else None), (gates[-1] if beta is not None else None)
        self.gate_type = options.gate_type
        self.state_shape = (sequences, v_heads, key_dim, value_dim)
        self.out_shape = (batch, max(q_heads, v_heads), tokens, value_dim)
        self.work = batch * max(q_heads, v_heads) * tokens * key_dim * value_dim * 3

    @property
    def inputs(self) -> tuple[Any, ...]:
        return (self.queries, self.keys, self.values, *self.gates)

    def pack(self, options: Any, rows: dict[str, int]) -> None:
        """Sets the strides of packed tensors: the library's own end with the last sequence."""
        if self.packed is not None:
            for name, row in rows.items():
                setattr(options, f"{name}_strides", Strides(0, self.out_shape[2] * row, row))

    def pack_inputs(self) -> None:
        key_dim, value_dim = self.state_shape[2:]
        rows = {"q": key_dim, "k": key_dim, "v": value_dim}
        if self.decays is not None:
            rows["g"] = key_dim if self.options.decay_per_key else 1
        if self.betas is not None:
            rows["beta"] = 1
        self.pack(self.options, rows)

    def clear_outside(self, array: Any) -> Any:
        """Tokens of no sequence have zeros."""
        if self.packed is not None:
            array[:, :, : self.packed[0]] = 0
            array[:, :, self.packed[-1] :] = 0
        return array


def delta_rule(
    q: TensorLike,
    k: TensorLike,
    v: TensorLike,
    g: TensorLike | None = None,
    beta: TensorLike | None = None,
    *,
    state: Any = None,
    scale: float | None = None,
    l2_norm: str | None = None,
    eps: float | None = None,
    interleaved_heads: bool = False,
    offsets: TensorLike | None = None,
    state_window: int | None = None,
    threads: int | None = 1,
) -> Any:
    """Each token decays the state of its head by exp(g), corrects what it holds for k towards v by beta, and reads it by q.

    q is [batch, q_heads, tokens, key_dim], k [batch, k_heads, tokens, key_dim], v [batch, v_heads, tokens, value_dim], in f32,
    f16 or bf16. g is [batch, v_heads, tokens], or [batch, v_heads, tokens, key_dim] as in Kimi Linear; beta is [batch, v_heads,
    tokens]. Without g nothing decays, and without beta v is added as it is: these are the four rules of ONNX's LinearAttention.

    state [batch, v_heads, key_dim, value_dim] of f32 holds the state before the first token and gets the one after the last:
    a sequence has the same bits at once, in chunks and token by token. Without it the state begins with zeros. One of q_heads
    and v_heads is a multiple of the other, and k_heads divides v_heads; neighbours share a head, or with interleaved_heads
    head h uses head h % n. scale is 1/sqrt(key_dim) if not given. l2_norm divides the rows of q and k by their length:
    "add_eps" as transformers, by sqrt(sum + eps); "max_eps" as ggml, by max(length, eps). eps is 1e-6 if not given.

    offsets are [sequences + 1] integers: sequences are stored end to end in tensors whose batch is 1, and states have a batch
    of sequences. state_window=w also returns the states without the last 0, 1, ... w - 1 tokens, [w, batch, v_heads, key_dim,
    value_dim] with zeros before the first token of a sequence, for drafts that are taken back; state then stays as it is.

    threads: 1 by default, None for all CPUs where the work pays. Every number has the same bits. A call that Ctrl-C stops may
    leave anything in state.

    Returns [batch, the larger number of heads, tokens, value_dim], with state_window a pair of that and the states. A TypeError
    is another type, a ValueError other shapes, an overlap, or an option that has no effect.
    """
    call = _Call(q, k, v, g, beta, scale, l2_norm, eps, interleaved_heads, offsets)
    options = call.options
    if state is not None:
        kept = check_output(as_output(state, "state"), "state", call.state_shape, (F32,))
        if not kept.flags.c_contiguous:
            raise ValueError("state is not contiguous")
        if any(may_overlap(other, kept) for other in call.inputs):
            raise ValueError("state overlaps an input")
        options.state = options.final_state = address(kept)
    states = None
    if state_window is not None:
        options.state_window = integer(state_window, "state_window", 1)
        states = np.zeros((options.state_window, *call.state_shape), np.float32)
        options.final_state = address(states)
    out = call.clear_outside(empty(call.out_shape, call.rapt_type, call.queries))
    call.pack_inputs()
    call.pack(options, {"out": call.out_shape[3]})
    workspace = count(C.rapt_delta_rule_workspace, options, check=check)
    arrays = address(call.queries), address(call.keys), address(call.values), address(out)

    def run(first: int, last: int, scratch: int) -> None:
        check(C.rapt_delta_rule_run(*arrays, options, first, last, scratch, workspace))

    tasks = count(C.rapt_delta_rule_tasks, options, check=check)
    run_tasks(run, tasks, workspace, thread_count(threads, call.work))
    result = in_kind_of(q, out)
    return result if states is None else (result, in_kind_of(q, states))


def delta_rule_backward(
    q: TensorLike,
    k: TensorLike,
    v: TensorLike,
    dout: TensorLike,
    g: TensorLike | None = None,
    beta: TensorLike | None = None,
    *,
    state: TensorLike | None = None,
    dfinal: TensorLike | None = None,
    scale: float | None = None,
    l2_norm: str | None = None,
    eps: float | None = None,
    interleaved_heads: bool = False,
    offsets: TensorLike | None = None,
    threads: int | None = 1,
) -> DeltaGradients:
    """The gradients of a delta_rule call with these arguments, whose outputs have the gradient dout.

    state is what the call began with, or None for zeros, and dfinal the gradient of the state after the last token, or None for
    zeros. dout has the shape and type of delta_rule's result. The results have the shapes and types of what they are the
    gradients of. dg and dbeta are None without g and beta. dstate is float32, and is there without a state too.

    The forward call is computed again in chunks: no state is kept between the calls. Every number has the same bits with any
    threads. Tokens of no sequence have zeros.
    """
    call = _Call(q, k, v, g, beta, scale, l2_norm, eps, interleaved_heads, offsets)
    options, row = call.options, call.state_shape[2:]
    of_out = _shaped(_input(dout, "dout", (call.rapt_type,))[0], "dout", call.out_shape)
    before = None if state is None else _shaped(_input(state, "state", (F32,))[0], "state", call.state_shape)
    after = None if dfinal is None else _shaped(_input(dfinal, "dfinal", (F32,))[0], "dfinal", call.state_shape)
    if before is not None:
        options.state = address(before)

    def made(like: Any, rapt_type: int) -> Any:
        return None if like is None else call.clear_outside(empty(like.shape, rapt_type, call.queries))

    dq, dk, dv = (made(x, call.rapt_type) for x in (call.queries, call.keys, call.values))
    dg, dbeta = made(call.decays, call.gate_type), made(call.betas, call.gate_type)
    dstate = empty(call.state_shape, F32, call.queries)
    gradients = DeltaRuleGradients(
        dout=address(of_out),
        dq=address(dq),
        dk=address(dk),
        dv=address(dv),
        dg=None if dg is None else address(dg),
        dbeta=None if dbeta is None else address(dbeta),
        dfinal=None if after is None else address(after),
        dstate=address(dstate),
    )
    call.pack_inputs()
    rows = {"dout": row[1], "dq": row[0], "dk": row[0], "dv": row[1]}
    if dg is not None:
        rows["dg"] = row[0] if options.decay_per_key else 1
    if dbeta is not None:
        rows["dbeta"] = 1
    call.pack(gradients, rows)
    workspace = count(C.rapt_delta_rule_backward_workspace, options, check=check)
    arrays = address(call.queries), address(call.keys), address(call.values)

    def run(first: int, last: int, scratch: int) -> None:
        check(C.rapt_delta_rule_backward_run(*arrays, options, gradients, first, last, scratch, workspace))

    tasks = count(C.rapt_delta_rule_backward_tasks, options, check=check)
    run_tasks(run, tasks, workspace, thread_count(threads, 5 * call.work))
    results = (dq, dk, dv, dg, dbeta, dstate)
    return DeltaGradients(*(None if x is None else in_kind_of(q, x) for x in results))
