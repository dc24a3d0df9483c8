#!/usr/bin/env python3
"""Write seeded checkpoints for tests, which need no training and which any language can reproduce bit for bit.

Every tensor has a stream of its own: SplitMix64 with the initial state (seed XOR FNV-1a-64 of the tensor's Hugging
Face name in UTF-8). Its outputs z fill the tensor row by row, in the Hugging Face shape [out, in]:

- norm weight:  (2 * (z >> 59) + 97) / 128, an odd multiple of 1/128 from 97/128 to 159/128, and so never 1;
- all others:   (2 * (z >> 57) - 127) / 2^e, an odd integer from -127 to 127 times a power of two, where
  e = 8 for a bias, 6 for an embedding that is not tied, b - 1 for lm_head and for a tied embedding, and b for a
  projection, with b = 6 + floor(bits / 2), where bits is the number of binary digits of the row length.

Such values are exact in float32, float16 and bfloat16, so --dtype does not change the numbers. A projection multiplies
a vector of order 1 by a gain of order 1, and logits get a standard deviation near 2.
A .bin holds the same model: rows of wq and wk are permuted from halves to adjacent pairs. Its two tables of RoPE, which
readers skip, hold the cosines and sines of all angles.
"""
from __future__ import annotations

import argparse
import json
import math
import sys
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from reference import BIN_LAYER_ORDER, EMBEDDING, FINAL_NORM, HEAD, Config, Refused, parse_config, tensor_shapes

CHOICES = {
    "architecture": ("llama", "mistral", "qwen2", "qwen3"),
    "dtype": ("f32", "f16", "bf16"),
    "rope_scaling": ("none", "linear", "llama3", "yarn"),
    "format": ("safetensors", "bin"),
}
# The original context is short, so that few tokens and a small head_dim reach all branches of each scaling.
ORIGINAL_POSITIONS, MAX_POSITIONS = 256, 1024
SCALINGS: dict[str, dict[str, Any] | None] = {
    "none": None,
    "linear": {"rope_type": "linear", "factor": 4.0},
    "llama3": {
        "rope_type": "llama3",
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": ORIGINAL_POSITIONS,
    },
    "yarn": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": ORIGINAL_POSITIONS},
}


@dataclass(frozen=True)
class Options:
    """The options of the command line, with the same names and defaults."""

    architecture: str = "llama"
    hidden: int = 64
    layers: int = 2
    heads: int = 4
    kv_heads: int = 2
    head_dim: int = 0  # 0 leaves the key out, except that Qwen3 gets hidden / heads instead of its default of 128.
    intermediate: int = 160
    vocab: int = 256
    dtype: str = "f32"
    tied: bool = False
    attention_bias: bool = False
    mlp_bias: bool = False
    rope_scaling: str = "none"
    window: int = 0  # 0: none
    full_layers: int = 0  # The first layers of a Qwen that have no window.
    format: str = "safetensors"
    shards: int = 1
    seed: int = 1


def splitmix64(state: int, count: int) -> np.ndarray:
    """The first outputs of SplitMix64 (Steele, Lea and Flood, 2014), whose n-th state is a plain multiple."""
    z = np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(state)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def fnv1a64(text: str) -> int:
    """FNV-1a, which gives each tensor a stream that does not depend on the other tensors or on their order."""
    value = 0xCBF29CE484222325
    for byte in text.encode("utf-8"):
        value = (value ^ byte) * 0x100000001B3 % 2**64
    return value


def draw(name: str, shape: tuple[int, ...], seed: int, tied: bool) -> np.ndarray:
    """One tensor as float32, by the rules at the top of this file."""
    z = splitmix64(seed ^ fnv1a64(name), math.prod(shape)).reshape(shape)
    if "norm" in name:
        return (2 * (z >> np.uint64(59)).astype(np.float32) + 97) / 128
    exponent = 6 + shape[-1].bit_length() // 2
    if name.endswith(".bias"):
        exponent = 8
    elif name == EMBEDDING and not tied:
        exponent = 6
    elif name in (EMBEDDING, HEAD):
        exponent -= 1
    return (2 * (z >> np.uint64(57)).astype(np.float32) - 127) * np.float32(2.0**-exponent)


def config_table(options: Options) -> dict[str, Any]:
    """The config.json for these options."""
    o = options
    scaling = SCALINGS[o.rope_scaling]
    table: dict[str, Any] = {
        "model_type": o.architecture,
        "architectures": [o.architecture.capitalize() + "ForCausalLM"],
        "hidden_size": o.hidden,
        "num_hidden_layers": o.layers,
        "num_attention_heads": o.heads,
        "num_key_value_heads": o.kv_heads,
        "intermediate_size": o.intermediate,
        "vocab_size": o.vocab,
        "hidden_act": "silu",
        "max_position_embeddings": MAX_POSITIONS,
        "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0,
        "rope_scaling": scaling,
        "tie_word_embeddings": o.tied,
        "torch_dtype": {"f32": "float32", "f16": "float16", "bf16": "bfloat16"}[o.dtype],
    }
    if o.head_dim or o.architecture == "qwen3":
        table["head_dim"] = o.head_dim or o.hidden // o.heads
    if o.architecture == "mistral":
        table["sliding_window"] = o.window or None
    elif o.window:
        table |= {"use_sliding_window": True, "sliding_window": o.window, "max_window_layers": o.full_layers}
    if o.attention_bias:
        table["attention_bias"] = True
    if o.mlp_bias:
        table["mlp_bias"] = True
    return table


def encode(tensor: np.ndarray, dtype: str) -> bytes:
    """The bytes of a tensor; the conversions are exact by the choice of the numbers."""
    if dtype == "bf16":
        return (np.ascontiguousarray(tensor, "<f4").view("<u4") >> 16).astype("<u2").tobytes()
    return tensor.astype({"f32": "<f4", "f16": "<f2"}[dtype]).tobytes()


def safetensors_bytes(tensors: dict[str, np.ndarray], dtype: str) -> bytes:
    """A safetensors file; its header is padded with spaces so that the data is aligned to 8 bytes."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    parts, at = [], 0
    for name, tensor in tensors.items():
        parts.append(encode(tensor, dtype))
        offsets = [at, at + len(parts[-1])]
        header[name] = {"dtype": dtype.upper(), "shape": list(tensor.shape), "data_offsets": offsets}
        at = offsets[1]
    text = json.dumps(header, separators=(",", ":")).encode("utf-8")
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + b"".join(parts)


def to_pairs(weight: np.ndarray, head_dim: int) -> np.ndarray:
    """Reorder the rows of each head so that the rows i and i + head_dim / 2 become 2i and 2i + 1."""
    rows, columns = weight.shape
    return weight.reshape(-1, 2, head_dim // 2, columns).swapaxes(1, 2).reshape(rows, columns)


def bin_bytes(config: Config, tensors: dict[str, np.ndarray]) -> bytes:
    """A llama2.c file of the legacy format; a negative vocabulary announces a classifier of its own."""
    c = config
    vocab = c.vocab if c.tied else -c.vocab
    header = (c.hidden, c.intermediate, c.layers, c.heads, c.kv_heads, vocab, MAX_POSITIONS)
    parts = [np.array(header, dtype="<i4").tobytes(), encode(tensors[EMBEDDING], "f32")]
    for block in BIN_LAYER_ORDER:
        for layer in range(c.layers):
            tensor = tensors[f"model.layers.{layer}.{block}.weight"]
            if block.endswith(("q_proj", "k_proj")):
                tensor = to_pairs(tensor, c.head_dim)
            parts.append(encode(tensor, "f32"))
    parts.append(encode(tensors[FINAL_NORM], "f32"))
    angles = np.arange(MAX_POSITIONS)[:, None] * config.rope.frequencies(c.head_dim)
    parts += [encode(np.cos(angles), "f32"), encode(np.sin(angles), "f32")]
    if not c.tied:
        parts.append(encode(tensors[HEAD], "f32"))
    return b"".join(parts)


def write_model(out: str | Path, options: Options) -> None:
    """Write the checkpoint: a folder for safetensors, a file for .bin. Nothing that exists is overwritten."""
    out, table = Path(out), config_table(options)
    config = parse_config(table)
    if out.exists():
        raise Refused(f"{out} exists already; leftovers of another model could be read with the new one.")
    if not 0 <= options.seed < 2**64:
        raise Refused("--seed must fit into 64 bits.")
    tensors = {name: draw(name, shape, options.seed, config.tied) for name, shape in tensor_shapes(config)}
    if not 1 <= options.shards <= len(tensors):
        raise Refused(f"--shards must be from 1 to the number of tensors, {len(tensors)}.")
    if options.format == "bin":
        o = options
        plain = o.architecture == "llama" and o.dtype == "f32" and o.rope_scaling == "none" and o.shards == 1
        if not plain or config.biased or config.head_dim * config.heads != config.hidden:
            raise Refused("A .bin holds only a llama in f32, in one file, without scaling, biases or a --head-dim.")
        out.write_bytes(bin_bytes(config, tensors))
        return
    out.mkdir(parents=True)
    (out / "config.json").write_text(json.dumps(table, indent=2) + "\n")
    if options.shards == 1:
        (out / "model.safetensors").write_bytes(safetensors_bytes(tensors, options.dtype))
        return
    names, weight_map = list(tensors), {}
    for shard in range(options.shards):
        file = f"model-{shard + 1:05}-of-{options.shards:05}.safetensors"
        begin, end = (len(names) * n // options.shards for n in (shard, shard + 1))
        part = {name: tensors[name] for name in names[begin:end]}
        (out / file).write_bytes(safetensors_bytes(part, options.dtype))
        weight_map |= dict.fromkeys(part, file)
    size = sum(tensor.size for tensor in tensors.values()) * (4 if options.dtype == "f32" else 2)
    index = {"metadata": {"total_size": size}, "weight_map": weight_map}
    (out / "model.safetensors.index.json").write_text(json.dumps(index, indent=2) + "\n")


def main() -> int:
    parser = argparse.ArgumentParser(description="Write a seeded checkpoint for tests.")
    parser.add_argument("out", type=Path, help="the folder to create or, with --format bin, the file")
    for field in fields(Options):
        flag = "--" + field.name.replace("_", "-")
        if isinstance(field.default, bool):
            parser.add_argument(flag, action="store_true")
        else:
            kind, choices = type(field.default), CHOICES.get(field.name)
            parser.add_argument(flag, type=kind, choices=choices, default=field.default, help="default %(default)s")
    arguments = vars(parser.parse_args())
    try:
        write_model(arguments.pop("out"), Options(**arguments))
    except (Refused, OSError) as error:
        print(f"make_model.py: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
