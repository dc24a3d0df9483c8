"""Checks of the example decoder in Python: the hashes of the one in C++, and GPT-2 against a reference in float64.

RAPT_DECODER is the program in C++, and RAPT_LIBRARY the library that Python loads.
"""

from __future__ import annotations

import ast
import json
import math
import os
import re
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import make_model
from make_model import Options, splitmix64, fnv1a64, write_model
from reference import read_dump, read_folder_tensors
from test_reference import edit_config, write_tensors

ROOT = Path(__file__).parents[2]
DECODER = os.environ.get("RAPT_DECODER", "")
pytestmark = pytest.mark.skipif(not DECODER or "RAPT_LIBRARY" not in os.environ, reason="no program or no library")


def output(command: list[str], status: int) -> str:
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=120,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src/python")},
    )
    assert done.returncode == status, (done.returncode, done.stderr)
    return done.stderr if status else done.stdout


def python(*arguments: Any, status: int = 0) -> str:
    program = str(ROOT / "src/python/examples/decoder.py")
    return output([sys.executable, "-B", program, *map(str, arguments)], status)


def answer(text: str) -> list[str]:
    """The lines that do not tell times and threads."""
    return [line for line in text.splitlines() if re.match("tokens|hash|drafts|text", line)]


MODELS: list[dict[str, Any]] = [
    {"architecture": "llama", "attention_bias": True, "mlp_bias": True, "rope_scaling": "yarn", "dtype": "f16"},
    {"architecture": "qwen2", "kv_heads": 1, "dtype": "bf16", "tied": True, "shards": 2},
    {"architecture": "qwen3", "head_dim": 24, "rope_scaling": "llama3"},
    {"format": "bin"},
]
ARGUMENTS = [
    "--chunk 3 --drafts 3",
    "--chunk 3 --last-logits",
    "--weights i8 --arithmetic i8 --cache i8",
    "--weights i4 --cache bf16 --tokens 7 --tokens 8,9 --threads 2",
]


@pytest.mark.parametrize("options", MODELS, ids=str)
def test_answers_are_those_of_the_program_in_cpp(tmp_path: Path, options: dict[str, Any]) -> None:
    model = tmp_path / "model"
    write_model(model, Options(**options))
    for arguments in ARGUMENTS:
        same = [str(model), "--tokens", "1,2,3,4,5,6,7,8", "--generate", "12", *arguments.split()]
        assert answer(python(*same)) == answer(output([DECODER, *same], 0))


def test_the_model_from_a_seed() -> None:
    assert answer(python()) == answer(output([DECODER], 0))


def test_bf16_arithmetic(tmp_path: Path) -> None:
    write_model(tmp_path / "model", Options(dtype="bf16"))
    same = [str(tmp_path / "model"), "--arithmetic", "bf16", "--tokens", "1,2,3"]
    assert answer(python(*same)) == answer(output([DECODER, *same], 0))


def test_no_arithmetic_of_its_own() -> None:
    """NumPy moves numbers only. Divisions are those of tokens by seconds, and no function of NumPy computes floats."""
    moves = "array arange ascontiguousarray concatenate cumsum empty frombuffer where zeros ndarray".split()
    moves += "float32 int8 int32 int64 uint8 uint16 uint32".split()
    others = "report", "fnv1a_of_block"  # speeds; integers
    tree = ast.parse((ROOT / "src/python/examples/decoder.py").read_text())
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef) and function.name not in others:
            for node in ast.walk(function):
                assert not (isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Div, ast.MatMult, ast.Pow)))
                if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "np":
                    assert node.attr in moves, (function.name, node.attr)


def test_hash_is_the_loop() -> None:
    """The program finds FNV-1a in passes over all bytes. Here it is byte by byte."""
    program = f"import sys; sys.path[:0] = [{str(ROOT / 'src/python/examples')!r}]\nimport decoder, json\n"
    program += "lengths = json.loads(sys.argv[1])\ndata = bytes(i * i % 251 for i in range(max(lengths)))\n"
    program += "print([decoder.fnv1a(n + decoder.FNV_START, data[:n]) for n in lengths])"
    lengths = [0, 1, 7, 8, 9, 1000, (1 << 16) - 1, 1 << 16, (1 << 16) + 1, 140000]
    found = json.loads(output([sys.executable, "-B", "-c", program, json.dumps(lengths)], 0))
    for length, value in zip(lengths, found):
        expected = length + 0xCBF29CE484222325
        for i in range(length):
            expected = (expected ^ i * i % 251) * 0x100000001B3 % 2**64
        assert value == expected, length


# ---- GPT-2 (Radford et al. 2019), with the names and keys of transformers

GPT2 = {"model_type": "gpt2", "n_embd": 48, "n_head": 4, "n_layer": 2, "n_positions": 40, "vocab_size": 90}


def gpt2_tensors(config: dict[str, Any]) -> dict[str, np.ndarray]:
    """Every tensor is drawn from its name. Matrices of layers are [inputs][outputs]."""
    n, inner = config["n_embd"], config.get("n_inner") or 4 * config["n_embd"]
    shapes: dict[str, tuple[int, ...]] = {
        "wte.weight": (config["vocab_size"], n),
        "wpe.weight": (config["n_positions"], n),
    }
    for i in range(config["n_layer"]):
        matrices = {"attn.c_attn": (n, 3 * n), "attn.c_proj": (n, n), "mlp.c_fc": (n, inner), "mlp.c_proj": (inner, n)}
        for name, shape in matrices.items():
            shapes[f"h.{i}.{name}.weight"] = shape
            shapes[f"h.{i}.{name}.bias"] = shape[1:]
        for name in ("ln_1", "ln_2"):
            shapes |= {f"h.{i}.{name}.weight": (n,), f"h.{i}.{name}.bias": (n,)}
    shapes |= {"ln_f.weight": (n,), "ln_f.bias": (n,)}
    tensors = {}
    for name, shape in shapes.items():
        z = splitmix64(fnv1a64(name), math.prod(shape)).reshape(shape)
        numbers = (2 * (z >> np.uint64(57)).astype(np.float32) - 127) / 128
        tensors[name] = numbers / 4 if len(shape) == 2 else numbers / 8
        if ".ln_" in f".{name}" and name.endswith("weight"):
            tensors[name] = 1 + numbers / 4
    return tensors


def gpt2_logits(config: dict[str, Any], tensors: dict[str, np.ndarray], tokens: list[int]) -> np.ndarray:
    w = {name: tensor.astype(np.float64) for name, tensor in tensors.items()}
    heads, rows = config["n_head"], len(tokens)

    def norm(x: np.ndarray, name: str) -> np.ndarray:
        centred = x - x.mean(axis=-1, keepdims=True)
        variance = (centred**2).mean(axis=-1, keepdims=True)
        return (
            centred / np.sqrt(variance + config.get("layer_norm_epsilon", 1e-5)) * w[name + ".weight"]
            + w[name + ".bias"]
        )

    def layer(x: np.ndarray, name: str) -> np.ndarray:
        return x @ w[name + ".weight"] + w[name + ".bias"]

    def gelu_new(x: np.ndarray) -> np.ndarray:
        return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))

    x = w["wte.weight"][tokens] + w["wpe.weight"][:rows]
    for i in range(config["n_layer"]):
        qkv = layer(norm(x, f"h.{i}.ln_1"), f"h.{i}.attn.c_attn")
        q, k, v = (part.reshape(rows, heads, -1).transpose(1, 0, 2) for part in np.split(qkv, 3, axis=-1))
        scores = q @ k.transpose(0, 2, 1) / math.sqrt(q.shape[-1])
        scores = np.where(np.tri(rows, dtype=bool), scores, -np.inf)
        p = np.exp(scores - scores.max(axis=-1, keepdims=True))
        attended = (p / p.sum(axis=-1, keepdims=True)) @ v
        x = x + layer(attended.transpose(1, 0, 2).reshape(rows, -1), f"h.{i}.attn.c_proj")
        x = x + layer(gelu_new(layer(norm(x, f"h.{i}.ln_2"), f"h.{i}.mlp.c_fc")), f"h.{i}.mlp.c_proj")
    return norm(x, "ln_f") @ w["wte.weight"].T


def write_gpt2(folder: Path, config: dict[str, Any], prefix: str = "") -> dict[str, np.ndarray]:
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config))
    tensors = gpt2_tensors(config)
    stored = {prefix + name: tensor for name, tensor in tensors.items()}
    stored[prefix + "h.0.attn.bias"] = np.tri(4, dtype=np.float32)  # the causal mask, which nobody reads
    (folder / "model.safetensors").write_bytes(make_model.safetensors_bytes(stored, "f32"))
    return tensors


@pytest.mark.parametrize("prefix, more", [("", {}), ("transformer.", {"n_inner": 80, "layer_norm_epsilon": 1e-3})])
def test_gpt2_is_the_reference(tmp_path: Path, prefix: str, more: dict[str, Any]) -> None:
    config, tokens = GPT2 | more, [(7 * t * t + 3) % 90 for t in range(30)]
    tensors = write_gpt2(tmp_path / "model", config, prefix)
    arguments = [tmp_path / "model", "--tokens", ",".join(map(str, tokens))]
    python(*arguments, "--generate", 0, "--dump-logits", tmp_path / "logits")
    found = read_dump(tmp_path / "logits", (len(tokens), 90))
    wanted = gpt2_logits(config, tensors, tokens)
    error = np.abs(found - wanted).max(axis=-1) / np.abs(wanted).max(axis=-1)
    assert error.max() < 3e-6
    # A mistake would be seen: the same reference without the positions.
    wrong = gpt2_logits(config, tensors | {"wpe.weight": 0 * tensors["wpe.weight"]}, tokens)
    assert np.abs(found - wrong).max() > 0.01
    one = answer(python(*arguments, "--generate", 8))
    assert one == answer(python(*arguments, "--generate", 8, "--chunk", 7, "--threads", 2))
    assert one[:2] == answer(python(*arguments, "--generate", 8, "--drafts", 2))[:2]


@pytest.mark.parametrize(
    "changes, named",
    [
        ({"activation_function": "relu"}, "activation_function"),
        ({"scale_attn_by_inverse_layer_idx": True}, "scale_attn_by_inverse_layer_idx"),
        ({"reorder_and_upcast_attn": True}, "reorder_and_upcast_attn"),
        ({"scale_attn_weights": False}, "scale_attn_weights"),
        ({"n_head": 5}, "n_head"),
        ({"n_embd": 52}, "wte.weight"),
        ({"n_layer": 3}, "h.2."),
        ({"n_inner": 64}, "c_fc"),
        ({"softcap": 3}, "softcap"),
    ],
)
def test_gpt2_is_refused(tmp_path: Path, changes: dict[str, Any], named: str) -> None:
    write_gpt2(tmp_path / "model", GPT2)
    edit_config(tmp_path / "model", changes)
    error = python(tmp_path / "model", "--tokens", "1", status=1)
    assert named in error and error.startswith("decoder.py: ") and error.count("\n") == 1


def test_others_are_refused(tmp_path: Path) -> None:
    write_model(tmp_path / "model", Options())
    for arguments, named in (
        (["--tokens", "1,x"], "--tokens"),
        (["--tokens", "256"], "256"),
        (["--tokens", ""], "no tokens"),
        (["--generate", "2000"], "positions"),
        (["--generate", "-1"], "--generate"),
        (["--prompt", "hello"], "--tokenizer"),
        (["--isa", "sse9"], "sse9"),
        (["--arithmetic", "bf16"], "bf16"),
        (["--arithmetic", "i8"], "i8"),
        (["--tokenizer", tmp_path / "none"], "none"),
        (["--seed", "-1"], "--seed"),
        (["--seed", str(1 << 64)], "--seed"),
        (["--dump-logits", tmp_path / "no" / "file"], "cannot be written"),
    ):
        assert named in python(tmp_path / "model", *arguments, status=1)
    edit_config(tmp_path / "model", {"rms_norm_eps": 1e-42})  # f32 has it as a subnormal number
    assert "eps" in python(tmp_path / "model", status=1)
    edit_config(tmp_path / "model", {"rms_norm_eps": 1e-5})
    edit_config(tmp_path / "model", {"logit_softcap": 30.0})
    assert "logit_softcap" in python(tmp_path / "model", status=1)
    file = tmp_path / "model" / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-4])
    assert "outside" in python(tmp_path / "model", "--ignore-key", "logit_softcap", status=1)


def test_what_only_the_program_in_cpp_does_is_refused(tmp_path: Path) -> None:
    model, pipe = tmp_path / "model", tmp_path / "pipe"
    write_model(model, Options(architecture="qwen2"))
    tensors = dict(read_folder_tensors(model))
    for changes, named in (
        ({"use_sliding_window": True}, "use_sliding_window"),
        ({"model_type": "mistral"}, "model_type"),
        ({"model_type": "qwen2", "use_sliding_window": False, "a": 1, "b": 2}, "a, b"),
    ):
        edit_config(model, changes)
        assert named in python(model, status=1)
    edit_config(model, {"architectures": "HERE"})
    text = (model / "config.json").read_text()
    (model / "config.json").write_text(text.replace('"HERE"', "[" * 100000 + "]" * 100000))
    assert "config.json is not JSON" in python(model, status=1)
    os.mkfifo(pipe)
    assert "not a regular file" in python("--config", pipe, status=1)
    (tmp_path / "model.gguf").write_bytes(b"GGUF" + bytes(100))
    assert "GGUF" in python(tmp_path / "model.gguf", status=1)
    (model / "config.json").write_text(text)
    write_tensors(model, tensors | {"model.norm.weight": np.full(64, np.nan, "<f4")})
    assert "NaN" in python(model, "--ignore-key", "a", "--ignore-key", "b", status=1)


def test_repeated_tensors_must_be_equal(tmp_path: Path) -> None:
    model = tmp_path / "model"
    write_model(model, Options(tied=True))
    tensors = dict(read_folder_tensors(model))
    wanted, embedding = answer(python(model)), tensors["model.embed_tokens.weight"]
    inv_freq = np.array([10.0 ** (-i / 2) for i in range(8)], "<f4")
    equal = {"lm_head.weight": embedding, "model.layers.0.self_attn.rotary_emb.inv_freq": inv_freq}
    write_tensors(model, tensors | equal)
    assert answer(python(model)) == wanted
    for name, tensor in equal.items():
        write_tensors(model, tensors | equal | {name: tensor * np.float32(1.5)})
        assert name in python(model, status=1)
    write_gpt2(tmp_path / "gpt2", GPT2)
    tensors = gpt2_tensors(GPT2)
    write_tensors(tmp_path / "gpt2", tensors | {"lm_head.weight": tensors["wte.weight"]})
    python(tmp_path / "gpt2", "--generate", 1)
    write_tensors(tmp_path / "gpt2", tensors | {"lm_head.weight": tensors["wte.weight"] * np.float32(1.5)})
    assert "lm_head.weight" in python(tmp_path / "gpt2", status=1)


def test_pieces_of_a_tokenizer(tmp_path: Path) -> None:
    """Text that is no UTF-8 goes by its bytes, and a piece that looks like a byte may be none."""
    write_model(tmp_path / "model", Options(vocab=262))
    pieces = [b"<unk>", b"<s>", b"</s>", *(b"<0x%02X>" % byte for byte in range(256)), b" ", b"<0xZZ>", b"\xff"]
    data = struct.pack("<i", 8) + b"".join(struct.pack("<fi", 0, len(piece)) + piece for piece in pieces)
    (tmp_path / "tokenizer.bin").write_bytes(data)
    same = ["--tokenizer", tmp_path / "tokenizer.bin", "--generate", 0]
    assert "tokens     1,259,261,257\n" in python(tmp_path / "model", *same, "--prompt", os.fsdecode(b"\xff\xfe"))
    assert "text       <0xZZ>\n" in python(tmp_path / "model", *same, "--tokens", "260")
    (tmp_path / "tokenizer.bin").write_bytes(struct.pack("<i", 1) + data[4:])
    assert "valid length" in python(tmp_path / "model", *same, "--tokens", "260", status=1)
