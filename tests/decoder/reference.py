#!/usr/bin/env python3
"""A float64 reference for Llama 2 and 3, Mistral, Qwen2 and Qwen3 checkpoints and for llama2.c's legacy .bin.

It is written for clarity, so that the logits of a fast decoder can be compared with something that is easy to check.
It follows the definitions in Hugging Face transformers and llama2.c. Whatever a checkpoint asks for that is not
implemented here is refused with a sentence that names the key, because a guess would give wrong logits silently.
"""
from __future__ import annotations

import argparse
import json
import math
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Iterator

import numpy as np

# BF16 has no NumPy type, so its bits are kept as 16-bit integers; no other weights are integers.
DTYPES = {"F32": np.dtype("<f4"), "F16": np.dtype("<f2"), "BF16": np.dtype("<u2")}
CACHES = ("f32", "bf16", "i8")
ROPE_KEYS = {
    "default": set(),
    "linear": {"factor"},
    "llama3": {"factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"},
    "yarn": {"factor", "attention_factor", "beta_fast", "beta_slow", "original_max_position_embeddings", "truncate"},
}
# The order in which llama2.c's legacy format stores the blocks of all layers, by their Hugging Face names.
BIN_LAYER_ORDER = (
    "input_layernorm",
    "self_attn.q_proj",
    "self_attn.k_proj",
    "self_attn.v_proj",
    "self_attn.o_proj",
    "post_attention_layernorm",
    "mlp.gate_proj",
    "mlp.down_proj",
    "mlp.up_proj",
)
EMBEDDING, FINAL_NORM, HEAD = "model.embed_tokens.weight", "model.norm.weight", "lm_head.weight"


class Refused(ValueError):
    """The input is broken or asks for something that is not implemented; the message says what."""


@dataclass(frozen=True)
class Rope:
    """The rotary embedding, with the parameters of whichever scaling is in use."""

    theta: float = 1e4
    kind: str = "default"
    factor: float = 1.0
    low_freq_factor: float = 1.0
    high_freq_factor: float = 4.0
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    original: int = 0
    truncate: bool = True
    attention_factor: float = 1.0

    def frequencies(self, dim: int) -> np.ndarray:
        """The angle per position of each of the dim / 2 rotated planes."""
        index = np.arange(dim // 2, dtype=np.float64)
        plain = self.theta ** (-2.0 * index / dim)
        if self.kind == "default":
            return plain
        scaled = plain / self.factor
        if self.kind == "linear":
            return scaled
        if self.kind == "llama3":
            # Turns within the original context decide: few turns are slowed down, many are kept, between is blended.
            turns = self.original * plain / (2 * math.pi)
            blend = (turns - self.low_freq_factor) / (self.high_freq_factor - self.low_freq_factor)
            blend = np.clip(blend, 0.0, 1.0)
            return (1 - blend) * scaled + blend * plain
        low, high = self.yarn_dimension(self.beta_fast, dim), self.yarn_dimension(self.beta_slow, dim)
        if self.truncate:
            low, high = float(math.floor(low)), float(math.ceil(high))
        low, high = max(low, 0.0), min(high, dim - 1.0)
        if low == high:
            high += 0.001
        ramp = np.clip((index - low) / (high - low), 0.0, 1.0)
        return scaled * ramp + plain * (1 - ramp)

    def yarn_dimension(self, rotations: float, dim: int) -> float:
        """The (fractional) plane that turns this many times within the original context."""
        return dim * math.log(self.original / (rotations * 2 * math.pi)) / (2 * math.log(self.theta))


@dataclass(frozen=True)
class Config:
    """What the forward pass needs to know; every key of the checkpoint has been checked."""

    hidden: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    intermediate: int
    vocab: int
    eps: float
    tied: bool
    rope: Rope
    biased: frozenset[str] = frozenset()  # The projections that have a bias.
    qk_norm: bool = False
    pairs: bool = False  # Rotate 2i with 2i + 1, as llama2.c does, instead of i with i + head_dim / 2.
    windows: tuple[int, ...] = ()  # How many keys a query of each layer sees, its own included; 0: all.

    def __post_init__(self) -> None:
        if self.heads % self.kv_heads:
            raise Refused(f"num_key_value_heads ({self.kv_heads}) does not divide num_attention_heads ({self.heads}).")
        if self.head_dim % 2:
            raise Refused(f"head_dim ({self.head_dim}) is odd, but RoPE rotates pairs.")


def parse_json(data: bytes, what: str) -> dict[str, Any]:
    """Parse a JSON object strictly: a repeated key or a NaN would leave open what the file means."""

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        table = dict(pairs)
        if len(table) != len(pairs):
            raise Refused(f"{what} has an object with a repeated key.")
        return table

    def no_constant(text: str) -> None:
        raise Refused(f"{what} contains {text}, which is not JSON.")

    try:
        value = json.loads(data.decode("utf-8"), object_pairs_hook=unique, parse_constant=no_constant)
    except Refused:
        raise
    except (ValueError, RecursionError) as error:
        raise Refused(f"{what} is not valid JSON: {error}.") from error
    if not isinstance(value, dict):
        raise Refused(f"{what} is not a JSON object.")
    return value


def integer(table: dict[str, Any], key: str, default: int | None = None) -> int:
    """A positive integer; null counts as absent, as it does in transformers."""
    value = default if table.get(key) is None else table[key]
    if type(value) is not int or not 0 < value < 2**31:
        raise Refused(f"{key} must be a positive 32-bit integer, not {value!r}.")
    return value


def number(table: dict[str, Any], key: str, default: float | None = None) -> float:
    """A positive finite number; null counts as absent."""
    value = default if table.get(key) is None else table[key]
    if type(value) not in (int, float) or not 0 < value < 1e30:
        raise Refused(f"{key} must be a positive number, not {value!r}.")
    return float(value)


def flag(table: dict[str, Any], key: str, default: bool = False) -> bool:
    """A Boolean; null counts as absent."""
    value = default if table.get(key) is None else table[key]
    if type(value) is not bool:
        raise Refused(f"{key} must be true or false, not {value!r}.")
    return value


def parse_rope(table: dict[str, Any]) -> Rope:
    """Read the RoPE of a config.json, in the form of transformers 5 or of the versions before it."""
    if table.get("rope_parameters") is not None and table.get("rope_scaling") is not None:
        raise Refused("rope_parameters and rope_scaling are both given, and which one counts is not defined.")
    source = "rope_scaling" if table.get("rope_parameters") is None else "rope_parameters"
    scaling = {} if table.get(source) is None else table[source]
    if not isinstance(scaling, dict):
        raise Refused(f"{source} must be an object, not {scaling!r}.")
    for keys in (table, scaling):
        if keys.get("partial_rotary_factor") not in (None, 1):
            raise Refused(f"partial_rotary_factor {keys['partial_rotary_factor']!r} is not supported.")

    theta = number(scaling, "rope_theta", number(table, "rope_theta", 1e4))
    if theta <= 1:
        raise Refused(f"rope_theta must be above 1, not {theta!r}.")
    common = {"rope_type", "type", "rope_theta", "partial_rotary_factor"}
    kind = scaling.get("rope_type", scaling.get("type"))
    if kind is None and not set(scaling) - common:
        kind = "default"
    if not isinstance(kind, str) or kind not in ROPE_KEYS:
        raise Refused(f"rope_type {kind!r} in {source} is not supported.")
    for key in scaling:
        if key not in ROPE_KEYS[kind] | common and scaling[key] is not None:
            raise Refused(f"{key} in {source} is not known for rope_type {kind!r}.")
    if kind == "default":
        return Rope(theta)

    factor = number(scaling, "factor")
    if kind == "linear":
        return Rope(theta, kind, factor)
    old_key = "original_max_position_embeddings"
    if table.get(old_key) not in (None, scaling.get(old_key)):
        raise Refused(f"{old_key} outside of {source} is not supported, as versions of transformers differ about it.")
    known = scaling.get(old_key) is not None
    original = integer(scaling, old_key) if known else integer(table, "max_position_embeddings")
    if kind == "llama3":
        low, high = number(scaling, "low_freq_factor"), number(scaling, "high_freq_factor")
        if low >= high:
            raise Refused(f"high_freq_factor ({high}) must be above low_freq_factor ({low}).")
        return Rope(theta, kind, factor, low_freq_factor=low, high_freq_factor=high, original=original)
    # transformers never lets the default fall below 1: a context that shrinks needs no sharper attention.
    default = 0.1 * math.log(factor) + 1.0 if factor > 1 else 1.0
    return Rope(
        theta,
        kind,
        factor,
        beta_fast=number(scaling, "beta_fast", 32.0),
        beta_slow=number(scaling, "beta_slow", 1.0),
        original=original,
        truncate=flag(scaling, "truncate", True),
        attention_factor=number(scaling, "attention_factor", default),
    )


def parse_windows(table: dict[str, Any], model_type: str, layers: int) -> tuple[int, ...]:
    """The window of each layer, by the rules of transformers' configurations. 4096 and 28 are their defaults."""
    qwen_slides = flag(table, "use_sliding_window") and table.get("sliding_window", 4096) is not None
    window, first = 0, 0
    if model_type == "mistral":
        window = 0 if table.get("sliding_window", 4096) is None else integer(table, "sliding_window", 4096)
    elif qwen_slides and model_type == "llama":
        raise Refused("use_sliding_window is true, but a llama has no windows, so sliding_window is not supported.")
    elif qwen_slides:
        window, first = integer(table, "sliding_window", 4096), table.get("max_window_layers", 28)
        if type(first) is not int or first < 0:
            raise Refused(f"max_window_layers must be a number of layers, not {first!r}.")
    windows = tuple(window if layer >= first else 0 for layer in range(layers))
    kinds = table.get("layer_types")
    if kinds is None:
        return windows
    if not isinstance(kinds, list) or len(kinds) != layers:
        raise Refused(f"layer_types must be a list of {layers} layers.")
    if any(kind not in ("full_attention", "sliding_attention") for kind in kinds):
        raise Refused("layer_types asks for something else than full and sliding attention, which is not supported.")
    if window == 0 and "sliding_attention" in kinds:
        raise Refused("layer_types asks for windows, but sliding_window is not in use.")
    if model_type == "mistral" and window and "full_attention" in kinds:
        raise Refused("layer_types contradicts sliding_window, which all layers of a mistral follow.")
    return tuple(window if kind == "sliding_attention" else 0 for kind in kinds)


def parse_config(table: dict[str, Any]) -> Config:
    """Check a config.json and reduce it to what the forward pass needs."""
    model_type = table.get("model_type")
    if model_type not in ("llama", "mistral", "qwen2", "qwen3"):
        raise Refused(f"model_type {model_type!r} is not supported.")
    if table.get("hidden_act", "silu") != "silu":
        raise Refused(f"hidden_act {table['hidden_act']!r} is not supported.")
    if table.get("quantization_config") is not None:
        raise Refused("quantization_config is given, but quantised checkpoints are not supported.")

    hidden, heads = integer(table, "hidden_size"), integer(table, "num_attention_heads")
    kv_default = {"llama": heads, "mistral": 8}.get(model_type, 32)
    if "num_key_value_heads" in table:  # null
        kv_default = heads
    head_dim = 128 if model_type == "qwen3" and "head_dim" not in table else table.get("head_dim")
    if head_dim is None and hidden % heads:
        raise Refused(f"head_dim is absent, and num_attention_heads ({heads}) does not divide hidden_size ({hidden}).")

    # Qwen2 has biases of q, k and v that no key announces, and transformers reads neither bias key there or in Mistral.
    biased: set[str] = {"q_proj", "k_proj", "v_proj"} if model_type == "qwen2" else set()
    if model_type in ("llama", "qwen3") and flag(table, "attention_bias"):
        biased |= {"q_proj", "k_proj", "v_proj", "o_proj"}
    if model_type == "llama" and flag(table, "mlp_bias"):
        biased |= {"gate_proj", "up_proj", "down_proj"}
    return Config(
        hidden=hidden,
        layers=integer(table, "num_hidden_layers"),
        heads=heads,
        kv_heads=integer(table, "num_key_value_heads", kv_default),
        head_dim=integer({"head_dim": head_dim}, "head_dim", hidden // heads),
        intermediate=integer(table, "intermediate_size"),
        vocab=integer(table, "vocab_size"),
        eps=number(table, "rms_norm_eps", 1e-6),
        tied=flag(table, "tie_word_embeddings"),
        rope=parse_rope(table),
        biased=frozenset(biased),
        qk_norm=model_type == "qwen3",
        windows=parse_windows(table, model_type, integer(table, "num_hidden_layers")),
    )


def tensor_shapes(config: Config) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Every tensor the model uses, by its Hugging Face name, with its shape."""
    c = config
    q_rows, kv_rows = c.heads * c.head_dim, c.kv_heads * c.head_dim
    yield EMBEDDING, (c.vocab, c.hidden)
    for layer in range(c.layers):
        prefix = f"model.layers.{layer}."
        yield prefix + "input_layernorm.weight", (c.hidden,)
        for block, name, rows, columns in (
            ("self_attn", "q_proj", q_rows, c.hidden),
            ("self_attn", "k_proj", kv_rows, c.hidden),
            ("self_attn", "v_proj", kv_rows, c.hidden),
            ("self_attn", "o_proj", c.hidden, q_rows),
            ("mlp", "gate_proj", c.intermediate, c.hidden),
            ("mlp", "up_proj", c.intermediate, c.hidden),
            ("mlp", "down_proj", c.hidden, c.intermediate),
        ):
            yield f"{prefix}{block}.{name}.weight", (rows, columns)
            if name in c.biased:
                yield f"{prefix}{block}.{name}.bias", (rows,)
        if c.qk_norm:
            yield prefix + "self_attn.q_norm.weight", (c.head_dim,)
            yield prefix + "self_attn.k_norm.weight", (c.head_dim,)
        yield prefix + "post_attention_layernorm.weight", (c.hidden,)
    yield FINAL_NORM, (c.hidden,)
    if not c.tied:
        yield HEAD, (c.vocab, c.hidden)


def read_bytes(path: Path, least: int) -> np.ndarray:
    """Map a file, so that a large checkpoint need not fit into memory twice."""
    if path.stat().st_size < least:
        raise Refused(f"{path.name} is shorter than the {least} bytes of its fixed header.")
    return np.memmap(path, dtype=np.uint8, mode="r")


def read_safetensors(path: Path) -> dict[str, np.ndarray]:
    """The tensors of one file; offsets must cover the data exactly, as the format demands."""
    data = read_bytes(path, 8)
    length = int.from_bytes(data[:8].tobytes(), "little")
    if length > data.size - 8:
        raise Refused(f"{path.name} says that its header has {length} bytes, which is beyond the end of the file.")
    header = parse_json(data[8 : 8 + length].tobytes(), f"the header of {path.name}")
    body = data[8 + length :]
    tensors, spans = {}, []
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        if not isinstance(entry, dict) or set(entry) != {"dtype", "shape", "data_offsets"}:
            raise Refused(f"{name} in {path.name} does not consist of dtype, shape and data_offsets.")
        dtype, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
        if not isinstance(dtype, str) or dtype not in DTYPES:
            raise Refused(f"{name} in {path.name} has the dtype {dtype!r}, which is not supported.")
        for key, numbers in (("shape", shape), ("data_offsets", offsets)):
            if not isinstance(numbers, list) or not all(type(n) is int and n >= 0 for n in numbers):
                raise Refused(f"{name} in {path.name} has a {key} that is not a list of sizes.")
        if len(offsets) != 2 or not offsets[0] <= offsets[1] <= body.size:
            raise Refused(f"{name} in {path.name} has data_offsets {offsets} outside of the {body.size} bytes of data.")
        if offsets[1] - offsets[0] != math.prod(shape) * DTYPES[dtype].itemsize:
            raise Refused(f"{name} in {path.name} has data_offsets {offsets} that do not fit its shape {shape}.")
        if len(shape) > 2 or 0 in shape:
            raise Refused(f"{name} in {path.name} has the shape {shape}, which no tensor of these models has.")
        tensors[name] = body[offsets[0] : offsets[1]].view(DTYPES[dtype]).reshape(shape)
        spans.append((offsets[0], offsets[1], name))
    end = 0
    for begin, stop, name in sorted(spans):
        if begin != end:
            raise Refused(f"{name} in {path.name} has data_offsets that {'overlap' if begin < end else 'leave a gap'}.")
        end = stop
    if end != body.size:
        raise Refused(f"{path.name} has {body.size - end} bytes of data that belong to no tensor.")
    return tensors


def read_folder_tensors(folder: Path) -> dict[str, np.ndarray]:
    """The tensors of model.safetensors or, without it, of all files that model.safetensors.index.json names."""
    if (folder / "model.safetensors").exists():
        return read_safetensors(folder / "model.safetensors")
    index = parse_json((folder / "model.safetensors.index.json").read_bytes(), "model.safetensors.index.json")
    where = index.get("weight_map")
    if not isinstance(where, dict) or not all(isinstance(file, str) for file in where.values()):
        raise Refused("weight_map in model.safetensors.index.json does not map names to files.")
    tensors: dict[str, np.ndarray] = {}
    for file in sorted(set(where.values())):
        if Path(file).name != file or not file.endswith(".safetensors"):
            raise Refused(f"weight_map names {file!r}, which is not a safetensors file in the folder.")
        for name, tensor in read_safetensors(folder / file).items():
            if where.get(name) != file:
                raise Refused(f"{file} has {name}, but weight_map says {where.get(name)!r}.")
            tensors[name] = tensor
    for name in where:
        if name not in tensors:
            raise Refused(f"weight_map says that {where[name]} has {name}, but it has not.")
    return tensors


def load_folder(folder: Path) -> Model:
    """Read a Hugging Face checkpoint, and refuse missing, misshapen and unknown tensors."""
    config = parse_config(parse_json((folder / "config.json").read_bytes(), "config.json"))
    stored = read_folder_tensors(folder)
    weights = {}
    for name, shape in tensor_shapes(config):
        if name not in stored:
            raise Refused(f"The tensor {name} is missing.")
        if stored[name].shape != shape:
            raise Refused(f"The tensor {name} has the shape {list(stored[name].shape)} instead of {list(shape)}.")
        weights[name] = stored[name]
    for name, tensor in stored.items():
        if name in weights:
            continue
        # A file may repeat what the model has from elsewhere, but must not contradict it.
        if name == HEAD:
            same = tensor.shape == weights[EMBEDDING].shape and np.array_equal(widen(tensor), widen(weights[EMBEDDING]))
        elif name.endswith("rotary_emb.inv_freq"):
            error = 2.0**-16 if tensor.dtype == DTYPES["F32"] else 2.0**-7
            choices = [rope.frequencies(config.head_dim) for rope in (Rope(config.rope.theta), config.rope)]
            same = any(f.shape == tensor.shape and np.allclose(widen(tensor), f, error, 2.0**-24) for f in choices)
        else:
            raise Refused(f"The tensor {name} has no place in this architecture.")
        if not same:
            raise Refused(f"The tensor {name} contradicts config.json or the embedding.")
    return Model(config, weights)


def load_bin(path: Path) -> Model:
    """Read llama2.c's legacy format: seven 32-bit integers, then all weights as float32 in a fixed order."""
    data = read_bytes(path, 28)
    numbers = [int(n) for n in data[:28].view("<i4")]
    if numbers[0] == 0x616B3432:
        raise Refused(f"{path.name} has the magic ak42: only llama2.c's legacy format is supported.")
    keys = ("dim", "hidden_dim", "n_layers", "n_heads", "n_kv_heads", "vocab_size", "seq_len")
    header = dict(zip(keys, numbers))
    tied = header["vocab_size"] > 0
    header["vocab_size"] = abs(header["vocab_size"])
    dim, inner, layers, heads, kv_heads, vocab, positions = (integer(header, key) for key in keys)
    if dim % heads:
        raise Refused(f"n_heads ({heads}) does not divide dim ({dim}).")
    head_dim = dim // heads
    config = Config(dim, layers, heads, kv_heads, head_dim, inner, vocab, 1e-5, tied, Rope(), pairs=True)
    # Two tables of cosines and sines follow the last norm; llama2.c no longer reads them.
    tables = positions * head_dim
    per_layer = 2 * dim + 2 * dim * dim + 2 * dim * kv_heads * head_dim + 3 * dim * inner
    count = vocab * dim * (1 if tied else 2) + layers * per_layer + dim + tables
    if data.size != 28 + 4 * count:
        raise Refused(f"{path.name} has {data.size} bytes, but its header asks for {28 + 4 * count}.")

    values, at = data[28:].view("<f4"), 0
    shapes, weights = dict(tensor_shapes(config)), {}
    layer_names = [f"model.layers.{n}.{name}.weight" for name in BIN_LAYER_ORDER for n in range(layers)]
    for name in [EMBEDDING, *layer_names, FINAL_NORM] + ([] if tied else [HEAD]):
        at += tables if name == HEAD else 0
        size = math.prod(shapes[name])
        weights[name] = values[at : at + size].reshape(shapes[name])
        at += size
    return Model(config, weights)


def load(path: str | Path) -> Model:
    """Read a checkpoint: a folder is Hugging Face's, a file is llama2.c's."""
    return load_folder(Path(path)) if Path(path).is_dir() else load_bin(Path(path))


def widen(stored: np.ndarray) -> np.ndarray:
    """Stored weights as float64, which represents all of them exactly."""
    if stored.dtype == DTYPES["BF16"]:
        stored = (stored.astype("<u4") << 16).view("<f4")
    return stored.astype(np.float64)


def rms_norm(x: np.ndarray, weight: np.ndarray, eps: float) -> np.ndarray:
    """Scale the last axis to a root mean square of 1, then by the weight."""
    return x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + eps) * weight


def rotate(x: np.ndarray, angles: np.ndarray, pairs: bool) -> np.ndarray:
    """Turn each plane of x [tokens, heads, head_dim] by its angle [tokens, head_dim / 2]."""
    half = x.shape[-1] // 2
    first, second = (slice(0, None, 2), slice(1, None, 2)) if pairs else (slice(0, half), slice(half, None))
    cos, sin = np.cos(angles)[:, None, :], np.sin(angles)[:, None, :]
    out = np.empty_like(x)
    out[..., first] = x[..., first] * cos - x[..., second] * sin
    out[..., second] = x[..., second] * cos + x[..., first] * sin
    return out


def round_cache(x: np.ndarray, cache: str) -> np.ndarray:
    """Round K or V [tokens, heads, head_dim] as a cache of this type does when it is written and read again."""
    if cache == "f32":
        return x  # float64 is kept: a rounding to float32 is below what the comparison is about.
    if cache == "bf16":
        bits = x.astype("<f4").view("<u4")
        rounded = ((bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000).view("<f4")  # To nearest, ties to even.
        return np.where(np.isnan(x), x, rounded)
    if cache == "i8":
        scale = np.max(np.abs(x), axis=-1, keepdims=True) / 127
        return np.rint(x / np.where(scale == 0, 1, scale)) * scale
    raise Refused(f"cache must be one of {', '.join(CACHES)}, not {cache!r}.")


class Model:
    """A checked checkpoint. Weights stay as stored and are widened where they are used, to keep memory small."""

    def __init__(self, config: Config, weights: dict[str, np.ndarray]) -> None:
        self.config = config
        self.weights = weights
        self.frequencies = config.rope.frequencies(config.head_dim)

    def linear(self, x: np.ndarray, name: str) -> np.ndarray:
        """x times the transposed weight, plus the bias if the architecture has one."""
        y = x @ widen(self.weights[name + ".weight"]).T
        bias = self.weights.get(name + ".bias")
        return y if bias is None else y + widen(bias)

    def norm(self, x: np.ndarray, name: str) -> np.ndarray:
        return rms_norm(x, widen(self.weights[name + ".weight"]), self.config.eps)

    def attention(self, x: np.ndarray, layer: int, cache: str) -> np.ndarray:
        """Causal attention in which consecutive query heads share a key-value head."""
        c, tokens, prefix = self.config, len(x), f"model.layers.{layer}.self_attn."
        q = self.linear(x, prefix + "q_proj").reshape(tokens, c.heads, c.head_dim)
        k = self.linear(x, prefix + "k_proj").reshape(tokens, c.kv_heads, c.head_dim)
        v = self.linear(x, prefix + "v_proj").reshape(tokens, c.kv_heads, c.head_dim)
        if c.qk_norm:
            q, k = self.norm(q, prefix + "q_norm"), self.norm(k, prefix + "k_norm")
        angles = np.arange(tokens)[:, None] * self.frequencies
        # YaRN's factor multiplies cos and sin of q and of k, so it belongs into K before K is rounded.
        q = rotate(q, angles, c.pairs) * c.rope.attention_factor
        k = round_cache(rotate(k, angles, c.pairs) * c.rope.attention_factor, cache)
        v = round_cache(v, cache)
        q = q.reshape(tokens, c.kv_heads, c.heads // c.kv_heads, c.head_dim)
        scores = np.einsum("tkgd,skd->kgts", q, k) / math.sqrt(c.head_dim)
        window = c.windows[layer] if c.windows else 0
        visible = np.tri(tokens, dtype=bool)
        if window:
            visible &= np.arange(tokens)[None, :] > np.arange(tokens)[:, None] - window
        scores = np.where(visible, scores, -np.inf)
        weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
        weights /= weights.sum(axis=-1, keepdims=True)
        return self.linear(np.einsum("kgts,skd->tkgd", weights, v).reshape(tokens, -1), prefix + "o_proj")

    def mlp(self, x: np.ndarray, prefix: str) -> np.ndarray:
        gate = self.linear(x, prefix + "gate_proj")
        with np.errstate(over="ignore"):  # exp overflows far below zero, where the quotient is 0 as it should be.
            silu = gate / (1 + np.exp(-gate))
        return self.linear(silu * self.linear(x, prefix + "up_proj"), prefix + "down_proj")

    def logits(self, tokens: list[int], cache: str = "f32") -> np.ndarray:
        """The logits after each of the tokens, which stand at positions 0, 1, 2 and so on."""
        if not tokens:
            raise Refused("There are no tokens.")
        for token in tokens:
            if not 0 <= token < self.config.vocab:
                raise Refused(f"Token {token} is outside of the vocabulary of {self.config.vocab}.")
        x = widen(self.weights[EMBEDDING][np.asarray(tokens)])
        for layer in range(self.config.layers):
            prefix = f"model.layers.{layer}."
            x = x + self.attention(self.norm(x, prefix + "input_layernorm"), layer, cache)
            x = x + self.mlp(self.norm(x, prefix + "post_attention_layernorm"), prefix + "mlp.")
        head = EMBEDDING if self.config.tied else HEAD
        return self.norm(x, FINAL_NORM.removesuffix(".weight")) @ widen(self.weights[head]).T


def perplexity(logits: np.ndarray, tokens: list[int]) -> float:
    """exp of the mean negative log-likelihood of each token after the first, given the tokens before it."""
    if len(tokens) < 2 or len(logits) != len(tokens):
        raise Refused("Perplexity needs at least two tokens and one row of logits for each.")
    rows = np.asarray(logits[:-1], dtype=np.float64)
    top = rows.max(axis=-1)
    log_sum = top + np.log(np.exp(rows - top[:, None]).sum(axis=-1))
    return float(np.exp(np.mean(log_sum - rows[np.arange(len(rows)), tokens[1:]])))


def read_dump(path: Path, shape: tuple[int, int]) -> np.ndarray:
    """Read the raw little-endian float32 rows that a decoder's --dump-logits writes."""
    data = path.read_bytes()
    if len(data) != 4 * shape[0] * shape[1]:
        raise Refused(f"{path.name} has {len(data)} bytes, but {shape[0]} rows of {shape[1]} float32 were expected.")
    return np.frombuffer(data, dtype="<f4").reshape(shape).astype(np.float64)


def run(arguments: argparse.Namespace) -> None:
    """Compute the logits once, and write or compare them as asked."""
    try:
        tokens = [int(text) for text in arguments.tokens.split(",")]
    except ValueError as error:
        raise Refused(f"--tokens must be integers with commas between them, not {arguments.tokens!r}.") from error
    logits = load(arguments.checkpoint).logits(tokens, arguments.cache)
    print(f"{logits.shape[0]} tokens, vocabulary {logits.shape[1]}, largest |logit| {np.abs(logits).max():.6g}")
    if arguments.logits is not None:
        arguments.logits.write_bytes(logits.astype("<f4").tobytes())
    if len(tokens) > 1:
        print(f"perplexity of the reference: {perplexity(logits, tokens):.9g}")
    if arguments.compare is not None:
        other = read_dump(arguments.compare, logits.shape)
        difference = np.abs(other - logits).max(axis=-1)
        print(f"max |difference|: {difference.max():.6g}, in row {difference.argmax()}")
        print(f"max relative to the row's largest |logit|: {(difference / np.abs(logits).max(axis=-1)).max():.6g}")
        if len(tokens) > 1:
            print(f"perplexity of the file: {perplexity(other, tokens):.9g}")


def main() -> int:
    parser = argparse.ArgumentParser(description="Logits of a checkpoint in float64.")
    parser.add_argument("checkpoint", type=Path, help="a folder with config.json and safetensors, or a llama2.c .bin")
    parser.add_argument("--tokens", required=True, help="token ids with commas between them")
    parser.add_argument("--logits", type=Path, help="write the logits to this file as raw float32 rows")
    parser.add_argument("--compare", type=Path, help="compare with raw float32 rows in this file")
    parser.add_argument("--cache", choices=CACHES, default="f32", help="round K and V as a cache of this type does")
    try:
        run(parser.parse_args())
    except (Refused, OSError) as error:
        print(f"reference.py: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
