"""SmolLM2-135M-Instruct by an unmodified transformers under rapt.torch.enable(): one answer, however the tokens come.

    torch_smollm2.py THREADS GGUF [few]

Prints hashes of the logits of a prompt in f32 and bf16, the texts of some prompts, and which ways differ from the plain one: in
chunks, token by token, in a batch padded on the left, with a static cache. `few` leaves out all but the first four logits.
"""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path
from typing import Any

import torch
import transformers

import rapt.torch

PROMPTS = ["The capital of France is", "Write a short poem about the sea.", "In 1969, the first", "def fibonacci(n):"]
TOKENS = 16  # of each text


def texts(model: Any, tokens: Any, **options: Any) -> list[list[int]]:
    length = tokens["input_ids"].shape[1]
    made = model.generate(**tokens, max_new_tokens=TOKENS, min_new_tokens=TOKENS, do_sample=False, **options)
    return [row[length:].tolist() for row in made]


def logits_in_parts(model: Any, tokens: Any, cuts: list[int]) -> Any:
    cache, parts = None, []
    for first, last in zip([0, *cuts], [*cuts, tokens.shape[1]]):
        out = model(tokens[:, first:last], past_key_values=cache, use_cache=True)
        cache = out.past_key_values
        parts.append(out.logits)
    return torch.cat(parts, 1)


def logits_with_static_cache(model: Any, tokens: Any) -> Any:
    cache = transformers.StaticCache(config=model.config, max_cache_len=150)
    return model(tokens, past_key_values=cache, use_cache=True).logits


def main(file: Path, is_few: bool) -> dict[str, Any]:
    source = {"pretrained_model_name_or_path": str(file.parent), "gguf_file": file.name}
    model = transformers.AutoModelForCausalLM.from_pretrained(**source, dtype=torch.float32).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(**source)
    tokenizer.pad_token, tokenizer.padding_side = tokenizer.eos_token, "left"
    tokens = (torch.arange(100) * 37 % 1000 + 100)[None]
    found: dict[str, Any] = {}
    for dtype in (torch.float32, torch.bfloat16):
        name = str(dtype).rsplit(".", 1)[1]
        model = model.to(dtype)
        with rapt.torch.enabled(strict=True), torch.inference_mode():
            found[f"first logits, {name}"] = rapt.torch.hash(model(tokens[:, :4]).logits)
            if is_few:
                continue
            whole = model(tokens).logits
            found[f"logits, {name}"] = rapt.torch.hash(whole)
            alone = [texts(model, tokenizer(prompt, return_tensors="pt"))[0] for prompt in PROMPTS]
            batch = tokenizer(PROMPTS, return_tensors="pt", padding=True)
            ways = {
                "chunks": torch.equal(logits_in_parts(model, tokens, [7, 71]), whole),
                "token by token": torch.equal(
                    logits_in_parts(model, tokens[:, :20], list(range(1, 20))), whole[:, :20]
                ),
                "batch": texts(model, batch) == alone,
                "static cache": texts(model, batch, cache_implementation="static") == alone,
                "logits of a static cache": torch.equal(logits_with_static_cache(model, tokens), whole),
            }
            found[f"texts, {name}"] = tokenizer.batch_decode(alone)
            found[f"other ways, {name}"] = [way for way, is_same in ways.items() if not is_same]
    return found


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    transformers.logging.set_verbosity_error()
    torch.set_num_threads(int(sys.argv[1]))
    print(json.dumps(main(Path(sys.argv[2]), sys.argv[3:] == ["few"])))
