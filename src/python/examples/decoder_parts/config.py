"""Says what a model is: the config.json of a Llama, Qwen or GPT-2 checkpoint, checked key by key."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Literal

# No size that a checkpoint names is larger, so that the product of two sizes fits 64 bits.
LARGEST_SIZE = 1 << 24


class Refused(Exception):
    """The input is broken, or asks for what this decoder does not do. The text names the key or the tensor."""


@dataclass
class Config:
    hidden: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    intermediate: int
    vocab: int
    eps: float
    tied: bool  # the embedding is the head, too
    is_gpt2: bool = False  # layer norms, positions from a table, GELU
    max_positions: int = 0  # 0: the checkpoint does not say
    qk_norm: bool = False  # every head of q and k has a norm before RoPE
    qkv_bias: bool = False
    o_bias: bool = False
    mlp_bias: bool = False
    dtype: str = "f32"  # of weights that are made from a seed
    rope_layout: Literal["halves", "pairs"] = "halves"
    rope: dict[str, Any] = field(default_factory=dict)  # the arguments of rapt.rope_frequencies
    eos: list[int] = field(default_factory=list)


# The model that is made if there is no checkpoint. It is small, and has grouped queries, norms of q and k, biases, and RoPE
# scaled as in Llama 3.
SMALL_CONFIG = b"""{
  "model_type": "qwen3", "dtype": "float32", "attention_bias": true, "tie_word_embeddings": false,
  "hidden_size": 192, "num_hidden_layers": 3, "intermediate_size": 544, "vocab_size": 1000,
  "num_attention_heads": 6, "num_key_value_heads": 2, "head_dim": 64,
  "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "max_position_embeddings": 4096,
  "rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                   "original_max_position_embeddings": 256}
}"""

# These keys change no logit of a model that is only evaluated.
HARMLESS = """_name_or_path architectures attention_dropout auto_map bos_token_id id2label initializer_range is_llama_config
label2id max_window_layers output_attentions output_hidden_states pad_token_id pretraining_tp problem_type return_dict
sliding_window transformers.js_config transformers_version unsloth_fixed unsloth_version use_cache""".split()
# And these of GPT-2: dropouts, a summary for classifiers, and an old name of n_positions.
HARMLESS_IN_GPT2 = """attn_pdrop embd_pdrop resid_pdrop gradient_checkpointing n_ctx output_past summary_activation
summary_first_dropout summary_proj_to_labels summary_type summary_use_proj task_specific_params""".split()


def parse_json(data: bytes, what: str) -> dict[str, Any]:
    """A JSON object. A repeated key would leave open what it means, and NaN is no JSON: both are refused."""

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        seen: dict[str, Any] = {}
        for key, value in pairs:
            if key in seen:
                raise Refused(f"{what} has the key {key} twice")
            seen[key] = value
        return seen

    def no_constant(text: str) -> None:
        raise ValueError(f"{text} is no number of JSON")

    try:
        parsed = json.loads(data.decode("utf-8"), object_pairs_hook=unique, parse_constant=no_constant)
    except (ValueError, RecursionError) as error:
        raise Refused(f"{what} is not JSON: {error}") from None
    if not isinstance(parsed, dict):
        raise Refused(f"{what} is not a JSON object")
    return parsed


class Keys:
    """The keys of an object. It knows which of them nobody asked for."""

    def __init__(self, table: dict[str, Any], of: str) -> None:
        self.table, self.of = table, of
        self._asked: set[str] = set()

    def __contains__(self, key: str) -> bool:
        return key in self.table

    def find(self, key: str) -> Any:
        """The value. null counts as absent, and both are None."""
        self._asked.add(key)
        return self.table.get(key)

    def size(self, key: str, absent: int | None = None) -> int:
        value = self.find(key)
        if value is None and absent is not None:
            return absent
        if type(value) is not int or not 1 <= value <= LARGEST_SIZE:
            raise self.refused(key, "must be an integer from 1 to 2^24")
        return value

    def number(self, key: str, absent: float | None = None) -> float:
        value = self.find(key)
        if value is None and absent is not None:
            return absent
        if type(value) not in (int, float) or not 0 < value < 1e30:
            raise self.refused(key, "must be a positive number")
        return float(value)

    def flag(self, key: str, absent: bool = False) -> bool:
        value = self.find(key)
        if value is None:
            return absent
        if type(value) is not bool:
            raise self.refused(key, "must be true or false")
        return value

    def text(self, key: str, absent: str) -> str:
        value = self.find(key)
        if value is None:
            return absent
        if type(value) is not str:
            raise self.refused(key, "must be a string")
        return value

    def only(self, key: str, supported: Any) -> None:
        """Refuses every value of the key but one. To Python true is 1, but not to JSON."""
        value = self.find(key)
        if value is not None and (value != supported or isinstance(value, bool) != isinstance(supported, bool)):
            raise self.refused(key, f"is supported only as {json.dumps(supported)}")

    def refused(self, key: str, why: str) -> Refused:
        value = json.dumps(self.table[key]) if key in self.table else "absent"
        return Refused(f"{self.of}: {key} {why}; it is {value}")

    def refuse_others(self, known: list[str]) -> None:
        unknown = [key for key in self.table if key not in self._asked and key not in known]
        if unknown:
            raise Refused(f"{self.of}: not known here, and may change the logits: {', '.join(unknown)}")


def _rope(keys: Keys, head_dim: int) -> dict[str, Any]:
    parameters, scaling = keys.find("rope_parameters"), keys.find("rope_scaling")
    if parameters is not None and scaling is not None:
        raise Refused("config.json: rope_parameters and rope_scaling are both given")
    table = parameters if parameters is not None else scaling if scaling is not None else {}
    if not isinstance(table, dict):
        raise Refused("config.json: rope_scaling or rope_parameters is not an object")
    rope = Keys(table, "config.json: " + ("rope_scaling" if parameters is None else "rope_parameters"))
    keys.only("partial_rotary_factor", 1)
    rope.only("partial_rotary_factor", 1)
    keys.only("rope_interleaved", False)

    base = rope.number("rope_theta", keys.number("rope_theta", 10000.0))
    if base <= 1:
        raise (rope if "rope_theta" in rope else keys).refused("rope_theta", "must be above 1")
    kind = rope.text("rope_type", rope.text("type", "default"))
    result: dict[str, Any] = {"rotary_dim": head_dim, "base": base, "rope_type": kind}
    if kind in ("linear", "llama3", "yarn"):
        result["factor"] = rope.number("factor")
    elif kind != "default":
        raise rope.refused("rope_type" if "rope_type" in rope else "type", "is not supported")
    elif "factor" in rope:
        raise Refused("config.json: a scaling of RoPE has no rope_type")
    if kind in ("llama3", "yarn"):
        # Versions of transformers differ about a value outside that is not the one inside.
        key = "original_max_position_embeddings"
        outside = keys.find(key) is not None and keys.size(key)
        inside = rope.size(key) if rope.find(key) is not None else keys.size("max_position_embeddings")
        if outside and outside != inside:
            raise keys.refused(key, "differs from that of the scaling")
        result[key] = inside
    if kind == "llama3":
        result |= {key: rope.number(key) for key in ("low_freq_factor", "high_freq_factor")}
    if kind == "yarn":
        result |= {key: rope.number(key, absent) for key, absent in (("beta_fast", 32.0), ("beta_slow", 1.0))}
        result["truncate"] = rope.flag("truncate", True)
        if rope.find("attention_factor") is not None:
            result["attention_factor"] = rope.number("attention_factor")
    rope.refuse_others([])
    return result


def _dtype(keys: Keys) -> str:
    name = keys.text("dtype", keys.text("torch_dtype", "float32"))
    return {"float16": "f16", "bfloat16": "bf16"}.get(name, "f32")


def _eos(keys: Keys) -> list[int]:
    value = keys.find("eos_token_id")
    tokens = value if isinstance(value, list) else [] if value is None else [value]
    if any(type(token) is not int or not 0 <= token <= LARGEST_SIZE for token in tokens):
        raise keys.refused("eos_token_id", "must be a token or a list of tokens")
    return tokens


def _gpt2(keys: Keys) -> Config:
    keys.only("activation_function", "gelu_new")
    keys.only("scale_attn_weights", True)
    for key in ("scale_attn_by_inverse_layer_idx", "reorder_and_upcast_attn", "add_cross_attention"):
        keys.only(key, False)
    hidden, heads = keys.size("n_embd"), keys.size("n_head")
    if hidden % heads != 0:
        raise keys.refused("n_head", "must divide n_embd")
    return Config(
        hidden=hidden,
        layers=keys.size("n_layer"),
        heads=heads,
        kv_heads=heads,
        head_dim=hidden // heads,
        intermediate=keys.size("n_inner", 4 * hidden),
        vocab=keys.size("vocab_size"),
        eps=keys.number("layer_norm_epsilon", 1e-5),
        tied=keys.flag("tie_word_embeddings", True),
        is_gpt2=True,
        max_positions=keys.size("n_positions"),
        qkv_bias=True,
        o_bias=True,
        mlp_bias=True,
        dtype=_dtype(keys),
        eos=_eos(keys),
    )


def _llama_or_qwen(keys: Keys, model_type: str) -> Config:
    keys.only("hidden_act", "silu")
    keys.only("use_mrope", False)
    if keys.flag("use_sliding_window") and ("sliding_window" not in keys or keys.find("sliding_window") is not None):
        raise keys.refused("use_sliding_window", "is not supported")
    kinds = keys.find("layer_types")
    if kinds is not None and (not isinstance(kinds, list) or any(kind != "full_attention" for kind in kinds)):
        raise keys.refused("layer_types", "may have only full_attention")

    hidden, layers, heads = (keys.size(key) for key in ("hidden_size", "num_hidden_layers", "num_attention_heads"))
    # Without the key, each head of a Llama has its own keys, and transformers' Qwen has 32.
    is_llama = model_type == "llama"
    kv_heads = keys.size("num_key_value_heads", heads if is_llama or "num_key_value_heads" in keys else 32)
    if heads % kv_heads != 0:
        raise keys.refused("num_key_value_heads", "must divide num_attention_heads")
    if keys.find("head_dim") is not None:
        head_dim = keys.size("head_dim")
    elif model_type == "qwen3" and "head_dim" not in keys:
        head_dim = 128
    else:
        if hidden % heads != 0:
            raise keys.refused("num_attention_heads", "must divide hidden_size")
        head_dim = hidden // heads
    if head_dim % 2 != 0:
        raise Refused("config.json: head_dim is odd, but RoPE turns pairs")
    if heads * head_dim > LARGEST_SIZE:
        raise keys.refused("num_attention_heads", "is too large for head_dim")
    # Qwen2 has biases of q, k and v, and no key says so.
    attention_bias, mlp_bias = keys.flag("attention_bias"), keys.flag("mlp_bias")
    has_positions = keys.find("max_position_embeddings") is not None
    return Config(
        hidden=hidden,
        layers=layers,
        heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        intermediate=keys.size("intermediate_size"),
        vocab=keys.size("vocab_size"),
        eps=keys.number("rms_norm_eps", 1e-6),
        tied=keys.flag("tie_word_embeddings"),
        max_positions=keys.size("max_position_embeddings") if has_positions else 0,
        qk_norm=model_type == "qwen3",
        qkv_bias=model_type == "qwen2" or attention_bias,
        o_bias=model_type != "qwen2" and attention_bias,
        mlp_bias=is_llama and mlp_bias,
        dtype=_dtype(keys),
        rope=_rope(keys, head_dim),
        eos=_eos(keys),
    )


def parse_config(data: bytes, ignored: list[str]) -> Config:
    """Reads config.json. A key that is unknown is refused, unless it is in `ignored`."""
    keys = Keys(parse_json(data, "config.json"), "config.json")
    model_type = keys.text("model_type", "")
    if model_type not in ("llama", "qwen2", "qwen3", "gpt2"):
        raise keys.refused("model_type", "must be llama, qwen2, qwen3 or gpt2")
    keys.only("quantization_config", None)
    is_gpt2 = model_type == "gpt2"
    config = _gpt2(keys) if is_gpt2 else _llama_or_qwen(keys, model_type)
    keys.refuse_others(HARMLESS + (HARMLESS_IN_GPT2 if is_gpt2 else []) + ignored)
    return config
