"""Models of transformers, with PyTorch's kernels and with rapt's in turns, in one process: PyTorch's time divided by rapt's.

    models.py [--threads N] [--type float32] [--filter REGEX] [--rounds 7]

Shapes are those of known models, and weights are random. It needs PyTorch 2.10, transformers, and the kernels that
`python -m rapt.torch --build` makes.
"""

from __future__ import annotations

import argparse
import contextlib
import platform
import re
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
import transformers as T

import rapt
import rapt.torch

Tensor = torch.Tensor
Run = Callable[[], Any]


def made(kind: str, config: Any, dtype: torch.dtype) -> Any:
    with torch.device("meta"):
        model = getattr(T, kind)(config)
    model = model.to(dtype).to_empty(device="cpu").eval()
    with torch.no_grad():
        for p in model.parameters():
            p.uniform_(-0.05, 0.05)
        for b in model.buffers():
            b.zero_()
    for module in model.modules():
        if hasattr(module, "inv_freq"):
            module.inv_freq.copy_(1e4 ** -torch.linspace(0, 1, len(module.inv_freq)))
        if hasattr(module, "position_ids"):
            module.position_ids.copy_(torch.arange(module.position_ids.shape[-1]))
    return model


def ids(batch: int, length: int, vocabulary: int) -> Tensor:
    return torch.arange(batch * length).reshape(batch, length) * 7919 % vocabulary


def encoder(batch: int, length: int, dtype: torch.dtype) -> Run:
    config = T.BertConfig(hidden_size=384, num_hidden_layers=6, num_attention_heads=12, intermediate_size=1536)
    model = made("BertModel", config, dtype)
    tokens = ids(batch, length, config.vocab_size)
    mask = torch.arange(length) < torch.linspace(length // 2, length, batch).round()[:, None]
    masked = {"attention_mask": mask.to(torch.int64)} if batch > 1 else {}
    return lambda: model(input_ids=tokens, **masked)


def decoder(length: int, cached: int, dtype: torch.dtype, **shape: int) -> Run:
    config = T.LlamaConfig(tie_word_embeddings=True, max_position_embeddings=2048, **shape)
    model = made("LlamaForCausalLM", config, dtype)
    tokens = ids(1, cached + length, config.vocab_size)
    if not cached:
        return lambda: model(tokens, use_cache=False)
    with torch.no_grad():
        keys = model(tokens[:, :cached], use_cache=True).past_key_values

    def token() -> None:
        model(tokens[:, cached:], past_key_values=keys, use_cache=True)
        keys.crop(-length)

    return token


SMALL = {"vocab_size": 49152, "hidden_size": 576, "num_hidden_layers": 30, "num_attention_heads": 9,
         "num_key_value_heads": 3, "intermediate_size": 1536}  # fmt: skip
# Two of its sixteen layers, and a part of its vocabulary: what matters is the shape.
BILLION = {"vocab_size": 16384, "hidden_size": 2048, "num_hidden_layers": 2, "num_attention_heads": 32,
           "num_key_value_heads": 8, "intermediate_size": 8192}  # fmt: skip


def images(dtype: torch.dtype) -> Run:
    model = made("ViTModel", T.ViTConfig(num_hidden_layers=4), dtype)
    x = torch.linspace(-1, 1, 3 * 224 * 224).reshape(1, 3, 224, 224).to(dtype)
    return lambda: model(x)


def speech(dtype: torch.dtype) -> Run:
    config = T.WhisperConfig(
        d_model=512,
        encoder_layers=6,
        encoder_attention_heads=8,
        encoder_ffn_dim=2048,
        decoder_layers=1,
        decoder_attention_heads=8,
    )
    model = made("WhisperModel", config, dtype).encoder
    x = torch.linspace(-1, 1, 80 * 3000).reshape(1, 80, 3000).to(dtype)
    return lambda: model(x)


CASES: dict[str, Callable[[torch.dtype], Run]] = {
    "MiniLM, 1 sentence of 9 tokens": lambda dtype: encoder(1, 9, dtype),
    "MiniLM, 32 sentences of up to 26 tokens": lambda dtype: encoder(32, 26, dtype),
    "SmolLM2-135M, prompt of 256": lambda dtype: decoder(256, 0, dtype, **SMALL),
    "SmolLM2-135M, token after 256": lambda dtype: decoder(1, 256, dtype, **SMALL),
    "Llama-3.2-1B, 2 layers, prompt of 256": lambda dtype: decoder(256, 0, dtype, **BILLION),
    "Llama-3.2-1B, 2 layers, token after 256": lambda dtype: decoder(1, 256, dtype, **BILLION),
    "ViT-base, 4 layers, 1 image": images,
    "Whisper-base, encoder, 30 s": speech,
}


def ways() -> Iterator[Any]:
    yield contextlib.nullcontext()
    yield rapt.torch.enabled(strict=True, cpp=True)


def seconds(run: Run, rounds: int) -> list[float]:
    """The best of each way. Runs that pack weights come before those that count."""
    best = [float("inf"), float("inf")]
    for _ in range(rounds):
        for i, way in enumerate(ways()):
            with way:
                for repeat in range(4):
                    start = time.perf_counter()
                    run()
                    if repeat > 1:
                        best[i] = min(best[i], time.perf_counter() - start)
    return best


def cpu() -> str:
    info = Path("/proc/cpuinfo")
    names = re.findall(r"^model name\s*: (.*)", info.read_text(), re.M) if info.exists() else []
    return names[0] if names else platform.processor()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--type", default="float32", choices=["float32", "bfloat16"])
    parser.add_argument("--filter", default="", help="names of models")
    parser.add_argument("--rounds", type=int, default=7)
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    T.logging.set_verbosity_error()
    warnings.simplefilter("ignore", FutureWarning)
    print(f"{cpu()}, {given.threads} threads, {given.type}; PyTorch {torch.__version__}, transformers {T.__version__}, "
          f"rapt {rapt.version()} with {rapt.isa()}")  # fmt: skip
    print(f"{'':42}{'PyTorch':>10}{'rapt':>10}{'ratio':>8}")
    for name, case in CASES.items():
        if re.search(given.filter, name):
            run = case(getattr(torch, given.type))
            with torch.inference_mode():
                stock, ours = seconds(run, given.rounds)
            print(f"{name:42}{stock * 1e3:7.1f} ms{ours * 1e3:7.1f} ms{stock / ours:8.2f}", flush=True)


if __name__ == "__main__":
    main()
