"""Small models of PyTorch alone, in a process of their own: prints the hashes of their results and gradients under rapt.torch.

    torch_models.py THREADS

What a process cannot change is given by its environment: ATEN_CPU_CAPABILITY and RAPT_ISA.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable

import torch
from torch import nn
from torch.nn import functional as F

import rapt.torch

Tensor = torch.Tensor


def numbers(*shape: int) -> Tensor:
    """Without torch.randn, whose bits depend on the CPU."""
    return torch.from_numpy(rapt.random_normal(shape, seed=len(shape) + sum(shape)))


class Decoder(nn.Module):
    """Two layers with attention, gated projections and norms by the mean square."""

    def __init__(self, dim: int = 64, heads: int = 4) -> None:
        super().__init__()
        self.heads = heads
        self.parts = nn.ModuleList(
            nn.ModuleDict(
                {
                    "qkv": nn.Linear(dim, 3 * dim, bias=False), "out": nn.Linear(dim, dim, bias=False),
                    "gate": nn.Linear(dim, 2 * dim), "up": nn.Linear(dim, 2 * dim), "down": nn.Linear(2 * dim, dim),
                }
            )
            for _ in range(2)
        )  # fmt: skip

    @staticmethod
    def norm(x: Tensor) -> Tensor:
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)

    def forward(self, x: Tensor) -> Tensor:
        for part in self.parts:
            q, k, v = (
                t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in part["qkv"](self.norm(x)).chunk(3, -1)
            )
            attended = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + part["out"](attended.transpose(1, 2).flatten(2))
            h = self.norm(x)
            x = x + part["down"](F.silu(part["gate"](h)) * part["up"](h))
        return x


class Encoder(nn.Module):
    """BERT's layer: padding by a mask, layer norms, GELU, and a pooled and normalized result."""

    def __init__(self, dim: int = 48, heads: int = 3) -> None:
        super().__init__()
        self.heads = heads
        self.qkv, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.first, self.second = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.wide, self.narrow = nn.Linear(dim, 4 * dim), nn.Linear(4 * dim, dim)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        seen = None if mask is None else mask[:, None, None, :]
        attended = F.scaled_dot_product_attention(q, k, v, attn_mask=seen)
        x = self.first(x + self.out(attended.transpose(1, 2).flatten(2)))
        x = self.second(x + self.narrow(F.gelu(self.wide(x))))
        kept = torch.ones(x.shape[:2]) if mask is None else mask.to(x.dtype)
        pooled = (x * kept[..., None]).sum(1) / kept.sum(1, keepdim=True)
        return F.normalize(torch.tanh(pooled))


class Images(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem, self.deep = nn.Conv2d(3, 16, 3, 2, 1), nn.Conv2d(16, 16, 3, padding=1, groups=16)
        self.head = nn.Linear(16, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = F.softplus(self.deep(torch.sigmoid(self.stem(x))))
        return F.log_softmax(self.head(x.mean((2, 3))), -1)


def prepared(model: nn.Module) -> nn.Module:
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(numbers(*parameter.shape) * 0.1)
    return model


def hashes() -> dict[str, int]:
    made: dict[str, int] = {}
    inputs: dict[str, tuple[Callable[[], nn.Module], Tensor]] = {
        "decoder": (Decoder, numbers(3, 70, 64)),
        "encoder": (Encoder, numbers(3, 21, 48)),
        "images": (Images, numbers(3, 3, 19, 17)),
    }
    for name, (kind, x) in inputs.items():
        for dtype in (torch.float32, torch.bfloat16):
            model = prepared(kind()).to(dtype)
            given = x.to(dtype)
            with torch.no_grad():
                y = model(given)
                alone = torch.cat([model(row) for row in given.split(1)])
            short = str(dtype).rsplit(".", 1)[1]
            made[f"{name} {short}"] = rapt.hash(y)
            assert rapt.hash(alone) == rapt.hash(y), f"{name} {short}: a row has other bits alone"
            if dtype == torch.float32:
                (model(given).float().pow(2).sum()).backward()
                made[f"gradients of {name}"] = rapt.hash(
                    torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])
                )
    # A sequence has the same bits alone, padded on the right and padded on the left.
    model, x = prepared(Encoder()), numbers(1, 20, 48)
    padded = torch.cat([x, torch.full((1, 5, 48), 3.0)], 1)
    mask = torch.tensor([[True] * 20 + [False] * 5])
    with torch.no_grad():
        assert rapt.hash(model(padded, mask)) == rapt.hash(model(x)), "padding changes bits"
        assert rapt.hash(model(padded.roll(5, 1), mask.roll(5, 1))) == rapt.hash(model(x)), "left padding changes bits"
    return made


if __name__ == "__main__":
    torch.set_num_threads(int(sys.argv[1]))
    with rapt.torch.enabled(strict=True):
        print(json.dumps(hashes()))
