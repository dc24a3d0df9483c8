"""The custom operator for PyTorch."""

import sys
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src/python/examples"))

from torch_attention import scaled_dot_product_attention  # noqa: E402

import rapt  # noqa: E402


def made_of_matrices(q, k, v, attn_mask=None, is_causal=False, scale=None):
    scores = q @ k.transpose(-1, -2) * (scale or q.shape[-1] ** -0.5)
    if is_causal:
        attn_mask = torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool).tril()
    if attn_mask is not None and attn_mask.dtype == torch.bool:
        scores = scores.masked_fill(~attn_mask, float("-inf"))
    elif attn_mask is not None:
        scores = scores + attn_mask
    return torch.softmax(scores, -1) @ v


def tensors(dtype, grad=False, heads=2, q_len=5, kv_len=7, dim=8):
    torch.manual_seed(1)
    shapes = (3, heads, q_len, dim), (3, heads, kv_len, dim), (3, heads, kv_len, dim)
    return [torch.randn(shape, dtype=torch.float64).to(dtype).requires_grad_(grad) for shape in shapes]


@pytest.mark.parametrize(
    "dtype, tolerance", [(torch.float32, 1e-5), (torch.float64, 1e-12), (torch.float16, 5e-3), (torch.bfloat16, 5e-2)]
)
@pytest.mark.parametrize("case", ["plain", "causal", "mask", "bias", "scale"])
def test_forward(dtype, tolerance, case):
    q, k, v = tensors(dtype)
    options = {
        "plain": {},
        "causal": {"is_causal": True},
        "scale": {"scale": 0.2},
        "mask": {"attn_mask": torch.ones(5, 7, dtype=torch.bool).tril(1)},
        "bias": {"attn_mask": torch.randn(2, 5, 7).to(torch.float64 if dtype == torch.float64 else torch.float32)},
    }[case]
    out = scaled_dot_product_attention(q, k, v, **options)
    assert out.dtype == dtype
    expected = made_of_matrices(*(x.double() for x in (q, k, v)), **options)
    torch.testing.assert_close(out.double(), expected, atol=tolerance, rtol=0)


@pytest.mark.parametrize("case", ["plain", "causal", "bias"])
def test_gradcheck(case):
    q, k, v = tensors(torch.float64, grad=True, q_len=3, kv_len=4, dim=4)
    if case == "bias":
        bias = torch.randn(2, 3, 4, dtype=torch.float64, requires_grad=True)
        assert torch.autograd.gradcheck(lambda *x: scaled_dot_product_attention(*x), (q, k, v, bias))
    else:
        causal = case == "causal"
        assert torch.autograd.gradcheck(lambda *x: scaled_dot_product_attention(*x, is_causal=causal), (q, k, v))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_gradients_of_16_bits(dtype):
    q, k, v = tensors(dtype, grad=True)
    scaled_dot_product_attention(q, k, v, is_causal=True).float().sum().backward()
    wide = [x.detach().float().requires_grad_() for x in (q, k, v)]
    scaled_dot_product_attention(*wide, is_causal=True).sum().backward()
    for x, y in zip((q, k, v), wide):
        assert x.grad.dtype == dtype
        torch.testing.assert_close(x.grad.float(), y.grad, atol=3e-2, rtol=3e-2)


def test_strided_tensors_and_threads_give_the_same_bits():
    q, k, v = tensors(torch.float32)
    expected = scaled_dot_product_attention(q, k, v)
    strided = [x.transpose(1, 2).contiguous().transpose(1, 2) for x in (q, k, v)]
    assert torch.equal(scaled_dot_product_attention(*strided, threads=3), expected)
    assert torch.equal(scaled_dot_product_attention(q[0], k[0], v[0]), expected[0])
    assert torch.equal(
        scaled_dot_product_attention(q, k[:, :1], v[:, :1], enable_gqa=True),
        scaled_dot_product_attention(q, k[:, :1].expand_as(k), v[:, :1].expand_as(v)),
    )


def test_dlpack_of_bf16():
    x = torch.randn(4, 16).to(torch.bfloat16)
    assert np.array_equal(rapt.convert(x, "f32"), x.float().numpy())
    out = torch.empty_like(x)
    rapt.softmax(x, out=out)
    torch.testing.assert_close(out.float(), torch.softmax(x.float(), -1), atol=4e-3, rtol=0)


def test_refusals():
    q, k, v = tensors(torch.float32)
    for options in ({"dropout_p": 0.1}, {"attn_mask": torch.ones(5, 7, dtype=torch.bool), "is_causal": True}):
        with pytest.raises(ValueError):
            scaled_dot_product_attention(q, k, v, **options)
    with pytest.raises(ValueError, match="enable_gqa"):
        scaled_dot_product_attention(q, k[:, :1], v[:, :1])
