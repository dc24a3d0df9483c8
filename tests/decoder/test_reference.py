"""Checks of reference.py and make_model.py against facts that do not come from their own code.

Run with pytest. The scalar model below is a second implementation in plain Python, with complex numbers for RoPE and
loops instead of arrays, so that an error of layout or broadcasting in reference.py cannot hide in both.
"""
from __future__ import annotations

import cmath
import json
import math
import random
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import make_model
import reference
from make_model import Options, write_model
from reference import Config, Model, Refused, Rope, load

TOKENS = [3, 17, 17, 0, 22, 9, 5]
TINY = dict(hidden=12, layers=2, heads=6, kv_heads=2, head_dim=4, intermediate=10, vocab=23)


def make(folder: Path, **options: Any) -> Path:
    """Write a tiny model, with TINY overridden by the options, and return its path."""
    out = folder / f"model-{len(list(folder.iterdir()))}"
    write_model(out, Options(**{**TINY, **options}))
    return out


def edit_config(path: Path, changes: dict[str, Any]) -> None:
    """Change keys of a config.json; None stands for null."""
    table = json.loads((path / "config.json").read_text()) | changes
    (path / "config.json").write_text(json.dumps(table))


def scalar_logits(model: Model, attention_factor: float, tokens: list[int]) -> np.ndarray:
    """The forward pass in plain Python; only the weights and the frequencies come from the model."""
    c, w = model.config, {name: reference.widen(tensor).tolist() for name, tensor in model.weights.items()}

    def linear(x: list[float], name: str) -> list[float]:
        rows = w[name + ".weight"]
        bias = w.get(name + ".bias", [0.0] * len(rows))
        return [sum(a * b for a, b in zip(row, x)) + extra for row, extra in zip(rows, bias)]

    def norm(x: list[float], name: str) -> list[float]:
        root = math.sqrt(sum(a * a for a in x) / len(x) + c.eps)
        return [a / root * b for a, b in zip(x, w[name + ".weight"])]

    def heads_of(x: list[float], name: str | None) -> list[list[float]]:
        heads = [x[begin : begin + c.head_dim] for begin in range(0, len(x), c.head_dim)]
        return [norm(head, name) for head in heads] if name and c.qk_norm else heads

    def turned(head: list[float], position: int) -> list[complex]:
        half = c.head_dim // 2
        plane = [complex(head[2 * i], head[2 * i + 1]) if c.pairs else complex(*head[i::half]) for i in range(half)]
        return [z * cmath.rect(attention_factor, position * f) for z, f in zip(plane, model.frequencies)]

    stream = [list(w["model.embed_tokens.weight"][token]) for token in tokens]
    for layer in range(c.layers):
        at = f"model.layers.{layer}."
        keys, values = [], []
        for t, x in enumerate(stream):
            n = norm(x, at + "input_layernorm")
            q, k, v = (linear(n, f"{at}self_attn.{p}_proj") for p in "qkv")
            keys.append([turned(head, t) for head in heads_of(k, at + "self_attn.k_norm")])
            values.append(heads_of(v, None))
            joined: list[float] = []
            for h, head in enumerate(heads_of(q, at + "self_attn.q_norm")):
                group, query = h * c.kv_heads // c.heads, turned(head, t)
                first = max(0, t + 1 - c.windows[layer]) if c.windows and c.windows[layer] else 0
                dots = [sum((a * b.conjugate()).real for a, b in zip(query, key[group])) for key in keys[first:]]
                exps = [math.exp(dot / math.sqrt(c.head_dim)) for dot in dots]
                joined += [
                    sum(e * value[group][i] for e, value in zip(exps, values[first:])) / sum(exps)
                    for i in range(c.head_dim)
                ]
            x = [a + b for a, b in zip(x, linear(joined, at + "self_attn.o_proj"))]
            n = norm(x, at + "post_attention_layernorm")
            gate, up = linear(n, at + "mlp.gate_proj"), linear(n, at + "mlp.up_proj")
            inner = [g / (1 + math.exp(-g)) * u for g, u in zip(gate, up)]
            stream[t] = [a + b for a, b in zip(x, linear(inner, at + "mlp.down_proj"))]
    rows = w["model.embed_tokens.weight" if c.tied else "lm_head.weight"]
    finals = [norm(x, "model.norm") for x in stream]
    return np.array([[sum(a * b for a, b in zip(row, x)) for row in rows] for x in finals])


def test_one_layer_by_hand() -> None:
    config = Config(2, 1, 1, 1, 2, 1, 2, eps=0.5, tied=False, rope=Rope())
    one, zero = np.eye(2), np.zeros((2, 2))
    weights = {
        "model.embed_tokens.weight": one,
        "model.layers.0.input_layernorm.weight": np.array([2.0, 4.0]),
        "model.layers.0.self_attn.q_proj.weight": zero,  # All scores are 0, so attention averages the values.
        "model.layers.0.self_attn.k_proj.weight": one,
        "model.layers.0.self_attn.v_proj.weight": one,
        "model.layers.0.self_attn.o_proj.weight": one,
        "model.layers.0.mlp.gate_proj.weight": np.array([[1.0, 0.0]]),
        "model.layers.0.mlp.up_proj.weight": np.array([[0.0, 1.0]]),
        "model.layers.0.mlp.down_proj.weight": np.array([[0.0], [5.0]]),
        "model.layers.0.post_attention_layernorm.weight": np.array([1.0, 2.0]),
        "model.norm.weight": np.array([1.0, 3.0]),
        "lm_head.weight": np.array([[1.0, 0.0], [1.0, 1.0]]),
    }
    # The norm of (1, 0) has the root sqrt(1/2 + eps) = 1. Values are (2, 0) and (0, 4); with the averages (2, 0) and
    # (1, 2) the stream becomes (3, 0) and (1, 3). The MLP adds 0 to the first, since its up is 0. The root of the
    # second is sqrt(10/2 + 1/2), so that its gate is 1 / sqrt(5.5) and its up is 2 * 3 / sqrt(5.5).
    gate = 1 / math.sqrt(5.5)
    second = 3 + 5 * gate / (1 + math.exp(-gate)) * 6 / math.sqrt(5.5)
    root = math.sqrt((1 + second**2) / 2 + 0.5)
    expected = [[3 / math.sqrt(5)] * 2, [1 / root, (1 + 3 * second) / root]]
    np.testing.assert_allclose(Model(config, weights).logits([0, 1]), expected, rtol=1e-14)


@pytest.mark.parametrize(
    "options, factor",
    [
        (dict(), 1),
        (dict(tied=True, kv_heads=6, rope_scaling="linear"), 1),
        (dict(attention_bias=True, mlp_bias=True, rope_scaling="llama3", dtype="f16", shards=3), 1),
        (dict(architecture="qwen2", kv_heads=1, rope_scaling="yarn"), 0.1 * math.log(4) + 1),
        (dict(architecture="qwen3", head_dim=8, dtype="bf16", tied=True), 1),
        (dict(architecture="qwen3", attention_bias=True, rope_scaling="yarn"), 0.1 * math.log(4) + 1),
        (dict(format="bin", head_dim=0), 1),
        (dict(architecture="mistral", window=3, head_dim=0), 1),
        (dict(architecture="mistral", head_dim=6), 1),
        (dict(architecture="qwen2", window=2, full_layers=1), 1),
        (dict(architecture="qwen3", window=1), 1),
    ],
)
def test_scalar_model_agrees(tmp_path: Path, options: dict[str, Any], factor: float) -> None:
    model = load(make(tmp_path, **options))
    logits = model.logits(TOKENS)
    assert logits.dtype == np.float64 and logits.shape == (len(TOKENS), TINY["vocab"])
    assert 1 < np.abs(logits).max() < 20
    np.testing.assert_allclose(logits, scalar_logits(model, factor, TOKENS), atol=1e-12)


@pytest.mark.parametrize(
    "options, extra",
    [
        (dict(), ""),
        (dict(attention_bias=True), "q_proj.bias k_proj.bias v_proj.bias o_proj.bias"),
        (dict(mlp_bias=True), "gate_proj.bias up_proj.bias down_proj.bias"),
        (dict(architecture="qwen2"), "q_proj.bias k_proj.bias v_proj.bias"),
        (dict(architecture="qwen2", attention_bias=True, mlp_bias=True), "q_proj.bias k_proj.bias v_proj.bias"),
        (dict(architecture="qwen3", mlp_bias=True), "q_norm.weight k_norm.weight"),
        (
            dict(architecture="qwen3", attention_bias=True),
            "q_norm.weight k_norm.weight q_proj.bias k_proj.bias v_proj.bias o_proj.bias",
        ),
    ],
)
def test_tensors_of_each_architecture(tmp_path: Path, options: dict[str, Any], extra: str) -> None:
    always = {f"{p}_proj.weight" for p in "q k v o gate up down".split()}
    always |= {"input_layernorm.weight", "post_attention_layernorm.weight"}
    names = reference.read_folder_tensors(make(tmp_path, **options, layers=1))
    last = {".".join(name.split(".")[-2:]) for name in names if name.startswith("model.layers.0.")}
    assert last == always | set(extra.split())
    assert set(names) - {name for name in names if "layers" in name} == {
        "model.embed_tokens.weight",
        "model.norm.weight",
        "lm_head.weight",
    }


def test_order_of_a_bin_file(tmp_path: Path) -> None:
    """The order of llama2.c's checkpoint_init_weights, written out again with a number for each block."""
    dim, inner, layers, heads, kv_heads, vocab, positions = 8, 8, 2, 2, 1, 5, 3
    sizes = [vocab * dim, layers * dim, layers * dim * dim, layers * 4 * dim, layers * 4 * dim, layers * dim * dim]
    sizes += [layers * dim] + [layers * dim * inner] * 3 + [dim, positions * 2, positions * 2, vocab * dim]
    names = ["embed_tokens", "input_layernorm", "q_proj", "k_proj", "v_proj", "o_proj", "post_attention_layernorm"]
    names += [
        "gate_proj",
        "down_proj",
        "up_proj",
        "model.norm",
        "cosines",
        "sines",
        "lm_head",
    ]  # w1, w2, w3 are the MLP.
    values = np.concatenate([np.full(size, n + np.arange(size) / 1024) for n, size in enumerate(sizes)])
    header = np.array([dim, inner, layers, heads, kv_heads, -vocab, positions], "<i4")
    (tmp_path / "a.bin").write_bytes(header.tobytes() + values.astype("<f4").tobytes())
    for name, tensor in load(tmp_path / "a.bin").weights.items():
        block = next(n for n, part in enumerate(names) if part in name)
        offset = tensor.size if "layers.1." in name else 0
        np.testing.assert_array_equal(tensor.ravel(), np.float32(block + (offset + np.arange(tensor.size)) / 1024))


def test_later_tokens_change_nothing_before(tmp_path: Path) -> None:
    model = load(make(tmp_path))
    one, other = model.logits(TOKENS), model.logits(TOKENS[:4] + [1, 2, 4])
    np.testing.assert_allclose(one[:4], other[:4], atol=1e-12)
    assert np.abs(one[4:] - other[4:]).max() > 0.1


def test_shared_heads_equal_repeated_heads(tmp_path: Path) -> None:
    model = load(make(tmp_path))
    repeated = {
        name: np.repeat(w.reshape(2, 4, 12), 3, axis=0).reshape(24, 12) if "k_proj" in name or "v_proj" in name else w
        for name, w in model.weights.items()
    }
    full = Model(replace(model.config, kv_heads=6), repeated)
    np.testing.assert_allclose(model.logits(TOKENS), full.logits(TOKENS), atol=1e-12)


@pytest.mark.parametrize("pairs", [False, True])
def test_rotation_keeps_norms_and_knows_only_differences(pairs: bool) -> None:
    x = np.random.default_rng(1).normal(size=(2, 1, 1, 8))
    frequencies = Rope().frequencies(8)
    q, k = (lambda n, x=x[i]: reference.rotate(x, n * frequencies[None], pairs)[0, 0] for i in (0, 1))
    np.testing.assert_allclose(np.linalg.norm(q(1000)), np.linalg.norm(x[0]), rtol=1e-13)
    np.testing.assert_allclose(q(7) @ k(3), q(104) @ k(100), rtol=1e-11)
    np.testing.assert_allclose(q(0), x[0, 0, 0])
    assert abs(q(7) @ k(3) - q(8) @ k(3)) > 0.01


def test_pairs_and_halves_agree_after_a_permutation(tmp_path: Path) -> None:
    model = load(make(tmp_path, head_dim=8))
    rows = [8 * h + i // 2 + i % 2 * 4 for h in range(6) for i in range(8)]
    permuted = {
        name: w[rows[: len(w)]] if "q_proj" in name or "k_proj" in name else w for name, w in model.weights.items()
    }
    pairs = Model(replace(model.config, pairs=True), permuted)
    np.testing.assert_allclose(model.logits(TOKENS), pairs.logits(TOKENS), atol=1e-12)


@pytest.mark.parametrize("tied", [False, True])
def test_formats_types_and_shards_agree(tmp_path: Path, tied: bool) -> None:
    plain = dict(TINY, tied=tied, head_dim=0, heads=3, kv_heads=1)
    logits = load(make(tmp_path, **plain)).logits(TOKENS)
    np.testing.assert_allclose(load(make(tmp_path, **plain, format="bin")).logits(TOKENS), logits, atol=1e-12)
    for more in (dict(dtype="f16"), dict(dtype="bf16"), dict(shards=4)):
        np.testing.assert_array_equal(load(make(tmp_path, **plain, **more)).logits(TOKENS), logits)


def test_llama3_frequencies() -> None:
    rope = reference.parse_rope(
        {
            "rope_theta": 500000.0,
            "max_position_embeddings": 131072,
            "rope_scaling": {
                "rope_type": "llama3",
                "factor": 8.0,
                "low_freq_factor": 1.0,
                "high_freq_factor": 4.0,
                "original_max_position_embeddings": 8192,
            },
        }
    )
    got, kinds = rope.frequencies(128), set()
    for i in range(64):
        f = 500000.0 ** (-i / 64)
        wavelength = 2 * math.pi / f
        smooth = (8192 / wavelength - 1) / 3
        kind = "kept" if wavelength < 2048 else "slowed" if wavelength > 8192 else "blended"
        expected = {"kept": f, "slowed": f / 8, "blended": (1 - smooth) * f / 8 + smooth * f}[kind]
        assert got[i] == pytest.approx(expected, rel=1e-13)
        kinds.add(kind)
    assert got[0] == 1 and got[63] == pytest.approx(500000.0 ** (-63 / 64) / 8) and len(kinds) == 3


def test_yarn_frequencies() -> None:
    scaling = {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}
    table = {"rope_theta": 1e6, "rope_scaling": scaling, "max_position_embeddings": 131072}
    got = reference.parse_rope(table).frequencies(128)
    plain = 1e6 ** (-np.arange(64) / 64)
    # at(32) = 23.59 and at(1) = 39.65, so that planes up to 23 are kept and planes from 40 are slowed.
    np.testing.assert_allclose(got[:24], plain[:24], rtol=1e-13)
    np.testing.assert_allclose(got[40:], plain[40:] / 4, rtol=1e-13)
    ramp = (np.arange(24, 40) - 23) / 17
    np.testing.assert_allclose(got[24:40], plain[24:40] * (1 - ramp + ramp / 4), rtol=1e-13)
    assert reference.parse_rope(table).attention_factor == pytest.approx(0.1 * math.log(4) + 1)
    scaling |= {"truncate": False, "attention_factor": 2.5}
    exact = reference.parse_rope(table)
    low, high = (64 * math.log(32768 / (2 * math.pi * r)) / math.log(1e6) for r in (32, 1))
    ratio = 1 - 0.75 * (30 - low) / (high - low)
    assert exact.attention_factor == 2.5 and exact.frequencies(128)[30] == pytest.approx(plain[30] * ratio, rel=1e-12)


@pytest.mark.parametrize(
    "theta, original, more, ramp",
    [
        (1e4, 64, {}, [0, 1 / 2, 1, 1]),  # at(32) = -0.50 is raised to 0 and at(1) = 1.01 is rounded to 2.
        (1e4, 6, {}, [0, 1, 1, 1]),  # Both ends are 0, and the upper one is moved by 0.001.
        (20.0, 1763, {}, [0, 0, 0, 1 / 5]),  # at(32) = 2.90 becomes 2, and at(1) = 7.53 is lowered to 7.
        (20.0, 1763, {"beta_fast": 64, "beta_slow": 4}, [0, 0, 1 / 5, 2 / 5]),  # 1.97 and 5.68 become 1 and 6.
    ],
)
def test_ends_of_the_yarn_ramp(theta: float, original: int, more: dict[str, float], ramp: list[float]) -> None:
    scaling = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": original} | more
    got = reference.parse_rope({"rope_theta": theta, "rope_scaling": scaling}).frequencies(8)
    np.testing.assert_allclose(got, theta ** (-np.arange(4) / 4) * (1 - 0.75 * np.array(ramp)), rtol=1e-13)


def test_old_and_new_keys_of_rope() -> None:
    old = {"rope_theta": 5e5, "rope_scaling": {"type": "linear", "factor": 2}}
    new = {"rope_parameters": {"rope_type": "linear", "factor": 2.0, "rope_theta": 5e5}}
    assert reference.parse_rope(old) == reference.parse_rope(new) == Rope(5e5, "linear", 2.0)
    assert reference.parse_rope({}) == Rope(1e4) == reference.parse_rope({"rope_parameters": {"rope_theta": 10000}})
    np.testing.assert_allclose(Rope(1e4, "linear", 2.0).frequencies(4), [0.5, 0.005])
    yarn = {"rope_type": "yarn", "factor": 0.5}
    rope = reference.parse_rope({"rope_scaling": yarn, "max_position_embeddings": 512})
    assert rope.original == 512 and rope.attention_factor == 1


def test_defaults_of_absent_keys() -> None:
    table = make_model.config_table(Options(heads=64, hidden=256, kv_heads=16))
    for key in ("num_key_value_heads", "rms_norm_eps", "tie_word_embeddings", "hidden_act"):
        del table[key]
    for model_type, kv_heads in (("llama", 64), ("mistral", 8), ("qwen2", 32), ("qwen3", 32)):
        config = reference.parse_config(table | {"model_type": model_type})
        assert (config.kv_heads, config.eps, config.tied) == (kv_heads, 1e-6, False)
    assert reference.parse_config(table | {"model_type": "qwen2", "num_key_value_heads": None}).kv_heads == 64


def test_windows_of_layers(tmp_path: Path) -> None:
    """By transformers' rules: its defaults, layers of a Qwen from max_window_layers on, or those that layer_types names."""
    table = make_model.config_table(Options(layers=30))
    full, sliding = ["full_attention"], ["sliding_attention"]
    for changes, windows in (
        ({"model_type": "llama", "sliding_window": 5}, [0] * 30),
        ({"model_type": "llama", "sliding_window": None, "use_sliding_window": True}, [0] * 30),
        ({"model_type": "llama", "layer_types": full * 30}, [0] * 30),
        ({"model_type": "mistral"}, [4096] * 30),
        ({"model_type": "mistral", "sliding_window": None}, [0] * 30),
        ({"model_type": "mistral", "sliding_window": 5, "layer_types": sliding * 30}, [5] * 30),
        ({"model_type": "mistral", "sliding_window": None, "layer_types": full * 30}, [0] * 30),
        ({"model_type": "qwen2", "sliding_window": 5, "max_window_layers": 1}, [0] * 30),
        ({"model_type": "qwen2", "use_sliding_window": True}, [0] * 28 + [4096] * 2),
        ({"model_type": "qwen3", "use_sliding_window": True, "sliding_window": None}, [0] * 30),
        ({"model_type": "qwen3", "use_sliding_window": True, "sliding_window": 5, "max_window_layers": 0}, [5] * 30),
        ({"model_type": "qwen3", "use_sliding_window": True, "layer_types": full + sliding * 29}, [0] + [4096] * 29),
    ):
        assert list(reference.parse_config(table | changes).windows) == windows, changes
    for changes in (
        {"model_type": "llama", "layer_types": sliding * 30},
        {"model_type": "mistral", "layer_types": full * 30},
        {"model_type": "mistral", "sliding_window": None, "layer_types": sliding * 30},
        {"model_type": "qwen2", "layer_types": sliding * 30},
        {"model_type": "qwen2", "layer_types": full * 29},
    ):
        with pytest.raises(Refused, match="layer_types"):
            reference.parse_config(table | changes)


def test_head_dim_defaults(tmp_path: Path) -> None:
    table = make_model.config_table(Options(head_dim=8))
    for model_type, expected in (("llama", 16), ("qwen2", 16), ("qwen3", 128)):
        del table["head_dim"]
        assert reference.parse_config(table | {"model_type": model_type}).head_dim == expected
        table["head_dim"] = None
        assert reference.parse_config(table | {"model_type": model_type}).head_dim == 16
    assert reference.parse_config(table | {"head_dim": 8}).head_dim == 8


# Changes of a config.json, and what the refusal must name.
REFUSED_CONFIGS: list[tuple[dict[str, Any], str]] = [
    ({"model_type": "gemma2"}, "model_type"),
    ({"model_type": None}, "model_type"),
    ({"hidden_act": "gelu"}, "hidden_act"),
    ({"quantization_config": {"quant_method": "awq"}}, "quantization_config"),
    ({"use_sliding_window": True, "sliding_window": 8}, "sliding_window"),
    ({"use_sliding_window": True}, "sliding_window"),
    ({"layer_types": ["full_attention", "sliding_attention"]}, "layer_types"),
    ({"layer_types": ["full_attention", "linear_attention"]}, "layer_types"),
    ({"layer_types": ["full_attention"]}, "layer_types"),
    ({"layer_types": "full_attention"}, "layer_types"),
    ({"model_type": "mistral", "sliding_window": 0}, "sliding_window"),
    ({"model_type": "qwen2", "use_sliding_window": True, "max_window_layers": -1}, "max_window_layers"),
    ({"partial_rotary_factor": 0.5}, "partial_rotary_factor"),
    ({"rope_scaling": {"rope_type": "dynamic", "factor": 2.0}}, "rope_type 'dynamic'"),
    ({"rope_scaling": {"type": "longrope", "factor": 2.0}}, "rope_type 'longrope'"),
    ({"rope_scaling": {"factor": 2.0}}, "rope_type"),
    ({"rope_scaling": {"type": "linear"}}, "factor"),
    ({"rope_scaling": {"type": "yarn", "factor": 2.0, "mscale": 1.0}}, "mscale"),
    ({"rope_scaling": {"type": "linear", "factor": 2.0}, "rope_parameters": {}}, "rope_parameters"),
    ({"rope_parameters": {"rope_type": "default", "partial_rotary_factor": 0.5}}, "partial_rotary_factor"),
    ({"rope_theta": "1e4"}, "rope_theta"),
    ({"rope_theta": 1}, "rope_theta"),
    (
        {"rope_scaling": {"type": "llama3", "factor": 2, "low_freq_factor": 2, "high_freq_factor": 2}},
        "high_freq_factor",
    ),
    (
        {"rope_scaling": {"type": "yarn", "factor": 2.0}, "original_max_position_embeddings": 8},
        "original_max_position_embeddings",
    ),
    ({"num_key_value_heads": 4}, "num_key_value_heads"),
    ({"hidden_size": -12}, "hidden_size"),
    ({"vocab_size": True}, "vocab_size"),
    ({"num_hidden_layers": 3}, "model.layers.2.input_layernorm.weight"),
    ({"num_hidden_layers": 1}, "model.layers.1.input_layernorm.weight"),
    ({"vocab_size": 24}, "model.embed_tokens.weight"),
    ({"head_dim": 3}, "head_dim"),
    ({"attention_bias": True}, "q_proj.bias"),
    ({"tie_word_embeddings": "yes"}, "tie_word_embeddings"),
]


@pytest.mark.parametrize("changes, named", REFUSED_CONFIGS)
def test_config_is_refused(tmp_path: Path, changes: dict[str, Any], named: str) -> None:
    path = make(tmp_path)
    edit_config(path, changes)
    with pytest.raises(Refused, match=named):
        load(path)


def test_harmless_keys_are_accepted(tmp_path: Path) -> None:
    path = make(tmp_path)
    logits = load(path).logits(TOKENS)
    tensors = dict(reference.read_folder_tensors(path))
    tensors["model.layers.0.self_attn.rotary_emb.inv_freq"] = np.array([1, 0.01], "<f4")
    write_tensors(path, tensors)
    for window in ({"sliding_window": 2, "use_sliding_window": False}, {"sliding_window": None}):
        edit_config(path, {"use_sliding_window": True, "rope_scaling": None, "use_cache": True} | window)
        np.testing.assert_array_equal(load(path).logits(TOKENS), logits)


def write_tensors(path: Path, tensors: dict[str, np.ndarray]) -> None:
    """Replace the weights of a model in f32."""
    data = make_model.safetensors_bytes(tensors, "f32")
    (path / "model.safetensors").unlink()  # The file is still mapped, so it must not be overwritten.
    (path / "model.safetensors").write_bytes(data)


def test_repeated_tensors_must_be_equal(tmp_path: Path) -> None:
    path = make(tmp_path)
    edit_config(path, {"tie_word_embeddings": True})
    with pytest.raises(Refused, match="lm_head.weight"):
        load(path)
    tensors = dict(reference.read_folder_tensors(path))
    tensors[reference.HEAD] = tensors[reference.EMBEDDING]
    write_tensors(path, tensors)
    tied = load(path)
    np.testing.assert_allclose(tied.logits(TOKENS), scalar_logits(tied, 1, TOKENS), atol=1e-12)
    write_tensors(path, tensors | {"model.layers.0.self_attn.rotary_emb.inv_freq": np.ones(2, "<f4")})
    with pytest.raises(Refused, match="inv_freq"):
        load(path)


def test_bf16_decoding() -> None:
    bits = np.array([0x3F80, 0xC040, 0x4049, 0x0001, 0x7F7F, 0xFF80, 0x8000], dtype="<u2")
    expected = [1.0, -3.0, 3.140625, 2.0**-133, 2.0**127 * (2 - 2.0**-7), -math.inf, -0.0]
    assert reference.widen(bits).tolist() == expected


def safetensors(header: Any, data: bytes = bytes(16), length: int | None = None) -> bytes:
    """A file with any header, which may be broken on purpose."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return (len(text) if length is None else length).to_bytes(8, "little") + text + data


def entry(begin: Any, end: Any, dtype: Any = "F32", shape: Any = (2,)) -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


BROKEN = {
    "fixed header": b"\0\0\0",
    "beyond the end": safetensors({}, length=2**63),
    "not valid JSON": safetensors(b"{"),
    "not valid JSON: maximum": safetensors(b"[" * 100000),
    "not a JSON object": safetensors(b"[]"),
    "repeated key": safetensors(b'{"a":{},"a":{}}'),
    "overlap": safetensors({"a": entry(0, 8), "b": entry(4, 12)}),
    "leave a gap": safetensors({"a": entry(0, 8), "b": entry(12, 20)}, bytes(20)),
    "belong to no tensor": safetensors({"a": entry(0, 8)}),
    "outside of the 16": safetensors({"a": entry(8, 24, shape=[4])}),
    "outside of the 16 ": safetensors({"a": entry(8, 0)}),
    "not a list of sizes": safetensors({"a": entry(-8, 0)}),
    "a shape that is not": safetensors({"a": entry(0, 8, shape=[2.0])}),
    "do not fit its shape": safetensors({"a": entry(0, 8, shape=[2**62, 4])}),
    "which no tensor": safetensors({"a": entry(0, 0, shape=[0, 2**62])}),
    "dtype 'I64'": safetensors({"a": entry(0, 16, "I64")}),
    "dtype \\[\\]": safetensors({"a": entry(0, 16, [])}),
    "does not consist": safetensors({"a": {"dtype": "F32"}}),
}


@pytest.mark.parametrize("message", BROKEN)
def test_broken_header_is_refused(tmp_path: Path, message: str) -> None:
    (tmp_path / "model.safetensors").write_bytes(BROKEN[message])
    with pytest.raises(Refused, match=message.strip()):
        reference.read_safetensors(tmp_path / "model.safetensors")


@pytest.mark.parametrize("format", ["safetensors", "bin"])
def test_damage_is_refused_or_harmless(tmp_path: Path, format: str) -> None:
    """Random damage to the header must never end in anything but a refusal or a model that can still be read."""
    small = dict(hidden=4, layers=1, heads=2, kv_heads=1, head_dim=0, intermediate=3, vocab=5)
    path = make(tmp_path, **small, format=format)
    file = path if format == "bin" else path / "model.safetensors"
    whole, rng, refusals = file.read_bytes(), random.Random(1), 0
    for _ in range(400):
        damaged = bytearray(whole)
        damaged[rng.randrange(28 if format == "bin" else 1200)] = rng.randrange(256)
        file.write_bytes(damaged[: rng.choice([len(whole), len(whole), rng.randrange(len(whole))])])
        try:
            load(path)
        except Refused:
            refusals += 1
    assert refusals > 200


def test_broken_index_is_refused(tmp_path: Path) -> None:
    path = make(tmp_path, shards=2)
    index_file = path / "model.safetensors.index.json"
    whole = json.loads(index_file.read_text())["weight_map"]
    first, second = sorted(set(whole.values()))
    for changed, message in (
        (whole | {"model.norm.weight": first}, "model.norm.weight"),
        (whole | {"ghost": first}, "ghost"),
        (whole | {"ghost": "../model.safetensors"}, "not a safetensors file in the folder"),
        (list(whole), "weight_map"),
    ):
        index_file.write_text(json.dumps({"weight_map": changed}))
        with pytest.raises(Refused, match=message):
            load(path)
    # A single file wins over the index, as it does in transformers.
    (path / "model.safetensors").write_bytes((make(tmp_path, seed=2) / "model.safetensors").read_bytes())
    np.testing.assert_array_equal(load(path).logits(TOKENS), load(make(tmp_path, seed=2)).logits(TOKENS))


def test_broken_bin_is_refused(tmp_path: Path) -> None:
    path = make(tmp_path, format="bin", head_dim=0)
    whole = path.read_bytes()
    for data, message in (
        (b"24ka" + whole[4:], "ak42"),
        (whole[:20], "shorter"),
        (whole[:-4], "asks for"),
        (whole + bytes(4), "asks for"),
        (whole[:8] + bytes(4) + whole[12:], "n_layers"),
        (whole[:12] + (5).to_bytes(4, "little") + whole[16:], "n_heads"),
    ):
        path.write_bytes(data)
        with pytest.raises(Refused, match=message):
            load(path)


def test_cache_rounding(tmp_path: Path) -> None:
    ties = np.array([1 + 2.0**-8, 1 + 3 * 2.0**-8, -1 - 2.0**-8 - 2.0**-20, 0.0])
    assert reference.round_cache(ties, "bf16").tolist() == [1.0, 1 + 2.0**-6, -1 - 2.0**-7, 0.0]
    full_nan = np.array([2**63 - 1]).view("<f8")  # Its bits would wrap around to zero if they were rounded.
    assert np.isnan(reference.round_cache(full_nan, "bf16")).all()
    rows = np.array([[[127.0, 0.5, 1.5, -2.5, -126.6]], [[0.0] * 5], [[1.0, 0.5, 0.0, -0.25, 0.1]]])
    rounded = reference.round_cache(rows, "i8")
    assert rounded[0, 0].tolist() == [127, 0, 2, -2, -127] and not rounded[1].any()
    np.testing.assert_allclose(rounded[2, 0] * 127, [127, 64, 0, -32, 13])
    model = load(make(tmp_path))
    exact = model.logits(TOKENS)
    errors = [np.abs(model.logits(TOKENS, cache) - exact).max() for cache in reference.CACHES]
    assert errors[0] == 0 and all(1e-4 < error < 0.3 for error in errors[1:])


def test_perplexity() -> None:
    assert reference.perplexity(np.full((3, 50), 800.0), [1, 2, 3]) == pytest.approx(50)
    assert reference.perplexity(np.log([[1.0, 3.0], [1.0, 1.0]]), [0, 1]) == pytest.approx(4 / 3)
    with pytest.raises(Refused):
        reference.perplexity(np.zeros((1, 5)), [1])


def test_generator_and_repeatability(tmp_path: Path) -> None:
    expected = [6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431]
    assert make_model.splitmix64(1234567, 4).tolist() == expected
    assert make_model.fnv1a64("a") == 0xAF63DC4C8601EC8C
    one, same, other = make(tmp_path, shards=2), make(tmp_path, shards=2), make(tmp_path, shards=2, seed=2)
    names = sorted(file.name for file in one.iterdir())
    assert len(names) == 4 and all((one / name).read_bytes() == (same / name).read_bytes() for name in names)
    assert (one / names[1]).read_bytes() != (other / names[1]).read_bytes()
    tensors = reference.read_folder_tensors(make(tmp_path, architecture="qwen2"))
    assert all((tensor != 1).all() for name, tensor in tensors.items() if "norm" in name)
    assert all(np.abs(tensor).min() > 0 for tensor in tensors.values())
    with pytest.raises(Refused, match="exists already"):
        write_model(one, Options(**TINY))


def test_command_lines(tmp_path: Path) -> None:
    here = Path(__file__).parent

    def run(script: str, *arguments: Any) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-B", str(here / script), *map(str, arguments)]
        return subprocess.run(command, capture_output=True, text=True)

    path, dump = tmp_path / "model", tmp_path / "logits"
    sizes = [f"--{key.replace('_', '-')}={value}" for key, value in TINY.items()]
    assert run("make_model.py", path, *sizes, "--architecture=qwen3", "--tied").returncode == 0
    assert run("reference.py", path, "--tokens", "3,1,4", "--logits", dump).returncode == 0
    np.testing.assert_array_equal(np.fromfile(dump, "<f4").reshape(3, 23), load(path).logits([3, 1, 4]).astype("<f4"))
    output = run("reference.py", path, "--tokens", "3,1,4", "--compare", dump).stdout
    assert float(output.split("max |difference|: ")[1].split(",")[0]) < 1e-6
    assert output.count("perplexity") == 2
    output = run("reference.py", path, "--tokens", "3,1,4", "--compare", dump, "--cache", "i8").stdout
    assert float(output.split("|logit|: ")[1].split()[0]) > 1e-5
    for arguments in (["--tokens", "3,x"], ["--tokens=-1"], ["--tokens", "23"], ["--tokens", "3", "--compare", dump]):
        failed = run("reference.py", path, *arguments)
        assert failed.returncode == 1 and failed.stderr.startswith("reference.py: ")
