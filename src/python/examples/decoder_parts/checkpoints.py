"""Where weights come from: safetensors, llama2.c's .bin, or a seed.

A checkpoint has a `config`, and read(name, shape) for tensors of f32, f16 or bf16, by the names of Hugging Face. bf16 is
uint16, as rapt has it.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from .config import LARGEST_SIZE, Config, Refused, parse_config, parse_json

Array = npt.NDArray[Any]
DTYPES: dict[str, np.dtype[Any]] = {"F32": np.dtype("<f4"), "F16": np.dtype("<f2"), "BF16": np.dtype("<u2")}


class Checkpoint(Protocol):
    config: Config

    def read(self, name: str, shape: tuple[int, ...]) -> Array:
        ...


def read_file(path: Path, begin: int = 0, count: int = -1) -> Array:
    """Bytes of a file; -1: all. To open a pipe would wait for a program that writes to it."""
    if path.exists() and not path.is_file():
        raise Refused(f"{path} is not a regular file")
    try:
        with open(path, "rb") as file:
            data = np.fromfile(file, np.uint8, count, offset=begin)
    except OSError:
        raise Refused(f"{path} cannot be read") from None
    if count >= 0 and len(data) != count:
        raise Refused(f"{path.name} ends early")
    return data


def size_of_file(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        raise Refused(f"{path} cannot be read") from None


# ---- safetensors: 8 bytes for the length of a header, the header in JSON, and the tensors one after the other


@dataclass
class _Entry:
    file: Path
    dtype: str
    shape: tuple[int, ...]
    begin: int  # in the file
    end: int


def _whole_number(value: Any, what: str) -> int:
    if type(value) is not int or not 0 <= value < 1 << 64:
        raise Refused(f"{what} has a number that is no unsigned integer")
    return value


def _entry(value: Any, what: str, file: Path, body: int, body_size: int) -> _Entry:
    dtype, shape, offsets = (
        (value.get(key) for key in ("dtype", "shape", "data_offsets"))
        if isinstance(value, dict)
        else (None, None, None)
    )
    if (
        not (isinstance(dtype, str) and isinstance(shape, list) and isinstance(offsets, list))
        or len(value) != 3
        or len(offsets) != 2
    ):
        raise Refused(f"{what} does not consist of dtype, shape and data_offsets")
    begin, end = (_whole_number(offset, what) for offset in offsets)
    if not begin <= end <= body_size:
        raise Refused(f"{what} lies outside of the file")
    return _Entry(file, dtype, tuple(_whole_number(size, what) for size in shape), body + begin, body + end)


def _read_header(file: Path, entries: dict[str, _Entry]) -> None:
    """Adds the tensors of one file. The format demands that tensors cover the file, without gaps or overlaps."""
    size = size_of_file(file)
    if size < 8:
        raise Refused(f"{file.name} is shorter than the length of its header")
    length = int.from_bytes(read_file(file, 0, 8).tobytes(), "little")
    if length > size - 8:
        raise Refused(f"{file.name} ends within its header")
    header = parse_json(read_file(file, 8, length).tobytes(), f"the header of {file.name}")
    spans = []
    for name, value in header.items():
        if name == "__metadata__":
            continue
        entry = _entry(value, f"{name} in {file.name}", file, 8 + length, size - 8 - length)
        if name in entries:
            raise Refused(f"{name} is in two files")
        entries[name] = entry
        spans.append((entry.begin, entry.end))
    at = 8 + length
    for begin, end in sorted(spans):
        if begin != at:
            raise Refused(f"{file.name} has tensors that overlap, or a gap between them")
        at = end
    if at != size:
        raise Refused(f"{file.name} has bytes after its last tensor")


def _read_index(folder: Path, entries: dict[str, _Entry]) -> None:
    """The index of a model in several files says which file has which tensor."""
    name = "model.safetensors.index.json"
    where = parse_json(read_file(folder / name).tobytes(), name).get("weight_map")
    if not isinstance(where, dict):
        raise Refused(f"{name} has no weight_map")
    files = set()
    for tensor, file in sorted(where.items()):
        if not isinstance(file, str):
            raise Refused(f"{name}: {tensor} is in no file")
        if "/" in file or "\\" in file or "\0" in file:
            raise Refused(f"{name}: {file} is not in the folder")
        if file not in files:
            files.add(file)
            _read_header(folder / file, entries)
    for tensor, file in sorted(where.items()):
        if tensor not in entries or entries[tensor].file.name != file:
            raise Refused(f"{tensor} is not in the file that {name} names")
    if len(entries) != len(where):
        raise Refused(f"{name} does not have all tensors of its files")


def _known_names(config: Config, at_most: int) -> set[str]:
    """The names that a model's tensors may have, of the first layers of a model that says it has millions."""
    if config.is_gpt2:
        known = {"transformer.wte.weight", "transformer.wpe.weight", "lm_head.weight"}
        known |= {"transformer.ln_f.weight", "transformer.ln_f.bias"}
        parts = ("ln_1", "attn.c_attn", "attn.c_proj", "ln_2", "mlp.c_fc", "mlp.c_proj")
        in_layer = [f"{part}.{kind}" for part in parts for kind in ("weight", "bias")]
        in_layer += ["attn.bias", "attn.masked_bias"]  # the causal mask
        prefix = "transformer.h."
    else:
        known = {"model.embed_tokens.weight", "model.norm.weight", "lm_head.weight"}
        qkv, mlp = ("q_proj", "k_proj", "v_proj"), ("gate_proj", "up_proj", "down_proj")
        in_layer = ["input_layernorm.weight", "post_attention_layernorm.weight"]
        in_layer += [f"self_attn.{name}.weight" for name in (*qkv, "o_proj")] + [f"mlp.{name}.weight" for name in mlp]
        in_layer += [f"self_attn.{name}.bias" for name in qkv if config.qkv_bias]
        in_layer += ["self_attn.o_proj.bias"] if config.o_bias else []
        in_layer += [f"mlp.{name}.bias" for name in mlp if config.mlp_bias]
        in_layer += ["self_attn.q_norm.weight", "self_attn.k_norm.weight"] if config.qk_norm else []
        prefix = "model.layers."
    for layer in range(config.layers):
        if len(known) > at_most:
            break
        known |= {f"{prefix}{layer}.{name}" for name in in_layer}
    return known


class Safetensors:
    """A folder of Hugging Face: config.json, and model.safetensors or several files with an index."""

    def __init__(self, folder: Path, ignored_keys: list[str]) -> None:
        self.config = parse_config(read_file(folder / "config.json").tobytes(), ignored_keys)
        entries: dict[str, _Entry] = {}
        whole = folder / "model.safetensors"
        if whole.exists():
            _read_header(whole, entries)
        else:
            _read_index(folder, entries)
        self._entries = self._with_prefix(entries) if self.config.is_gpt2 else entries
        # A tensor that the model does not read may change what the model means, such as a bias that no key announces.
        known = _known_names(self.config, 2 * len(entries) + 32)
        for name in self._entries:
            table = "rotary_emb.inv_freq" in name and not self.config.is_gpt2  # follows from config.json
            if table and not self._is_inv_freq(name):
                raise Refused(f"{name} differs from the frequencies that rope_theta in config.json gives")
            if not table and name not in known:
                raise Refused(f"{name} is not a tensor of the model in config.json")
        if self.config.tied and "lm_head.weight" in self._entries:
            embedding = "transformer.wte.weight" if self.config.is_gpt2 else "model.embed_tokens.weight"
            head, shared = (self._widened(name, self.config.hidden) for name in ("lm_head.weight", embedding))
            if not np.array_equal(head.view(np.uint32), shared.view(np.uint32)):
                raise Refused(
                    f"lm_head.weight differs from {embedding}, but tie_word_embeddings says that they are one"
                )

    def _widened(self, name: str, cols: int) -> Array:
        """A tensor as f32."""
        if name not in self._entries:
            raise Refused(f"{name} is missing")
        stored = self.read(name, (*self._entries[name].shape[:-1], cols))
        return (stored.astype("<u4") << 16).view("<f4") if stored.dtype == np.uint16 else stored.astype("<f4")

    def _is_inv_freq(self, name: str) -> bool:
        """Whether a table has the frequencies of RoPE, as far as the types of weights hold them."""
        dim = self.config.head_dim
        expected = self.config.rope["base"] ** (-np.arange(0, dim, 2) / dim)
        return np.allclose(self._widened(name, dim // 2), expected, 2**-7, 2**-24)

    @staticmethod
    def _with_prefix(entries: dict[str, _Entry]) -> dict[str, _Entry]:
        """Files of GPT-2 have names with and without "transformer."."""
        named: dict[str, _Entry] = {}
        for name, entry in entries.items():
            full = name if name.startswith(("transformer.", "lm_head.")) else "transformer." + name
            if full in named:
                raise Refused(f"{full} is there with the prefix and without it")
            named[full] = entry
        return named

    def read(self, name: str, shape: tuple[int, ...]) -> Array:
        entry = self._entries.get(name)
        if entry is None:
            raise Refused(f"{name} is missing")
        if entry.shape != shape:
            raise Refused(f"{name} has another shape than config.json says")
        dtype = DTYPES.get(entry.dtype)
        if dtype is None:
            raise Refused(f"{name} has the dtype {entry.dtype}; F32, F16 and BF16 are supported")
        count = math.prod(shape) * dtype.itemsize
        if entry.end - entry.begin != count:
            raise Refused(f"{name} has another number of bytes than its shape says")
        return read_file(entry.file, entry.begin, count).view(dtype).reshape(shape)


# ---- llama2.c's .bin (the legacy format): seven sizes, and all weights in f32


class Llama2c:
    def __init__(self, path: Path) -> None:
        self._path, self._size = path, size_of_file(path)
        if self._size < 28:
            raise Refused(f"{path.name} is shorter than its header")
        sizes = list(struct.unpack("<7i", read_file(path, 0, 28).tobytes()))
        if sizes[0] == int.from_bytes(b"GGUF", "little"):
            raise Refused(f"{path.name} has the format of GGUF, which is not supported")
        if sizes[0] == 0x616B3432:
            raise Refused("the .bin has llama2.c's newer format (ak42), which is not supported")
        own_head = sizes[5] < 0
        sizes[5] = abs(sizes[5])
        names = ("dim", "hidden_dim", "n_layers", "n_heads", "n_kv_heads", "vocab_size", "seq_len")
        for name, size in zip(names, sizes):
            if not 1 <= size <= LARGEST_SIZE:
                raise Refused(f"the .bin's {name} is not from 1 to 2^24")
        hidden, intermediate, layers, heads, kv_heads, vocab, max_positions = sizes
        if hidden % heads != 0:
            raise Refused("the .bin's n_heads does not divide its dim")
        if heads % kv_heads != 0:
            raise Refused("the .bin's n_kv_heads does not divide its n_heads")
        head_dim = hidden // heads
        if head_dim % 2 != 0:
            raise Refused("the .bin's heads have an odd size, but RoPE turns pairs")
        self.config = Config(
            hidden=hidden,
            layers=layers,
            heads=heads,
            kv_heads=kv_heads,
            head_dim=head_dim,
            intermediate=intermediate,
            vocab=vocab,
            eps=1e-5,
            tied=not own_head,
            max_positions=max_positions,
            rope_layout="pairs",
            rope={"rotary_dim": head_dim},
            eos=[1],  # llama2.c ends where a sequence begins
        )
        self._offsets: dict[str, int] = {}
        self._at = 28
        self._find_tensors()

    def _skip(self, elements: int) -> None:
        self._at += 4 * elements
        if self._at > self._size:
            raise Refused("the .bin is shorter than its sizes say")

    def _find_tensors(self) -> None:
        c = self.config
        kv = c.kv_heads * c.head_dim
        blocks = {
            "input_layernorm": c.hidden,
            "self_attn.q_proj": c.hidden * c.hidden,
            "self_attn.k_proj": kv * c.hidden,
            "self_attn.v_proj": kv * c.hidden,
            "self_attn.o_proj": c.hidden * c.hidden,
            "post_attention_layernorm": c.hidden,
            "mlp.gate_proj": c.intermediate * c.hidden,
            "mlp.down_proj": c.hidden * c.intermediate,
            "mlp.up_proj": c.intermediate * c.hidden,
        }
        self._offsets["model.embed_tokens.weight"] = self._at
        self._skip(c.vocab * c.hidden)
        for block, elements in blocks.items():
            for layer in range(c.layers):
                self._offsets[f"model.layers.{layer}.{block}.weight"] = self._at
                self._skip(elements)
        self._offsets["model.norm.weight"] = self._at
        self._skip(c.hidden)
        self._skip(c.max_positions * c.head_dim)  # two tables of RoPE that nobody reads
        if not c.tied:
            self._offsets["lm_head.weight"] = self._at
            self._skip(c.vocab * c.hidden)
        if self._at != self._size:
            raise Refused("the .bin is longer than its sizes say")

    def read(self, name: str, shape: tuple[int, ...]) -> Array:
        if name not in self._offsets:
            raise Refused(f"{name} is missing")
        data = read_file(self._path, self._offsets[name], 4 * math.prod(shape))
        return data.view("<f4").reshape(shape)


def open_checkpoint(path: Path, ignored_keys: list[str]) -> Checkpoint:
    """A folder is Hugging Face's, a file is llama2.c's."""
    if path.is_dir():
        return Safetensors(path, ignored_keys)
    return Llama2c(path)


# ---- a model whose weights follow from a seed


def _fnv1a(text: str) -> int:
    value = 0xCBF29CE484222325
    for byte in text.encode():
        value = (value ^ byte) * 0x100000001B3 % (1 << 64)
    return value


def _splitmix(state: int, first: int, count: int) -> Array:
    """Numbers first + 1 to first + count of SplitMix64 (Steele, Lea, Flood 2014) that starts at `state`."""
    z = np.arange(first + 1, first + count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(state)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


class Seeded:
    """It says nothing, but it computes all that a trained model does. Every machine makes the same.

    Every tensor has its own stream: SplitMix64 that starts at the seed XOR the FNV-1a hash of the tensor's name. Its numbers
    z become odd integers times powers of two, exact in f16 and bf16:

        weights of norms   (2 * (z >> 59) + 97) / 128, from 97/128 to 159/128
        all others         (2 * (z >> 57) - 127) / 2^e: e is 8 for a bias and 6 for an embedding that is not the head.
                           Otherwise it is 6 + half the binary digits of a layer's inputs, 1 less for the head.
    """

    def __init__(self, config: Config, seed: int) -> None:
        self.config, self._seed = config, seed

    def _exponent(self, name: str, shape: tuple[int, ...]) -> int:
        embedding = name in ("model.embed_tokens.weight", "transformer.wte.weight", "transformer.wpe.weight")
        if name.endswith(".bias"):
            return 8
        is_head = name == "lm_head.weight" or self.config.tied and embedding and "wpe" not in name
        if embedding and not is_head:
            return 6
        inputs = shape[0] if self.config.is_gpt2 and not is_head else shape[-1]  # GPT-2 has layers [inputs][outputs]
        return 6 + inputs.bit_length() // 2 - is_head

    def read(self, name: str, shape: tuple[int, ...]) -> Array:
        # The smallest number of a longer row is subnormal in f16.
        if shape[-1] >= 65536:
            raise Refused(f"{name}: a seed makes rows of less than 65536 elements")
        is_norm = "norm" in name or ".ln_" in name and name.endswith(".weight")
        exponent = 7 if is_norm else self._exponent(name, shape)
        state, tensor = self._seed ^ _fnv1a(name), np.empty(math.prod(shape), np.float32)
        for at in range(0, len(tensor), 1 << 20):
            part = tensor[at : at + (1 << 20)]
            z = _splitmix(state, at, len(part))
            if is_norm:
                numerators = 2 * (z >> np.uint64(59)).astype(np.int32) + 97
            else:
                numerators = 2 * (z >> np.uint64(57)).astype(np.int32) - 127
            np.ldexp(numerators.astype(np.float32), -exponent, out=part)
        if self.config.dtype == "bf16":  # the lower half is 0
            tensor = (tensor.view(np.uint32) >> 16).astype(np.uint16)
        elif self.config.dtype == "f16":
            tensor = tensor.astype(np.float16)
        return tensor.reshape(shape)
