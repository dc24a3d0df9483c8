"""Checks of the example decoder in C++ against the float64 reference, and that it refuses what it cannot do.

RAPT_DECODER is the program. What a seeded model proves: every operation of these architectures is computed as their
definition says, in the right order and with the right weights. It does not say how a trained model answers.
"""
from __future__ import annotations

import json
import os
import random
import re
import resource
import struct
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any, Callable

import numpy as np
import pytest

import make_model
import reference
from make_model import Options, write_model
from reference import Model, load, perplexity
from test_reference import REFUSED_CONFIGS, edit_config, entry, safetensors, write_tensors

DECODER = os.environ.get("RAPT_DECODER", "")
pytestmark = pytest.mark.skipif(not DECODER, reason="RAPT_DECODER names no program")
# Long enough for the branches of each scaling of RoPE, and for several chunks.
TOKENS = [(t * t * 7 + 31 * t + 5) % 256 for t in range(60)]
TEXT = ",".join(map(str, TOKENS))


def execute(*arguments: Any) -> subprocess.CompletedProcess[str]:
    """Run the decoder within 2 GB and 60 s."""
    limit = lambda: resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))
    return subprocess.run(
        [DECODER, *map(str, arguments)], capture_output=True, text=True, errors="replace", timeout=60, preexec_fn=limit
    )


def run(*arguments: Any, status: int = 0) -> str:
    """Run the decoder; return what it prints, or its error."""
    done = execute(*arguments)
    assert done.returncode == status, (done.returncode, done.stderr)
    return done.stderr if status else done.stdout


def hashes(*arguments: Any) -> list[str]:
    """The hashes of tokens and logits of every sequence."""
    return re.findall(r"hash +tokens (\w{16}), logits (\w{16})", run(*arguments))


def logits(tmp_path: Path, model: Path, *arguments: Any) -> np.ndarray:
    """The decoder's logits of TOKENS."""
    file = tmp_path / "logits"
    run(model, "--tokens", TEXT, "--generate", 0, "--dump-logits", file, *arguments)
    return reference.read_dump(file, (len(TOKENS), 256))


def relative_error(found: np.ndarray, wanted: np.ndarray) -> float:
    """The largest error, relative to the largest logit of its row."""
    return float((np.abs(found - wanted).max(axis=-1) / np.abs(wanted).max(axis=-1)).max())


def make(tmp_path: Path, **options: Any) -> Path:
    path = tmp_path / "model"
    write_model(path, Options(**{"intermediate": 544, **options}))
    return path


def quantized(model: Model, levels: int) -> Model:
    """The model with the numbers that --weights i8 (127 levels) or i4 (7) stand for."""
    weights = dict(model.weights)
    if model.config.tied:  # The embedding stays as it is, and the head is quantized.
        weights[reference.HEAD] = weights[reference.EMBEDDING]
    for name, stored in weights.items():
        if stored.ndim == 1 or name == reference.EMBEDDING:
            continue
        w = reference.widen(stored).astype(np.float32)
        groups = [w[:, at : at + 32] for at in range(0, w.shape[1], 32)]
        for group in groups:
            m = np.abs(group).max(axis=1, keepdims=True)
            q = np.rint(group * (np.float32(levels) / m))
            group[:] = q * (m / np.float32(levels))
        weights[name] = w
    return Model(replace(model.config, tied=False), weights)


ARCHITECTURES: list[dict[str, Any]] = [
    {},
    {"architecture": "llama", "attention_bias": True, "mlp_bias": True, "rope_scaling": "llama3", "dtype": "f16"},
    {"architecture": "llama", "kv_heads": 4, "rope_scaling": "linear", "dtype": "bf16", "tied": True, "shards": 3},
    {"architecture": "qwen2", "kv_heads": 1, "rope_scaling": "yarn"},
    {"architecture": "qwen3", "head_dim": 24, "rope_scaling": "llama3", "attention_bias": True, "tied": True},
    {"format": "bin"},
    {"format": "bin", "tied": True, "heads": 8},
    {"architecture": "mistral", "window": 8},
    {"architecture": "qwen2", "window": 5, "full_layers": 1, "rope_scaling": "yarn"},
]


# The bounds are two to four times what these models measure.
@pytest.mark.parametrize("options", ARCHITECTURES, ids=str)
@pytest.mark.parametrize("cache, bound", [("f32", 3e-6), ("bf16", 1e-3), ("i8", 5e-3)])
def test_logits_are_the_reference(tmp_path: Path, options: dict[str, Any], cache: str, bound: float) -> None:
    """Caches of 16 and 8 bits may round one element of K or V the other way, which costs one step of the cache."""
    model = make(tmp_path, **options)
    wanted = load(model).logits(TOKENS, cache)
    found = logits(tmp_path, model, "--cache", cache)
    assert relative_error(found, wanted) < bound
    assert perplexity(found, TOKENS) == pytest.approx(perplexity(wanted, TOKENS), rel=10 * bound)


@pytest.mark.parametrize("weights, levels, bound", [("i8", 127, 5e-2), ("i4", 7, 8e-2)])
@pytest.mark.parametrize("tied", [False, True])
def test_quantized_logits_are_the_reference(
    tmp_path: Path, weights: str, levels: int, bound: float, tied: bool
) -> None:
    """In F32 the logits are those of the rounded weights. I8 also rounds the inputs of linear layers."""
    model = make(tmp_path, tied=tied)
    wanted = quantized(load(model), levels).logits(TOKENS)
    assert relative_error(logits(tmp_path, model, "--weights", weights), wanted) < 3e-6
    in_i8 = logits(tmp_path, model, "--weights", weights, "--arithmetic", "i8")
    assert 1e-4 < relative_error(in_i8, wanted) < bound
    assert perplexity(in_i8, TOKENS) == pytest.approx(perplexity(wanted, TOKENS), rel=0.1)


def test_logits_in_bf16(tmp_path: Path) -> None:
    """BF16 rounds the inputs of linear layers to 8 binary digits."""
    model = make(tmp_path, dtype="bf16")
    wanted = load(model).logits(TOKENS)
    found = logits(tmp_path, model, "--arithmetic", "bf16")
    assert 1e-4 < relative_error(found, wanted) < 1.5e-2
    assert perplexity(found, TOKENS) == pytest.approx(perplexity(wanted, TOKENS), rel=0.1)


def without_norm(model: Model, name: str) -> Model:
    return Model(model.config, {k: np.ones_like(v) if k.endswith(name) else v for k, v in model.weights.items()})


def with_config(model: Model, **changes: Any) -> Model:
    return Model(replace(model.config, **changes), model.weights)


MISTAKES: dict[str, Callable[[Model], Model]] = {
    "pairs instead of halves": lambda m: with_config(m, pairs=True),
    "no scaling of RoPE": lambda m: with_config(m, rope=reference.Rope(m.config.rope.theta)),
    "another theta": lambda m: with_config(m, rope=replace(m.config.rope, theta=2e4)),
    "no norm of q and k": lambda m: with_config(m, qk_norm=False),
    "norm of q lost": lambda m: without_norm(m, "q_norm.weight"),
    "norm before attention lost": lambda m: without_norm(m, "input_layernorm.weight"),
    "last norm lost": lambda m: without_norm(m, "model.norm.weight"),
    "eps outside of what is stored": lambda m: with_config(m, eps=1e-3),
    "no biases": lambda m: Model(m.config, {k: v for k, v in m.weights.items() if not k.endswith("bias")}),
    "heads share other keys": lambda m: with_config(m, kv_heads=m.config.heads),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_would_be_seen(tmp_path: Path, mistake: str) -> None:
    """A reference with one mistake differs by far more than the bound, so the decoder has none of them."""
    model = make(tmp_path, architecture="qwen3", head_dim=16, rope_scaling="llama3", attention_bias=True)
    wrong = load(model)
    if mistake == "heads share other keys":
        order = np.arange(wrong.config.heads) % 2  # interleaved instead of consecutive query heads
        weights = dict(wrong.weights)
        for name in list(weights):
            if "k_proj" in name or "v_proj" in name:
                weights[name] = (
                    weights[name]
                    .reshape(2, 16, *weights[name].shape[1:])[order]
                    .reshape(4 * 16, *weights[name].shape[1:])
                )
        wrong = Model(wrong.config, weights)
    wrong = MISTAKES[mistake](wrong)
    assert relative_error(logits(tmp_path, model), wrong.logits(TOKENS)) > 1e-4


@pytest.mark.parametrize("windows", [(0, 0), (0, 4), (0, 6), (5, 5), (5, 0)])
def test_other_windows_would_be_seen(tmp_path: Path, windows: tuple[int, ...]) -> None:
    """The model has the windows 0 and 5."""
    model = make(tmp_path, architecture="qwen3", window=5, full_layers=1)
    wrong = with_config(load(model), windows=windows)
    assert relative_error(logits(tmp_path, model), wrong.logits(TOKENS)) > 1e-4


def test_windows_have_one_answer(tmp_path: Path) -> None:
    model = make(tmp_path, architecture="mistral", window=8)
    one = hashes(model, "--tokens", TEXT)
    for more in (["--chunk", 1], ["--chunk", 7, "--threads", 3], ["--drafts", 4], ["--isa", "scalar"]):
        assert hashes(model, "--tokens", TEXT, *more) == one
    assert hashes(model, "--tokens", "4", "--tokens", TEXT, "--chunk", 9)[1] == one[0]


@pytest.mark.parametrize("type", ["qwen2", "qwen3", "mistral"])
def test_windows_without_a_size(tmp_path: Path, type: str) -> None:
    """transformers' default is 4096."""
    table = make_model.config_table(Options(architecture=type, hidden=8, heads=2, kv_heads=1, intermediate=8, layers=1))
    table |= {"use_sliding_window": True, "max_window_layers": 0, "max_position_embeddings": 5000}
    table.pop("sliding_window", None)

    def answer(changes: dict[str, Any]) -> list[str]:
        (tmp_path / "config.json").write_text(json.dumps(table | changes))
        return hashes("--config", tmp_path / "config.json", "--prompt-length", 4100, "--generate", 0, "--chunk", 0)

    assert answer({}) == answer({"sliding_window": 4096})
    assert len({str(answer({"sliding_window": size})) for size in (4095, 4096, None)}) == 3


@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16"])
def test_seeded_model_is_the_checkpoint(tmp_path: Path, dtype: str) -> None:
    """The decoder makes the same weights from a seed as make_model.py writes."""
    model = make(tmp_path, architecture="qwen3", dtype=dtype, seed=7, attention_bias=True)
    made = hashes("--seed", 7, "--config", model / "config.json", "--tokens", TEXT)
    assert hashes(model, "--tokens", TEXT) == made
    assert hashes("--seed", 8, "--config", model / "config.json", "--tokens", TEXT) != made


def test_one_answer() -> None:
    """OpenMP's threads, chunks, drafts and a batch leave the hashes of the program as they are."""
    one = hashes("--tokens", "1,2,3,4,5,6,7,8,9")
    assert one == hashes("--tokens", "1,2,3,4,5,6,7,8,9", "--threads", 3, "--chunk", 2, "--drafts", 3)
    assert one[0] == hashes("--tokens", "4", "--tokens", "1,2,3,4,5,6,7,8,9", "--threads", 2)[1]
    assert hashes("--isa", "scalar", "--tokens", "1,2,3,4,5,6,7,8,9") == one


def test_published_hashes() -> None:
    """The manual's table has the hashes that rapt-validate compares with."""
    root = Path(__file__).parents[2]
    text = (root / "tests/validate/short_models.cpp").read_text()
    rows = re.findall(r'{"([^"]+)", "\w+", [^{}]*?0x(\w{16}),\s+0x(\w{16})}', text)
    table = re.findall(
        r"^\| ([^|]+) \| `(\w{16})` \| `(\w{16})` \|$", (root / "src/manual/decoder.md").read_text(), re.M
    )
    assert len(rows) == 9 and table == rows


def test_end_of_a_text(tmp_path: Path) -> None:
    model = make(tmp_path)
    new = run(model, "--tokens", "1,2").splitlines()[0].split("| ")[1].split(",")
    assert len(new) == 32
    edit_config(model, {"eos_token_id": [int(new[5]), 9999]})
    cut = run(model, "--tokens", "1,2").splitlines()[0].split("| ")[1].split(",")
    assert cut == new[: new.index(new[5]) + 1]
    assert run(model, "--tokens", "1,2", "--ignore-eos").splitlines()[0].endswith(",".join(new))


def test_end_of_the_positions(tmp_path: Path) -> None:
    """A text ends with the positions of its model, and the program says so. The others of a batch go on."""
    model, prompt = make(tmp_path), ",".join(map(str, [t % 256 for t in range(250)]))
    edit_config(model, {"max_position_embeddings": 256})
    text = run(model, "--tokens", prompt)
    assert len(text.splitlines()[0].split("| ")[1].split(",")) == 6 and "the model has 256 positions" in text
    assert "positions" not in run(model, "--tokens", prompt, "--generate", 6)
    for more in (["--drafts", 9], ["--chunk", 100, "--generate", 2**24]):
        assert run(model, "--tokens", prompt, *more).splitlines()[:2] == text.splitlines()[:2]
    both = run(model, "--tokens", prompt, "--tokens", "1")
    assert both.count("positions") == 1 and len(both.split("tokens ")[3].split("| ")[1].split(",")) == 32
    whole = run(model, "--prompt-length", 256)
    assert "|" not in whole.splitlines()[0] and "the model has 256 positions" in whole
    assert "256 positions" in run(model, "--prompt-length", 257, "--generate", 0, status=1)


def test_last_logits(tmp_path: Path) -> None:
    """Those of the prompt's last token, and their hash, whatever the chunks are."""
    model = make(tmp_path)
    every, last = logits(tmp_path, model), tmp_path / "last"
    run(model, "--tokens", TEXT, "--generate", 0, "--chunk", 25, "--last-logits", "--dump-logits", last)
    np.testing.assert_array_equal(reference.read_dump(last, (1, 256)), every[[59]])
    found = [hashes(model, "--tokens", TEXT, "--last-logits", "--chunk", chunk) for chunk in (0, 1, 7, 59, 60, 256)]
    assert all(one == found[0] for one in found) and found[0] != hashes(model, "--tokens", TEXT)
    both = hashes(model, "--tokens", TEXT, "--tokens", "1,2,3", "--last-logits", "--chunk", 2)
    assert both[0] == found[0][0]


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_logits_that_are_nan(tmp_path: Path, value: float) -> None:
    """A sentence and a status. An infinite weight makes NaN where it meets a 0 or another infinity."""
    model = make(tmp_path)
    tensors = dict(reference.read_folder_tensors(model))
    norm = tensors["model.norm.weight"].copy()
    norm[3:5] = value
    write_tensors(model, tensors | {"model.norm.weight": norm})
    for more in ([], ["--generate", 0], ["--chunk", 2, "--last-logits"]):
        error = run(model, "--tokens", "1,2,3", *more, status=1)
        assert "NaN" in error and error.count("\n") == 1


@pytest.mark.parametrize("arguments", [["--tokens", "1"], ["--help"]])
def test_output_that_cannot_be_written(arguments: list[str]) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run([DECODER, *arguments], stdout=full, stderr=subprocess.PIPE, text=True, timeout=60)
    assert done.returncode == 1 and done.stderr == "decoder: the output cannot be written\n"


def tokenizer_file(path: Path, pieces: list[tuple[str, float]]) -> Path:
    data = struct.pack("<i", 8)
    for text, score in pieces:
        data += struct.pack("<fi", score, len(text.encode())) + text.encode()
    path.write_bytes(data)
    return path


def pieces_of_256() -> list[tuple[str, float]]:
    special = [("<unk>", 0.0), ("\n<s>\n", 0.0), ("\n</s>\n", 0.0)]
    merged = [(" ", -9), ("a", -9), ("b", -9), (" a", -2), ("ab", -1), ("aba", -3), ("é", -9)]
    pieces = special + [(f"<0x{byte:02X}>", 0.0) for byte in range(246)] + merged
    return pieces


@pytest.mark.parametrize(
    "text, tokens",
    [
        # " abab": the best pair is "ab", twice, and then nothing merges but " " with nothing.
        ("abab", [1, 249, 253, 253]),
        ("a", [1, 252]),
        ("é", [1, 249, 255]),
        ("c", [1, 249, 3 + ord("c")]),
        ("", [1]),
    ],
)
def test_tokenizer(tmp_path: Path, text: str, tokens: list[int]) -> None:
    """By hand: a space before the text, characters or their bytes, then the pair with the best score first."""
    model = make(tmp_path, format="bin")
    file = tokenizer_file(tmp_path / "tokenizer.bin", pieces_of_256())
    out = run(model, "--tokenizer", file, "--prompt", text, "--generate", 0)
    assert out.splitlines()[0].split()[1:] == [",".join(map(str, tokens))]
    assert out.splitlines()[1].removeprefix("text").strip() == text.strip()


# ---- refusals


@pytest.mark.parametrize("changes, named", REFUSED_CONFIGS, ids=lambda value: str(value)[:40])
def test_config_is_refused(tmp_path: Path, changes: dict[str, Any], named: str) -> None:
    model = tmp_path / "model"
    write_model(model, Options(hidden=12, layers=2, heads=6, kv_heads=2, head_dim=4, intermediate=10, vocab=23))
    run(model, "--tokens", "1", "--generate", 0)
    edit_config(model, changes)
    error = run(model, "--tokens", "1", status=1)
    # A type of scaling is named with its key.
    assert any(word in error for word in re.findall(r"[\w.]+", named)), error
    assert error.startswith("decoder: ") and error.count("\n") == 1


def test_unknown_keys_are_refused(tmp_path: Path) -> None:
    """Nobody knows whether they change the result, so the user says so. One message has all of them."""
    model = make(tmp_path, rope_scaling="yarn")
    wanted = hashes(model, "--tokens", "1")
    scaling = make_model.SCALINGS["yarn"] or {}
    edit_config(
        model, {"logit_softcap": 30.0, "use_cache": True, "another": [], "rope_scaling": scaling | {"mscale": 1}}
    )
    error = run(model, "--tokens", "1", status=1)
    assert "another, logit_softcap" in error and "rope_scaling.mscale" in error and "--ignore-key" in error
    ignored = ["--ignore-key", "logit_softcap", "--ignore-key", "another"]
    assert "another" not in run(model, "--tokens", "1", *ignored, status=1)
    assert hashes(model, "--tokens", "1", *ignored, "--ignore-key", "rope_scaling.mscale") == wanted
    edit_config(model, {f"{'k' * 500}{i}": i for i in range(1000)})
    error = run(model, "--tokens", "1", status=1)
    assert "987 more" in error and len(error) < 2500


# What transformers 4 and 5 add to the keys of every model, some as null or as a default.
WRITTEN_BY_TRANSFORMERS: dict[str, Any] = {
    "_attn_implementation_autoset": True,
    "_commit_hash": None,
    "_name_or_path": "a/b",
    "add_cross_attention": False,
    "architectures": ["LlamaForCausalLM"],
    "attention_dropout": 0.0,
    "bad_words_ids": None,
    "base_model_tp_plan": {"layers.*.mlp.up_proj": "colwise"},
    "begin_suppress_tokens": None,
    "chunk_size_feed_forward": 0,
    "cross_attention_hidden_size": None,
    "decoder_start_token_id": None,
    "diversity_penalty": 0.0,
    "do_sample": True,
    "early_stopping": False,
    "encoder_no_repeat_ngram_size": 0,
    "exponential_decay_length_penalty": None,
    "finetuning_task": None,
    "forced_bos_token_id": None,
    "forced_eos_token_id": None,
    "id2label": {"0": "LABEL_0"},
    "initializer_range": 0.02,
    "is_decoder": False,
    "is_encoder_decoder": False,
    "label2id": {"LABEL_0": 0},
    "length_penalty": 1.0,
    "max_length": 20,
    "min_length": 0,
    "no_repeat_ngram_size": 0,
    "num_beam_groups": 1,
    "num_beams": 1,
    "num_labels": 2,
    "num_return_sequences": 1,
    "output_attentions": False,
    "output_hidden_states": False,
    "output_scores": False,
    "prefix": None,
    "problem_type": None,
    "pruned_heads": {},
    "remove_invalid_values": False,
    "repetition_penalty": 1.0,
    "return_dict": True,
    "return_dict_in_generate": False,
    "sep_token_id": None,
    "suppress_tokens": None,
    "task_specific_params": None,
    "temperature": 0.7,
    "tf_legacy_loss": False,
    "tie_encoder_decoder": False,
    "tokenizer_class": "LlamaTokenizer",
    "top_k": 20,
    "top_p": 0.8,
    "torchscript": False,
    "transformers_version": "4.57.1",
    "typical_p": 1.0,
    "use_bfloat16": False,
}
# Other values of these make another model, or greedy decoding choose other tokens.
OTHER_MODELS: dict[str, Any] = {
    "add_cross_attention": True,
    "bad_words_ids": [[1]],
    "begin_suppress_tokens": [1],
    "cross_attention_hidden_size": 8,
    "encoder_no_repeat_ngram_size": 2,
    "encoder_repetition_penalty": 1.1,
    "exponential_decay_length_penalty": [1, 1.1],
    "forced_bos_token_id": 1,
    "forced_eos_token_id": 1,
    "is_encoder_decoder": True,
    "min_length": 1,
    "no_repeat_ngram_size": 2,
    "per_layer_config": {"0": {"num_attention_heads": 1}},
    "prefix": "Once",
    "pruned_heads": {"0": [1]},
    "repetition_penalty": 1.1,
    "suppress_tokens": [1],
    "tie_encoder_decoder": True,
}


def test_keys_that_transformers_writes(tmp_path: Path) -> None:
    model = make(tmp_path)
    wanted = hashes(model, "--tokens", "1")
    edit_config(model, WRITTEN_BY_TRANSFORMERS)
    assert hashes(model, "--tokens", "1") == wanted
    for key, value in OTHER_MODELS.items():
        edit_config(model, WRITTEN_BY_TRANSFORMERS | {key: value})
        assert f"config.json: {key} is supported only as" in run(model, "--tokens", "1", status=1)
        edit_config(model, {key: WRITTEN_BY_TRANSFORMERS.get(key)})


def nested(levels: int) -> str:
    return "[" * levels + "]" * levels


@pytest.mark.parametrize("key", ["architectures", "hidden_act", "rope_scaling", "eos_token_id", "hidden_size", "other"])
def test_deep_nesting_is_refused(tmp_path: Path, key: str) -> None:
    """config.json itself is one of 64 levels."""
    model = make(tmp_path)
    table = json.loads((model / "config.json").read_text())
    for levels in (64, 1000, 1000000):
        text = json.dumps(table | {key: "HERE"}).replace('"HERE"', nested(levels))
        (model / "config.json").write_text(text)
        error = run(model, "--tokens", "1", status=1)
        assert error == "decoder: config.json has more than 64 levels of objects and arrays\n"
    (model / "config.json").write_text(text.replace(nested(levels), nested(63)))
    if key == "architectures":
        run(model, "--tokens", "1")
    else:
        assert key in run(model, "--tokens", "1", status=1)


@pytest.mark.parametrize(
    "value",
    ["x" * 1000000, ["\n\u0007é"] * 100000, {"k" * 1000000: 1}, 10**300],
    ids=["text", "list", "key", "number"],
)
def test_long_values_are_cut(tmp_path: Path, value: Any) -> None:
    model = make(tmp_path)
    edit_config(model, {"hidden_size": value})
    error = run(model, "--tokens", "1", status=1)
    assert error.startswith("decoder: config.json") and len(error) < 400 and error.count("\n") == 1
    edit_config(model, {"hidden_size": 64, "a\nb" + "k" * 1000000: value if not isinstance(value, int) else 1})
    error = run(model, "--tokens", "1", status=1)
    assert "a?bkkk" in error and len(error) < 400 and error.count("\n") == 1
    (model / "model.safetensors").write_bytes(safetensors({"a\n" + "k" * 1000000: entry(0, 16, shape=[4])}))
    edit_config(model, {})
    error = run(model, "--tokens", "1", "--ignore-key", "a\nb" + "k" * 100, status=1)
    assert len(error) < 400 and error.count("\n") == 1


# Numbers that fit no key, or only some.
STRANGE = [None, True, "1", [[]], {}, -1, 0, 1, 3, 2**24 + 1, 2**64, 1e30, 0.5, 1e-42, 1e-20, 1e29]


@pytest.mark.parametrize("architecture, scaling", [("mistral", "llama3"), ("qwen3", "yarn")])
def test_sentences_name_the_key(tmp_path: Path, architecture: str, scaling: str) -> None:
    """A strange value of any key runs, or the sentence names a key or a tensor."""
    sizes = dict(hidden=8, layers=1, heads=2, kv_heads=1, head_dim=4, intermediate=8, vocab=16)
    table = make_model.config_table(Options(architecture=architecture, rope_scaling=scaling, window=3, **sizes))
    scalings = table["rope_scaling"]
    places = [
        (key, lambda v, key=key: table | {key: v}) for key in table if key not in ("architectures", "torch_dtype")
    ]
    more = ["beta_fast", "beta_slow", "attention_factor", "truncate"] if scaling == "yarn" else []
    for key in [*scalings, *more]:
        places.append((key, lambda v, key=key: table | {"rope_scaling": scalings | {key: v}}))
    refused = 0
    for key, change in places:
        for value in STRANGE:
            (tmp_path / "config.json").write_text(json.dumps(change(value)))
            done = execute("--config", tmp_path / "config.json", "--tokens", "0", "--generate", 1)
            if done.returncode == 0:
                continue
            refused += 1
            named = re.match(r"decoder: (config\.json: .*\b(\w+)|model\.|lm_head\.)", done.stderr)
            other = "the model does not fit the memory" in done.stderr or "is NaN" in done.stderr
            assert done.returncode == 1 and done.stderr.count("\n") == 1, (key, value, done.stderr)
            assert named or other, (key, value, done.stderr)
            if named and done.stderr.startswith("decoder: config.json"):
                related = {"num_attention_heads": "head", "num_key_value_heads": "head", "hidden_size": "head"}
                assert key in done.stderr or related.get(key, key) in done.stderr, (key, value, done.stderr)
    assert refused > 150


INV_FREQ = "model.layers.1.self_attn.rotary_emb.inv_freq"


def tied_tensors(tmp_path: Path, scaling: str = "none") -> tuple[Path, dict[str, np.ndarray]]:
    """A tied model that repeats its embedding as the head, and has the frequencies of RoPE."""
    model = make(tmp_path, tied=True, rope_scaling=scaling)
    tensors = dict(reference.read_folder_tensors(model))
    tensors[reference.HEAD] = tensors[reference.EMBEDDING]
    tensors[INV_FREQ] = load(model).frequencies.astype("<f4")
    write_tensors(model, tensors)
    return model, tensors


def test_every_tensor_is_used_or_equal_or_refused(tmp_path: Path) -> None:
    """Each tensor of a file in turn has other numbers: the logits are others, or the tensor is refused by name."""
    model, tensors = tied_tensors(tmp_path)
    wanted, refused = hashes(model, "--tokens", "1,2,3"), []
    for name in tensors:
        write_tensors(model, tensors | {name: tensors[name] * np.float32(1.5)})
        done = execute(model, "--tokens", "1,2,3")
        if done.returncode:
            assert name in done.stderr, (name, done.stderr)
            refused.append(name)
        else:
            assert re.findall(r"hash +tokens (\w{16}), logits (\w{16})", done.stdout) != wanted, name
    assert sorted(refused) == sorted([INV_FREQ, reference.HEAD, reference.EMBEDDING])


def test_a_repeated_head_may_have_another_type(tmp_path: Path) -> None:
    """The numbers count: a seed's are exact in each type."""
    model, tensors = tied_tensors(tmp_path)
    wanted, head = hashes(model, "--tokens", "1,2,3"), tensors.pop(reference.HEAD)
    write_tensors(model, tensors)
    assert hashes(model, "--tokens", "1,2,3") == wanted
    (model / "model.safetensors").rename(model / "a.safetensors")
    (model / "b.safetensors").write_bytes(make_model.safetensors_bytes({reference.HEAD: head}, "f16"))
    files = dict.fromkeys(tensors, "a.safetensors") | {reference.HEAD: "b.safetensors"}
    (model / "model.safetensors.index.json").write_text(json.dumps({"weight_map": files}))
    assert hashes(model, "--tokens", "1,2,3") == wanted
    (model / "b.safetensors").write_bytes(make_model.safetensors_bytes({reference.HEAD: head.T}, "f16"))
    assert "lm_head.weight has another shape" in run(model, "--tokens", "1", status=1)


@pytest.mark.parametrize("scaling", ["none", "linear", "llama3", "yarn"])
@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16"])
def test_stored_frequencies(tmp_path: Path, scaling: str, dtype: str) -> None:
    """Rounded to the type of the weights, scaled or not, as versions of transformers have stored them."""
    model, tensors = tied_tensors(tmp_path, scaling)
    table = reference.Rope(1e4).frequencies(16)
    stored = {"f32": table.astype("<f4"), "f16": table.astype("<f2"), "bf16": reference.round_cache(table, "bf16")}[
        dtype
    ]
    write_tensors(model, tensors | {INV_FREQ: stored.astype("<f4")})
    run(model, "--tokens", "1")
    for wrong in (reference.Rope(2e4).frequencies(16), table * 1.01, -table, table * np.nan):
        write_tensors(model, tensors | {INV_FREQ: wrong.astype("<f4")})
        assert INV_FREQ in run(model, "--tokens", "1", status=1)


@pytest.mark.parametrize("tied", [False, True])
def test_every_block_of_a_bin_is_used_or_refused(tmp_path: Path, tied: bool) -> None:
    path = make(tmp_path, format="bin", tied=tied)
    model, whole = load(path), path.read_bytes()
    table = make_model.MAX_POSITIONS * model.config.head_dim // 2
    blocks = [(reference.EMBEDDING, 256 * 64)]
    for block in reference.BIN_LAYER_ORDER:
        blocks += [(f"{block} {n}", model.weights[f"model.layers.{n}.{block}.weight"].size) for n in range(2)]
    blocks += [("model.norm", 64), ("freq_cis_real", table), ("freq_cis_imag", table)]
    blocks += [] if tied else [("lm_head", 256 * 64)]
    wanted, at = hashes(path, "--tokens", "1,2,3"), 28
    for name, size in blocks:
        values = np.frombuffer(whole, "<f4", size, at) * np.float32(1.5)
        path.write_bytes(whole[:at] + values.tobytes() + whole[at + 4 * size :])
        if name.startswith("freq"):
            assert name in run(path, "--tokens", "1,2,3", status=1)
        else:
            assert hashes(path, "--tokens", "1,2,3") != wanted, name
        at += 4 * size
    assert at == len(whole)


BROKEN = {
    "shorter": b"\0\0\0",
    "ends within its header": safetensors({}, length=2**63),
    "not JSON": safetensors(b"{"),
    "64 levels": safetensors(b"[" * 100000),
    "not a JSON object": safetensors(b"[]"),
    "twice": safetensors(b'{"a":{},"a":{}}'),
    "overlap": safetensors({"a": entry(0, 8), "b": entry(4, 12)}),
    "gap": safetensors({"a": entry(0, 8), "b": entry(12, 20)}, bytes(20)),
    "bytes after": safetensors({"a": entry(0, 8)}),
    "outside": safetensors({"a": entry(8, 24, shape=[4])}),
    "outside ": safetensors({"a": entry(8, 0)}),
    "unsigned integer": safetensors({"a": entry(-8, 0)}),
    "unsigned integer ": safetensors({"a": entry(0, 16, shape=[2.0])}),
    "does not consist": safetensors({"a": {"dtype": "F32"}}),
    "does not consist ": safetensors({"a": entry(0, 16, [])}),
    "a is not a tensor": safetensors({"a": entry(0, 16, shape=[4])}),
}


@pytest.mark.parametrize("message", BROKEN)
def test_broken_header_is_refused(tmp_path: Path, message: str) -> None:
    model = make(tmp_path)
    (model / "model.safetensors").write_bytes(BROKEN[message])
    assert message.strip() in run(model, "--tokens", "1", status=1)


def test_types_and_shapes_are_refused(tmp_path: Path) -> None:
    model = make(tmp_path)
    file = model / "model.safetensors"
    whole = file.read_bytes()
    for old, new, named in (
        (b'"dtype":"F32","shape":[256,64]', b'"dtype":"I32","shape":[256,64]', "I32"),
        (b'"shape":[256,64]', b'"shape":[64,256]', "embed_tokens"),
        (b'"dtype":"F32","shape":[256,64]', b'"dtype":"F16","shape":[256,64]', "number of bytes"),
        (b"model.norm.weight", b"model.morn.weight", "model.norm.weight"),
    ):
        assert old in whole
        file.write_bytes(whole.replace(old, new, 1))
        assert named in run(model, "--tokens", "1", status=1).replace("morn", "norm")


def test_broken_index_is_refused(tmp_path: Path) -> None:
    model = make(tmp_path, shards=2)
    index = model / "model.safetensors.index.json"
    whole = json.loads(index.read_text())["weight_map"]
    first = sorted(set(whole.values()))[0]
    for changed, message in (
        (whole | {"model.norm.weight": first}, "model.norm.weight"),
        (whole | {"ghost": first}, "ghost"),
        (whole | {"ghost": "../model.safetensors"}, "not in the folder"),
        (whole | {"ghost": 3}, "ghost"),
        (list(whole), "weight_map"),
        ({k: v for k, v in whole.items() if "norm" not in k}, "does not have all tensors"),
    ):
        index.write_text(json.dumps({"weight_map": changed}))
        assert message in run(model, "--tokens", "1", status=1)


def test_broken_bin_is_refused(tmp_path: Path) -> None:
    path = make(tmp_path, format="bin")
    whole = path.read_bytes()
    for data, message in (
        (b"24ka" + whole[4:], "ak42"),
        (whole[:20], "shorter"),
        (whole[:-4], "shorter"),
        (whole + bytes(4), "longer"),
        (whole[:8] + bytes(4) + whole[12:], "n_layers"),
        (whole[:12] + struct.pack("<i", 5) + whole[16:], "n_heads"),
        (whole[:20] + struct.pack("<i", -(2**31)) + whole[24:], "vocab_size"),
    ):
        path.write_bytes(data)
        assert message in run(path, "--tokens", "1", status=1)


def test_command_line_is_refused(tmp_path: Path) -> None:
    model = make(tmp_path)
    for arguments, message in (
        (["--tokens", "1,x"], "--tokens"),
        (["--tokens", "1,"], "--tokens"),
        (["--tokens", ",1"], "--tokens"),
        (["--tokens=-1"], "--tokens"),
        (["--tokens", "256"], "256"),
        (["--tokens", ""], "no tokens"),
        (["--prompt-length", 2000], "1024 positions"),
        (["--prompt", "hello"], "--tokenizer"),
        (["--isa", "sse9"], "sse9"),
        (["--arithmetic", "bf16"], "bf16"),
        (["--arithmetic", "i8"], "i8"),
        (["--weights", "i8", "--arithmetic", "bf16"], "bf16"),
        (["--dump-logits", tmp_path / "no" / "file"], "cannot be written"),
        (["--tokenizer", tmp_path / "none"], "none"),
        (["--config", model / "config.json"], "--config"),
    ):
        assert message in run(model, *arguments, status=1)
    assert "nothing cannot be read" in run(tmp_path / "nothing", status=1)
    assert "--cache" in run(model, "--cache", "f64", status=105)


# The least and the largest value of each number.
NUMBERS = {
    "--seed": (0, 2**64 - 1),
    "--prompt-length": (0, 2**24),
    "--generate": (0, 2**24),
    "--chunk": (0, 2**24),
    "--drafts": (0, 2**24),
    "--threads": (1, 1024),
}


@pytest.mark.parametrize("option", NUMBERS)
def test_numbers_have_a_range(option: str) -> None:
    least, most = NUMBERS[option]
    assert re.search(rf"{option} {least} to {most}\b", run("--help"))
    wrong = [
        least - 1,
        -1,
        most + 1,
        2**64,
        2**64 + least,
        -(2**64) + 1,
        "",
        "x",
        "1.5",
        "1e1",
        "0x3",
        "+1",
        " 1",
        "1 ",
    ]
    for value in wrong:
        error = run("--tokens", "1", option, value, status=105)
        assert option in error and f"{least} to {most}" in error, (value, error)
    if option not in ("--generate", "--prompt-length"):
        run("--tokens", "1", "--generate", 1, option, most if option != "--threads" else 3)


def test_numbers_are_decimal() -> None:
    assert len(run("--tokens", "1", "--generate", "010").splitlines()[0].split("| ")[1].split(",")) == 10


def test_special_files_are_refused(tmp_path: Path) -> None:
    """A pipe would wait for a writer."""
    model, pipe = make(tmp_path, shards=2), tmp_path / "pipe"
    os.mkfifo(pipe)
    for arguments in (
        [pipe],
        [tmp_path / "/dev/zero"],
        ["--config", pipe],
        ["--config", tmp_path],
        [model, "--tokenizer", pipe],
        [model, "--tokenizer", "/dev/null"],
    ):
        error = run(*arguments, status=1)
        assert f"{arguments[-1]} is not a regular file" in error, error
    for name in ("config.json", "model.safetensors.index.json", "model-00002-of-00002.safetensors"):
        (model / name).rename(tmp_path / "kept")
        os.mkfifo(model / name)
        assert f"{name} is not a regular file" in run(model, status=1)
        (model / name).unlink()
        (tmp_path / "kept").rename(model / name)
    run(model, "--tokens", "1")


@pytest.mark.parametrize(
    "start, format",
    [
        (b"GGUF\3\0\0\0", "GGUF"),
        (b"lmgg", "ggml"),
        (b"tjgg\3", "ggml"),
        (b"PK\3\4", "PyTorch"),
        (b"\x80\2\x8a", "PyTorch"),
        (b"\x89HDF\r\n", "HDF5"),
        (safetensors({"a": entry(0, 16)}), "safetensors"),
    ],
)
def test_other_formats_are_named(tmp_path: Path, start: bytes, format: str) -> None:
    for length in (len(start), 100000):
        (tmp_path / "model.x").write_bytes(start + bytes(length - len(start)))
        error = run(tmp_path / "model.x", status=1)
        assert format in error and "model.x" in error


def test_a_folder_without_weights_is_refused(tmp_path: Path) -> None:
    model = make(tmp_path)
    (model / "model.safetensors").rename(model / "pytorch_model.bin")
    assert "neither model.safetensors nor" in run(model, status=1)


@pytest.mark.parametrize("file", ["config.json", "model.safetensors", "model.bin", "tokenizer.bin"])
def test_damaged_files_do_no_harm(tmp_path: Path, file: str) -> None:
    """Bytes changed, cut off and repeated: the program runs, or refuses the file in one sentence."""
    small = dict(hidden=4, layers=1, heads=2, kv_heads=1, head_dim=0, intermediate=3, vocab=256)
    model = tmp_path / ("model.bin" if file.endswith(".bin") else "model")
    write_model(model, Options(**small, format="bin" if file.endswith(".bin") else "safetensors"))
    tokenizer = tokenizer_file(tmp_path / "tokenizer.bin", pieces_of_256())
    path = {"model.bin": model, "tokenizer.bin": tokenizer}.get(file, model / file)
    whole, rng, refused = path.read_bytes(), random.Random(1), 0
    for _ in range(150):
        data = bytearray(whole)
        for _ in range(rng.randrange(1, 4)):
            at = rng.randrange(min(len(data), 28 if file == "model.bin" else 1200))
            data[at : at + rng.randrange(2)] = rng.choice(
                [b"", b"\xff", b"9", b'"', b"[" * 9, bytes([rng.randrange(256)])]
            )
        path.write_bytes(data[: rng.choice([len(data), len(data), rng.randrange(len(data))])])
        more = ["--tokenizer", tokenizer, "--prompt", "ab"] if file == "tokenizer.bin" else ["--tokens", "1"]
        done = execute(model, *more, "--generate", 1)
        assert done.returncode in (0, 1), (done.returncode, done.stderr)
        if done.returncode:
            refused += 1
            assert done.stderr.startswith("decoder: ") and done.stderr.count("\n") == 1, done.stderr
    assert refused > 75
