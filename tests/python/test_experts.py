"""Mixtures of experts: lists of rows, linear layers of all experts, and sums over slots, compared with one call for each."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rapt

Numbers = np.random.default_rng


def drawn_lists(seed: int) -> tuple[rapt.ExpertLists, int, int]:
    experts, tokens, slots = 5, 23, 2
    ids = Numbers(seed).integers(0, experts - 1, (tokens, slots))  # the last expert has no rows
    return rapt.expert_lists(ids, experts), experts, tokens


def test_lists_are_a_stable_sort() -> None:
    ids = Numbers(1).integers(0, 7, (19, 3)).astype(np.int64)
    lists = rapt.expert_lists(ids[:, ::-1], 7)
    expected = np.argsort(ids[:, ::-1].ravel(), kind="stable")
    assert np.array_equal(lists.entry_rows, expected) and np.array_equal(lists.token_rows, expected // 3)
    assert np.array_equal(lists.offsets, np.searchsorted(np.sort(ids.ravel()), np.arange(8)))


def weights_of(kind: str, experts: int) -> tuple[Any, list[Any]]:
    """The weights of all experts, and those of each."""
    w = Numbers(2).normal(size=(experts, 70, 64)).astype(np.float32)
    if kind == "plain":
        return w, list(w)
    if kind == "transposed":
        of = np.ascontiguousarray(w.transpose(0, 2, 1)).transpose(0, 2, 1)
        return of, list(of)
    if kind == "reversed":
        return w[:, ::-1], list(w[:, ::-1])
    if kind == "packed":
        packed = [rapt.pack_weights(one) for one in w]
    else:
        packed = [
            rapt.pack_quantized(q, "i4", scales, scale_group=32)
            for q, scales in (rapt.quantize_rows(one, "i4", 32) for one in w)
        ]
    return rapt.pack_experts(packed), packed


@pytest.mark.parametrize("kind", ["plain", "transposed", "reversed", "packed", "i4"])
@pytest.mark.parametrize("threads", [1, 3])
def test_bits_of_one_call_for_each_expert(kind: str, threads: int) -> None:
    lists, experts, tokens = drawn_lists(3)
    w, each = weights_of(kind, experts)
    x, bias = Numbers(4).normal(size=(tokens, 64)).astype(np.float32), Numbers(5).normal(size=(experts, 70))
    scales = Numbers(6).normal(size=len(lists.token_rows))
    arithmetic: Any = "i8" if kind == "i4" else None
    out = np.full((len(scales) + 1, 70), 7, np.float32)
    got = rapt.linear_experts(
        x, w, lists.offsets, bias, row_scales=scales, x_rows=lists.token_rows, y_rows=lists.entry_rows,
        arithmetic=arithmetic, out=out, threads=threads,
    )  # fmt: skip
    assert got is out and np.all(out[-1] == 7)
    sorted_rows = rapt.linear_experts(x[lists.token_rows], w, lists.offsets, arithmetic=arithmetic)
    for e in range(experts):
        rows = slice(int(lists.offsets[e]), int(lists.offsets[e + 1]))
        of_expert = x[lists.token_rows[rows]]
        expected = rapt.linear(of_expert, each[e], bias[e], row_scales=scales[rows], arithmetic=arithmetic)
        assert np.array_equal(out[lists.entry_rows[rows]], expected)
        assert np.array_equal(sorted_rows[rows], rapt.linear(of_expert, each[e], arithmetic=arithmetic))


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
def test_sum_is_in_the_order_of_slots(dtype: Any) -> None:
    x = Numbers(7).normal(size=(9, 4, 33)).astype(dtype)
    weights, add = Numbers(8).normal(size=(9, 4)), x[:, 1] + x[:, 2]
    wide = np.float64 if dtype == np.float64 else np.float32
    plain = x[:, 0].astype(wide)
    for slot in range(1, 4):
        plain = plain + x[:, slot].astype(wide)
    assert np.array_equal(rapt.expert_sum(x), plain.astype(dtype))
    total = np.einsum("tsc,ts->tc", x.astype(np.float64), weights.astype(wide).astype(np.float64)) + add
    out = add.copy()
    assert rapt.expert_sum(x, weights, add=out, out=out) is out
    assert np.allclose(out, total, rtol=1e-2 if dtype == np.float16 else 1e-4, atol=1e-2)
    assert np.array_equal(out, rapt.expert_sum(x, weights, add=add))


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda x, w: rapt.linear_experts(x, w[0], [0, 4]), "w has 2 dimensions, not 3"),
        (lambda x, w: rapt.linear_experts(x[0], w, [0, 1, 1]), "x has 1 dimensions, not 2"),
        (lambda x, w: rapt.linear_experts(x, w, [0, 4]), r"offsets has the shape \(2,\), not \(3,\)"),
        (lambda x, w: rapt.linear_experts(x, w, [0, 5, 4]), "offsets do not ascend from 0 to 4"),
        (lambda x, w: rapt.linear_experts(x, w, [0, 2, 3]), "offsets do not ascend from 0 to 4"),
        (lambda x, w: rapt.linear_experts(x, w, [0, 2, 4], np.zeros(5)), r"bias has the shape \(5,\), not \(2, 5\)"),
        (lambda x, w: rapt.expert_lists([[0, 2]], 2), "ids has a number that is none of 2 experts"),
        (lambda x, w: rapt.expert_lists([0, 1], 2), "not \\(tokens, slots\\)"),
        (lambda x, w: rapt.expert_sum(x), r"x has the shape \(4, 3\), not \(tokens, slots, cols\)"),
        (lambda x, w: rapt.expert_sum(w, add=x), "add has the shape"),
        (lambda x, w: rapt.expert_sum(w, out=w[:, 0]), "out overlaps x"),
        (lambda x, w: rapt.pack_experts([]), "experts has no weights"),
    ],
)
def test_a_message_names_the_argument(call: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call(np.zeros((4, 3), np.float32), np.zeros((2, 5, 3), np.float32))


def test_types() -> None:
    x, w = np.zeros((4, 3), np.float32), np.zeros((2, 5, 3), np.float32)
    with pytest.raises(TypeError, match="pack_experts"):
        rapt.linear_experts(x, rapt.pack_weights(w[0]), [0, 4])
    with pytest.raises(TypeError, match="f64 goes only with f64"):
        rapt.linear_experts(x, w.astype(np.float64), [0, 2, 4])
    with pytest.raises(TypeError, match="list of PackedWeights"):
        rapt.pack_experts([w[0]])
    with pytest.raises(ValueError, match="other weights"):
        rapt.pack_experts([rapt.pack_weights(w[0]), rapt.pack_weights(w[0, :4])])
    out = np.zeros((4, 5), np.float32)
    with pytest.raises(ValueError, match="add is y"):
        rapt.linear_experts(x, w, [0, 2, 4], y_rows=[0, 1, 2, 3], add=out, out=out)
