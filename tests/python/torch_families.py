"""Unmodified models of transformers, small and random, in a process of their own: prints what rapt.torch makes of them.

    torch_families.py THREADS [FAMILY...]

For each family, and for some with each implementation of attention: the hashes of the outputs, of all gradients and of the parameters after
three steps of AdamW; whether a row has the same bits alone as in its batch. What a process cannot change is given by its
environment: ATEN_CPU_CAPABILITY and RAPT_ISA.
"""

from __future__ import annotations

import json
import sys
import zlib
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
import transformers as T

import rapt.torch

Tensor = torch.Tensor
Inputs = dict[str, Any]

TOKENS = 11
_ids = torch.arange(2 * TOKENS).reshape(2, TOKENS) * 7 % 90 + 5
_mask = torch.ones(2, TOKENS, dtype=torch.int64)
_mask[1, :3] = 0  # left padding
TEXT: Inputs = {"input_ids": _ids, "attention_mask": _mask}
LABELS: Inputs = {**TEXT, "labels": _ids}
IMAGES: Inputs = {"pixel_values": torch.from_numpy(rapt.random_normal((2, 3, 32, 32), seed=1))}
SOUND: Inputs = {"input_features": torch.from_numpy(rapt.random_normal((2, 80, 40), seed=2))}

BERT: dict[str, Any] = {
    "vocab_size": 100, "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4,
    "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0,
}  # fmt: skip
LLAMA: dict[str, Any] = {
    "vocab_size": 100, "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
}  # fmt: skip
SEEING: dict[str, Any] = {
    "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4, "image_size": 32,
    "patch_size": 8,
}  # fmt: skip
READING: dict[str, Any] = {k: v for k, v in BERT.items() if not k.endswith("_prob")}
EXPERTS: dict[str, Any] = {"moe_intermediate_size": 32, "num_experts": 4, "num_experts_per_tok": 2}
LINEAR: dict[str, Any] = {
    "linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 16, "linear_value_head_dim": 16,
    "shared_expert_intermediate_size": 32, "layer_types": ["linear_attention", "full_attention"],
}  # fmt: skip


class Family(NamedTuple):
    """A class of transformers, and of its configuration, with the arguments of a call that has a loss."""

    model: str
    config: str
    options: dict[str, Any]
    inputs: Inputs
    has_attention: bool = True
    row_alone: bool = True  # outputs of a row do not depend on the others by definition


FAMILIES: dict[str, Family] = {
    "BERT": Family("BertForMaskedLM", "BertConfig", BERT, LABELS),
    "RoBERTa": Family("RobertaForMaskedLM", "RobertaConfig", {**BERT, "pad_token_id": 0}, LABELS),
    "DistilBERT": Family(
        "DistilBertForMaskedLM", "DistilBertConfig",
        {"vocab_size": 100, "dim": 64, "hidden_dim": 128, "n_layers": 2, "n_heads": 4, "dropout": 0.0, "attention_dropout": 0.0},
        LABELS,
    ),
    "ModernBERT": Family(
        "ModernBertForMaskedLM", "ModernBertConfig",
        {**READING, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "cls_token_id": 1, "sep_token_id": 2}, LABELS,
    ),
    "GPT-2": Family(
        "GPT2LMHeadModel", "GPT2Config",
        {"vocab_size": 100, "n_embd": 64, "n_layer": 2, "n_head": 4, "resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0},
        LABELS,
    ),
    "GPT-NeoX": Family("GPTNeoXForCausalLM", "GPTNeoXConfig", {**READING, "rotary_pct": 0.5}, LABELS),
    "OPT": Family(
        "OPTForCausalLM", "OPTConfig",
        {"vocab_size": 100, "hidden_size": 64, "ffn_dim": 128, "num_hidden_layers": 2, "num_attention_heads": 4,
         "word_embed_proj_dim": 64, "dropout": 0.0, "pad_token_id": 0},
        LABELS,
    ),
    "Llama": Family("LlamaForCausalLM", "LlamaConfig", LLAMA, LABELS),
    "Mistral": Family("MistralForCausalLM", "MistralConfig", {**LLAMA, "sliding_window": 4}, LABELS),
    "Qwen2": Family("Qwen2ForCausalLM", "Qwen2Config", LLAMA, LABELS),
    "Qwen3": Family("Qwen3ForCausalLM", "Qwen3Config", {**LLAMA, "head_dim": 16}, LABELS),
    "Gemma 3": Family("Gemma3ForCausalLM", "Gemma3TextConfig", {**LLAMA, "head_dim": 16, "sliding_window": 4}, LABELS),
    "Phi-3": Family("Phi3ForCausalLM", "Phi3Config", LLAMA, LABELS),
    "Mixtral": Family("MixtralForCausalLM", "MixtralConfig", {**LLAMA, "num_local_experts": 4}, LABELS),
    "Qwen3-MoE": Family("Qwen3MoeForCausalLM", "Qwen3MoeConfig", {**LLAMA, "head_dim": 16, **EXPERTS}, LABELS),
    "T5": Family(
        "T5ForConditionalGeneration", "T5Config",
        {"vocab_size": 100, "d_model": 64, "d_kv": 16, "d_ff": 128, "num_layers": 2, "num_heads": 4,
         "decoder_start_token_id": 0, "dropout_rate": 0.0},
        LABELS,
    ),
    "BART": Family(
        "BartForConditionalGeneration", "BartConfig",
        {"vocab_size": 100, "d_model": 64, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4,
         "decoder_attention_heads": 4, "encoder_ffn_dim": 128, "decoder_ffn_dim": 128, "dropout": 0.0,
         "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1},
        LABELS,
    ),
    "ViT": Family("ViTForImageClassification", "ViTConfig", SEEING, {**IMAGES, "labels": torch.tensor([0, 1])}),
    "DINOv2": Family(
        "Dinov2ForImageClassification", "Dinov2Config", {**SEEING, "mlp_ratio": 2}, {**IMAGES, "labels": torch.tensor([0, 1])}
    ),
    "CLIP": Family(
        "CLIPModel", "CLIPConfig",
        {"text_config": {**READING, "max_position_embeddings": 20, "eos_token_id": 2}, "vision_config": SEEING},
        {**TEXT, **IMAGES, "return_loss": True}, row_alone=False,
    ),
    "Whisper": Family(
        "WhisperForConditionalGeneration", "WhisperConfig",
        {"vocab_size": 100, "d_model": 64, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4,
         "decoder_attention_heads": 4, "encoder_ffn_dim": 128, "decoder_ffn_dim": 128, "max_source_positions": 20,
         "max_target_positions": 20, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1},
        {**SOUND, "labels": _ids},
    ),
    "Mamba": Family(
        "MambaForCausalLM", "MambaConfig", {"vocab_size": 100, "hidden_size": 64, "num_hidden_layers": 2, "state_size": 8},
        {"input_ids": _ids, "labels": _ids}, has_attention=False,
    ),
    "Qwen3-Next": Family(
        "Qwen3NextForCausalLM", "Qwen3NextConfig", {**LLAMA, "head_dim": 16, **EXPERTS, **LINEAR}, LABELS
    ),
}  # fmt: skip


# Those that also run with attention made of products and a softmax.
EAGER = ("BERT", "GPT-2", "Llama", "Gemma 3", "T5")


def made(family: Family, attention: str) -> Any:
    """The model, whose parameters depend on their names alone: PyTorch's normal numbers vary with the CPU."""
    config = getattr(T, family.config)(**family.options)
    kind: Any = getattr(T, family.model)
    model = kind._from_config(config, attn_implementation=attention) if family.has_attention else kind(config)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            numbers = torch.from_numpy(rapt.random_normal(tuple(parameter.shape), seed=zlib.crc32(name.encode())))
            is_scale = "norm" in name.lower() and name.endswith("weight")
            parameter.copy_(numbers * 0.08 + float(is_scale))
    return model.eval()


def tensors(values: Any) -> Iterator[Tensor]:
    if isinstance(values, Tensor):
        yield values
    elif isinstance(values, dict):
        for value in values.values():
            yield from tensors(value)
    elif isinstance(values, (list, tuple)):
        for value in values:
            yield from tensors(value)


def hash_of(values: Any) -> int:
    bits = 0
    for x in tensors(values):
        bits = zlib.crc32(rapt.hash(x.contiguous()).to_bytes(8, "little"), bits)
    return bits


def leading(outputs: Any) -> Tensor:
    return next(x for x in tensors(dict(outputs)) if x.dim() > 1)


def row(inputs: Inputs, first: int) -> Inputs:
    return {k: v[first : first + 1] if isinstance(v, Tensor) else v for k, v in inputs.items()}


def results(family: Family, attention: str) -> dict[str, Any]:
    model = made(family, attention)
    with torch.no_grad():
        outputs = model(**family.inputs)
        found: dict[str, Any] = {"outputs": hash_of([leading(outputs), outputs.loss])}
        if family.row_alone:
            whole = leading(outputs)
            found["alone"] = all(
                rapt.hash(leading(model(**row(family.inputs, i)))) == rapt.hash(whole[i : i + 1].contiguous())
                for i in range(2)
            )
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for step in range(3):
        optimizer.zero_grad()
        model(**family.inputs).loss.backward()
        if step == 0:
            found["gradients"] = hash_of([p.grad for _, p in sorted(model.named_parameters()) if p.grad is not None])
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    found["trained"] = hash_of([p.detach() for _, p in sorted(model.named_parameters())])
    return found


def all_results(names: list[str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in names or FAMILIES:
        family = FAMILIES[name]
        kinds = ("sdpa", "eager") if name in EAGER else ("sdpa",) if family.has_attention else ("",)
        for attention in kinds:
            found[f"{name} {attention}".strip()] = results(family, attention)
    return found


if __name__ == "__main__":
    torch.set_num_threads(int(sys.argv[1]))
    with rapt.torch.enabled(strict=True):
        print(json.dumps(all_results(sys.argv[2:])))
