#!/usr/bin/env python3
"""Runs a Llama, Qwen or GPT-2 model: one answer on every CPU, number of threads, batch and chunk.

  decoder.py                                    a small model, made from a seed
  decoder.py FOLDER --tokens 1,2,3              config.json and safetensors, as Hugging Face has them
  decoder.py stories15M.bin --tokens 1,9038     llama2.c's .bin

It prints the hashes that tests/examples/decoder.cpp prints, of all tokens and of all logits. All arithmetic on the way
to them is rapt's: this program moves numbers, and makes integers times powers of two.
"""
from __future__ import annotations

import argparse
import os
import re
import struct
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Iterable, Literal

import numpy as np

import rapt
from decoder_parts.checkpoints import Array, Checkpoint, Seeded, open_checkpoint, read_file
from decoder_parts.config import SMALL_CONFIG, Config, Refused, parse_config


def widen(stored: Array) -> Array:
    """Elements of 16 bits as f32, which is exact."""
    return stored if stored.dtype == np.float32 else rapt.convert(stored, "f32")


class Cache:
    """Keys and values of all layers: [sequences][kv_heads][capacity][head_dim], rounded to the cache's type."""

    def __init__(self, config: Config, kind: str, sequences: int, capacity: int) -> None:
        shape = (sequences, config.kv_heads, capacity, config.head_dim)
        dtype = {"f32": np.float32, "bf16": np.uint16, "i8": np.int8}[kind]
        self.kind = kind
        self.lengths = np.zeros(sequences, np.int64)
        self.layers = [[np.zeros(shape, dtype) for _ in "kv"] for _ in range(config.layers)]
        self.scales = [[np.zeros(shape[:3], np.float32) for _ in "kv"] for _ in range(config.layers)]

    def store(self, layer: int, which: int, sequence: int, positions: slice, heads: Array) -> None:
        """Round the heads [tokens][kv_heads][head_dim] of one sequence. Each head of a token has a scale of its own."""
        to = self.layers[layer][which][sequence]
        by_head = np.ascontiguousarray(heads.transpose(1, 0, 2))
        if self.kind == "f32":
            to[:, positions] = by_head
        elif self.kind == "bf16":
            to[:, positions] = rapt.convert(by_head, "bf16")
        else:
            q, scales = rapt.quantize_rows(by_head.reshape(-1, by_head.shape[2]), "i8")
            to[:, positions] = q.reshape(by_head.shape)
            self.scales[layer][which][sequence][:, positions] = scales.reshape(by_head.shape[:2])


@dataclass
class Feed:
    """The tokens that a sequence appends in one step, and how many of the last have logits."""

    sequence: int
    tokens: list[int]
    logits: int


class Linear:
    """Several layers of a checkpoint with the same input, packed as one."""

    def __init__(self, model: Model, names: list[tuple[str, int]], inputs: int, bias: bool, transposed: bool = False):
        read, options = model.checkpoint.read, model.options
        parts = [
            read(f"{name}.weight", (inputs, outputs)).T if transposed else read(f"{name}.weight", (outputs, inputs))
            for name, outputs in names
        ]
        if len({part.dtype for part in parts}) > 1:
            parts = [widen(part) for part in parts]
        self.bias = None
        if bias:
            self.bias = np.concatenate([widen(read(f"{name}.bias", (outputs,))) for name, outputs in names])
        self.arithmetic: Literal["i8"] | None = None
        self.rounds_x = False
        self.threads = options.threads
        if options.weights != "stored":
            whole = np.ascontiguousarray(np.concatenate(parts))
            q, scales = rapt.quantize_rows(whole, options.weights, 32)
            self.w = rapt.pack_quantized(q, options.weights, scales, in_features=inputs, scale_group=32)
            self.arithmetic = "i8" if options.arithmetic == "i8" else None
            return
        if options.arithmetic == "i8":
            raise Refused("arithmetic in i8 needs weights of i8 or i4")
        if options.arithmetic == "bf16" and parts[0].dtype != np.uint16:
            raise Refused(f"{names[0][0]} is not stored in bf16, which arithmetic in bf16 needs")
        self.rounds_x = options.arithmetic == "bf16"
        self.w = rapt.pack_weights(parts)

    def __call__(self, x: Array, add: Array | None = None, x_rows: Any = None) -> Array:
        """The outputs, or `add` with the outputs added to it."""
        return rapt.linear(
            rapt.convert(x, "bf16") if self.rounds_x else x,
            self.w,
            self.bias,
            add=add,
            out=add,
            x_rows=x_rows,
            arithmetic=self.arithmetic,
            out_type="f32",
            threads=self.threads,
        )


class Model:
    """What Llama and GPT-2 share: embeddings, the cache, attention, and the head."""

    def __init__(self, checkpoint: Checkpoint, options: argparse.Namespace) -> None:
        self.checkpoint, self.options, self.config = checkpoint, options, checkpoint.config
        name = "transformer.wte" if self.config.is_gpt2 else "model.embed_tokens"
        self.embedding = checkpoint.read(f"{name}.weight", (self.config.vocab, self.config.hidden))
        self.head = Linear(
            self, [(name if self.config.tied else "lm_head", self.config.vocab)], self.config.hidden, False
        )

    def vector(self, name: str, length: int) -> Array:
        return widen(self.checkpoint.read(name, (length,)))

    def attend(self, layer: int, qkv: Array, feeds: list[Feed], cache: Cache) -> Array:
        """Round K and V to the cache, and attend to what is in it: a prompt sees what the tokens after it see."""
        c, rows = self.config, len(qkv)
        heads = qkv.reshape(rows, -1, c.head_dim)
        row = 0
        q_offsets = np.zeros(len(cache.lengths) + 1, np.int32)
        for feed in feeds:
            count = len(feed.tokens)
            end = int(cache.lengths[feed.sequence])
            for which, first in enumerate((c.heads, c.heads + c.kv_heads)):
                of_feed = heads[row : row + count, first : first + c.kv_heads]
                cache.store(layer, which, feed.sequence, slice(end - count, end), of_feed)
            q_offsets[feed.sequence + 1] = count
            row += count
        longest = int(cache.lengths.max())
        k, v = (tensor[:, :, :longest] for tensor in cache.layers[layer])
        scales: dict[str, Any] = {}
        if cache.kind == "i8":
            scales = {n: s[:, :, :longest] for n, s in zip(("k_scales", "v_scales"), cache.scales[layer])}
        out = np.empty((rows, c.heads, c.head_dim), np.float32)
        rapt.attention(
            heads[:, : c.heads].transpose(1, 0, 2),
            k,
            v,
            out=out.transpose(1, 0, 2),
            causal=True,
            kv_lengths=cache.lengths,
            q_offsets=np.cumsum(q_offsets),
            threads=self.options.threads,
            **scales,
        )
        return out.reshape(rows, -1)

    def forward(self, feeds: list[Feed], cache: Cache) -> Array:
        """Append the tokens to their sequences, and return a row of logits for each that is asked for."""
        tokens: list[int] = []
        positions, wanted = [], []
        for feed in feeds:
            start = int(cache.lengths[feed.sequence])
            cache.lengths[feed.sequence] += len(feed.tokens)
            for t, token in enumerate(feed.tokens):
                if t + feed.logits >= len(feed.tokens):
                    wanted.append(len(tokens))
                tokens.append(token)
                positions.append(start + t)
        x = self.layers(widen(self.embedding[tokens]), np.array(positions), feeds, cache)
        return self.head(x, x_rows=wanted)

    def layers(self, x: Array, positions: Array, feeds: list[Feed], cache: Cache) -> Array:
        raise NotImplementedError


class Llama(Model):
    def __init__(self, checkpoint: Checkpoint, options: argparse.Namespace) -> None:
        super().__init__(checkpoint, options)
        c = self.config
        try:
            self.frequencies, self.factor = rapt.rope_frequencies(**c.rope)
        except ValueError as error:
            raise Refused(f"config.json: RoPE: {error}") from error
        q_width, kv_width = c.heads * c.head_dim, c.kv_heads * c.head_dim
        self.blocks: list[dict[str, Any]] = []
        for i in range(c.layers):
            at, mlp = f"model.layers.{i}.self_attn.", f"model.layers.{i}.mlp."
            qkv = [(at + "q_proj", q_width), (at + "k_proj", kv_width), (at + "v_proj", kv_width)]
            self.blocks.append(
                {
                    "attention_norm": self.vector(f"model.layers.{i}.input_layernorm.weight", c.hidden),
                    "mlp_norm": self.vector(f"model.layers.{i}.post_attention_layernorm.weight", c.hidden),
                    "q_norm": self.vector(at + "q_norm.weight", c.head_dim) if c.qk_norm else None,
                    "k_norm": self.vector(at + "k_norm.weight", c.head_dim) if c.qk_norm else None,
                    "qkv": Linear(self, qkv, c.hidden, c.qkv_bias),
                    "o": Linear(self, [(at + "o_proj", c.hidden)], q_width, c.o_bias),
                    "gate_up": Linear(
                        self, [(mlp + name, c.intermediate) for name in ("gate_proj", "up_proj")], c.hidden, c.mlp_bias
                    ),
                    "down": Linear(self, [(mlp + "down_proj", c.hidden)], c.intermediate, c.mlp_bias),
                }
            )
        self.last_norm = self.vector("model.norm.weight", c.hidden)

    def layers(self, x: Array, positions: Array, feeds: list[Feed], cache: Cache) -> Array:
        c = self.config
        for i, block in enumerate(self.blocks):
            qkv = block["qkv"](rapt.rms_norm(x, block["attention_norm"], eps=c.eps))
            heads = qkv.reshape(len(x), -1, c.head_dim)
            for part, weight in ((heads[:, : c.heads], "q_norm"), (heads[:, c.heads : -c.kv_heads], "k_norm")):
                if block[weight] is not None:
                    part[:] = rapt.rms_norm(np.ascontiguousarray(part), block[weight], eps=c.eps)
            turning = heads[:, : c.heads + c.kv_heads].transpose(1, 0, 2)
            rapt.rope(
                turning, self.frequencies, positions, layout=c.rope_layout, attention_factor=self.factor, out=turning
            )
            block["o"](self.attend(i, qkv, feeds, cache), add=x)
            gate_up = block["gate_up"](rapt.rms_norm(x, block["mlp_norm"], eps=c.eps))
            block["down"](rapt.gated(gate_up[:, : c.intermediate], gate_up[:, c.intermediate :]), add=x)
        return rapt.rms_norm(x, self.last_norm, eps=c.eps)


class Gpt2(Model):
    """GPT-2 stores its matrices as [inputs][outputs]."""

    def __init__(self, checkpoint: Checkpoint, options: argparse.Namespace) -> None:
        super().__init__(checkpoint, options)
        c = self.config
        self.positions = checkpoint.read("transformer.wpe.weight", (c.max_positions, c.hidden))
        self.blocks: list[dict[str, Any]] = []
        for i in range(c.layers):

            def norm(name: str) -> list[Array]:
                return [self.vector(f"transformer.h.{i}.{name}.{part}", c.hidden) for part in ("weight", "bias")]

            def layer(name: str, outputs: int, inputs: int) -> Linear:
                return Linear(self, [(f"transformer.h.{i}.{name}", outputs)], inputs, True, transposed=True)

            self.blocks.append(
                {
                    "ln_1": norm("ln_1"),
                    "ln_2": norm("ln_2"),
                    "qkv": layer("attn.c_attn", 3 * c.hidden, c.hidden),
                    "o": layer("attn.c_proj", c.hidden, c.hidden),
                    "fc": layer("mlp.c_fc", c.intermediate, c.hidden),
                    "proj": layer("mlp.c_proj", c.hidden, c.intermediate),
                }
            )
        self.last_norm = [self.vector(f"transformer.ln_f.{part}", c.hidden) for part in ("weight", "bias")]

    def layers(self, x: Array, positions: Array, feeds: list[Feed], cache: Cache) -> Array:
        eps = self.config.eps
        # The first norm adds the embeddings of the positions, which become the sum.
        tokens, x = x, widen(self.positions[positions])
        normed = rapt.layer_norm(tokens, *self.blocks[0]["ln_1"], eps=eps, residual=x)
        for i, block in enumerate(self.blocks):
            if i > 0:
                normed = rapt.layer_norm(x, *block["ln_1"], eps=eps)
            block["o"](self.attend(i, block["qkv"](normed), feeds, cache), add=x)
            inner = block["fc"](rapt.layer_norm(x, *block["ln_2"], eps=eps))
            block["proj"](rapt.gelu_tanh(inner), add=x)
        return rapt.layer_norm(x, *self.last_norm, eps=eps)


# ---- generation


FNV_START, FNV_PRIME = 0xCBF29CE484222325, 0x100000001B3
FNV_BLOCK = 1 << 16
FNV_POWERS = np.full(FNV_BLOCK + 1, FNV_PRIME, np.uint64)
FNV_POWERS[0] = 1
np.multiply.accumulate(FNV_POWERS, out=FNV_POWERS)


def fnv1a(value: int, data: bytes) -> int:
    """The 64-bit FNV-1a hash, continued from `value`: h = (h ^ byte) * prime for one byte after the other.

    h ^ byte changes the lowest byte of h only. Let d be what it adds. If all d are known, h is a sum:
    h0 * prime^n + d0 * prime^n + d1 * prime^(n-1) + ... The lowest byte of a product depends on the lowest bytes of its
    factors only. Its bit k is an exclusive or of all earlier bits k, and of what bits below k say. So eight passes over all
    bytes find the lowest byte of every h.
    """
    for at in range(0, len(data), FNV_BLOCK):
        value = fnv1a_of_block(value, np.frombuffer(data[at : at + FNV_BLOCK], np.uint8))
    return value


def fnv1a_of_block(value: int, data: Array) -> int:
    count = len(data)
    lowest = np.zeros(count, np.uint8)  # of h before each byte
    for bit in (1, 2, 4, 8, 16, 32, 64, 128):
        product = ((lowest ^ data) & np.uint8(bit - 1)) * np.uint8(FNV_PRIME & 255)
        changes = np.zeros(-(-count // 8) * 8, np.uint8)
        changes[0] = value & bit
        changes[1:count] = ((data ^ product) & np.uint8(bit))[:-1]
        words = changes.view("<u8")  # the exclusive or of all bytes up to each, for eight bytes at once
        for shift in (8, 16, 32):
            words ^= words << np.uint64(shift)
        totals = np.bitwise_xor.accumulate(words >> np.uint64(56))
        words[1:] ^= totals[:-1] * np.uint64(0x0101010101010101)
        lowest |= changes[:count]
    added = (lowest ^ data).astype(np.int64) - lowest
    total = value * int(FNV_POWERS[count]) + int(np.dot(added.view(np.uint64), FNV_POWERS[count:0:-1]))
    return total & 0xFFFFFFFFFFFFFFFF


@dataclass
class Sequence:
    tokens: list[int]  # the prompt, then what was generated
    prompt: int = 0
    fed: int = 0  # tokens in the cache
    finished: bool = False
    logits: int = FNV_START
    accepted: int = 0
    rejected: int = 0
    dump: Any = field(default=None, repr=False)

    def take(self, row: Array) -> None:
        """Count a row of logits."""
        if ((row.view(np.uint32) & 0x7FFFFFFF) > 0x7F800000).any():
            raise Refused("a logit is NaN, so weights are NaN or infinite, or too large for this arithmetic")
        self.logits = fnv1a(self.logits, row.astype("<f4").tobytes())
        if self.dump is not None:
            self.dump.write(row.astype("<f4").tobytes())


def drafts_after(tokens: list[int], count: int) -> list[int]:
    """A guess at the next tokens: what followed the last token where it stood before."""
    for i in range(len(tokens) - 2, -1, -1):
        if tokens[i] == tokens[-1]:
            known = tokens[i + 1 :]
            return [known[j % len(known)] for j in range(count)]
    return [tokens[-1]] * count


class Run:
    """Greedy decoding of several sequences in one batch."""

    def __init__(self, model: Model, prompts: list[list[int]], options: argparse.Namespace) -> None:
        c = model.config
        for prompt in prompts:
            if not prompt:
                raise Refused("a prompt has no tokens")
            for token in prompt:
                if token >= c.vocab:
                    raise Refused(f"token {token} is not in the vocabulary of {c.vocab}")
            positions = len(prompt) + options.generate
            if positions > (c.max_positions or 1 << 24):
                raise Refused(f"prompt and new tokens need {positions} positions, and the model has {c.max_positions}")
        self.model, self.options = model, options
        self.sequences = [Sequence(list(prompt), len(prompt)) for prompt in prompts]
        capacity = max(map(len, prompts)) + options.generate
        self.cache = Cache(c, options.cache, len(prompts), capacity)
        self.seconds = {"prompt": 0.0, "decode": 0.0}
        self.counts = {"prompt": 0, "decode": 0}

    def next_tokens(self, sequence: Sequence) -> list[int]:
        left = sequence.prompt - sequence.fed
        if left > 0:
            count = min(self.options.chunk, left) if self.options.chunk else left
            return sequence.tokens[sequence.fed : sequence.fed + count]
        to_come = sequence.prompt + self.options.generate - len(sequence.tokens)
        drafts = drafts_after(sequence.tokens, min(self.options.drafts, to_come - 1))
        return sequence.tokens[sequence.fed :] + drafts

    def step(self) -> bool:
        feeds, phase = [], "decode"
        for i, sequence in enumerate(self.sequences):
            if sequence.finished:
                continue
            in_prompt = sequence.fed < sequence.prompt
            phase = "prompt" if in_prompt else phase
            tokens = self.next_tokens(sequence)
            only_last = in_prompt and self.options.last_logits
            is_last = sequence.fed + len(tokens) == sequence.prompt
            feeds.append(Feed(i, tokens, int(is_last) if only_last else len(tokens)))
        if not feeds:
            return False
        start = time.perf_counter()
        logits = self.model.forward(feeds, self.cache)
        self.seconds[phase] += time.perf_counter() - start
        row = 0
        for feed in feeds:
            self.take(feed, logits[row : row + feed.logits], phase)
            row += feed.logits
        return True

    def take(self, feed: Feed, rows: Array, phase: str) -> None:
        sequence = self.sequences[feed.sequence]
        if sequence.fed < sequence.prompt:
            sequence.fed += len(feed.tokens)
            self.counts["prompt"] += len(feed.tokens)
            for row in rows:
                sequence.take(row)
            if sequence.fed == sequence.prompt:
                self.append(sequence, rows[-1], phase)
            return
        # A draft's logits count only if it is the token that greedy decoding chooses.
        for i, row in enumerate(rows):
            sequence.fed += 1
            sequence.take(row)
            self.append(sequence, row, phase)
            is_last = sequence.finished or i + 1 == len(rows)
            if is_last or feed.tokens[i + 1] != sequence.tokens[-1]:
                sequence.rejected += len(rows) - 1 - i
                break
            sequence.accepted += 1
        self.cache.lengths[feed.sequence] = sequence.fed

    def append(self, sequence: Sequence, row: Array, phase: str) -> None:
        done = len(sequence.tokens) - sequence.prompt
        sequence.finished = done == self.options.generate
        if sequence.finished:
            return
        token = int(rapt.argmax(row))
        sequence.tokens.append(token)
        self.counts["decode"] += phase == "decode"
        ends = token in self.model.config.eos and not self.options.ignore_eos
        sequence.finished = ends or done + 1 == self.options.generate


# ---- the command line


class Tokenizer:
    """llama2.c's tokenizer.bin, or a tokenizer.json where the package `tokenizers` is installed."""

    def __init__(self, path: Path, vocab: int) -> None:
        data, at, self.pieces = read_file(path).tobytes(), 4, []
        longest = int.from_bytes(data[:4], "little", signed=True)
        for i in range(vocab):
            if at + 8 > len(data):
                raise Refused(f"{path.name} ends before its {vocab} tokens do")
            score, length = struct.unpack_from("<fi", data, at)
            if not 0 <= length <= longest or at + 8 + length > len(data):
                raise Refused(f"{path.name}: token {i} has no valid length")
            self.pieces.append((data[at + 8 : at + 8 + length], score))
            at += 8 + length
        if at != len(data):
            raise Refused(f"{path.name} has more tokens than the model")
        self.numbers: dict[bytes, int] = {}
        for i, (piece, _) in enumerate(self.pieces):
            self.numbers.setdefault(piece, i)

    def encode(self, text: str) -> list[int]:
        """As llama2.c: the token 1, a space, then the pair with the best score merges until none is a token."""
        tokens = [1]
        # A character is a byte and up to three that continue it. Text may be no UTF-8.
        for piece in ([b" "] if text else []) + re.findall(rb"(?s).[\x80-\xbf]{0,3}", os.fsencode(text)):
            tokens += [self.numbers[piece]] if piece in self.numbers else [3 + byte for byte in piece]
        if max(tokens) >= len(self.pieces):
            raise Refused("the tokenizer has no tokens for bytes")
        while True:
            best = None
            for i in range(1, len(tokens) - 1):
                merged = self.numbers.get(self.pieces[tokens[i]][0] + self.pieces[tokens[i + 1]][0])
                if merged is not None and (best is None or self.pieces[merged][1] > self.pieces[best[1]][1]):
                    best = i, merged
            if best is None:
                return tokens
            tokens[best[0] : best[0] + 2] = [best[1]]

    def decode(self, tokens: list[int]) -> bytes:
        text = b""
        for before, token in zip([None, *tokens], tokens):
            piece = self.pieces[token][0]
            if re.fullmatch(rb"<0x[0-9A-Fa-f]{2}>", piece):
                text += bytes([int(piece[3:5], 16)])
            elif token != 1:
                text += piece[1:] if before == 1 and piece.startswith(b" ") else piece
        return text


class JsonTokenizer:
    def __init__(self, path: Path) -> None:
        try:
            import tokenizers
        except ImportError as error:
            raise Refused("--prompt needs the package tokenizers for a tokenizer.json; give --tokens") from error
        try:
            self.tokenizer = tokenizers.Tokenizer.from_file(str(path))
        except Exception as error:  # the package has no narrower type
            raise Refused(f"{path} cannot be read: {error}") from error

    def encode(self, text: str) -> list[int]:
        return list(self.tokenizer.encode(text, add_special_tokens=False).ids)

    def decode(self, tokens: list[int]) -> bytes:
        return str(self.tokenizer.decode(tokens)).encode()


def parser() -> argparse.ArgumentParser:
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("checkpoint", nargs="?", help="a folder with config.json and safetensors, or llama2.c's .bin")
    p.add_argument("--seed", type=int, default=1, help="without a checkpoint: makes the weights")
    p.add_argument("--config", help="without a checkpoint: the config.json of the model that is made")
    p.add_argument("--tokens", action="append", default=[], help="a prompt, such as 1,2,3; repeat it for a batch")
    p.add_argument("--prompt", action="append", default=[], help="a prompt as text; repeat it for a batch")
    p.add_argument("--tokenizer", help="llama2.c's tokenizer.bin, or a tokenizer.json; by default the folder's")
    p.add_argument("--generate", type=int, default=32, help="new tokens; 0: only the logits of the prompt")
    p.add_argument("--weights", choices=("stored", "i8", "i4"), default="stored", help="32 inputs share a scale")
    p.add_argument("--arithmetic", choices=("f32", "bf16", "i8"), default="f32", help="of linear layers")
    p.add_argument("--cache", choices=("f32", "bf16", "i8"), default="f32", help="the type of keys and values")
    p.add_argument("--chunk", type=int, default=256, help="tokens of a prompt in one call; 0: all")
    p.add_argument("--drafts", type=int, default=0, help="tokens that are guessed, and verified in one call")
    p.add_argument("--threads", type=int, default=1)
    p.add_argument("--isa", help="avx2, neon, ... instead of this CPU's best")
    p.add_argument("--last-logits", action="store_true", help="of a prompt, only the last token's logits")
    p.add_argument("--ignore-eos", action="store_true", help="do not stop at the end of a text")
    p.add_argument("--ignore-key", action="append", default=[], help="an unknown key that changes no logit")
    p.add_argument("--dump-logits", help="writes rows of f32; sequence 1 of a batch to FILE.1, and so on")
    return p


def parse_tokens(text: str) -> list[int]:
    parts = text.split(",") if text else []
    if not all(part.isascii() and part.isdigit() and len(part) <= 8 for part in parts):
        raise Refused(f"--tokens are numbers with commas between them, and not {text}")
    return [int(part) for part in parts]


def tokenizer_of(options: argparse.Namespace, vocab: int) -> Any:
    path = Path(options.tokenizer) if options.tokenizer else None
    if path is None and options.prompt:
        path = Path(options.checkpoint or "").joinpath("tokenizer.json")
        if not options.checkpoint or not path.exists():
            raise Refused("--prompt needs --tokenizer; without one, give --tokens")
    if path is None:
        return None
    return JsonTokenizer(path) if path.suffix == ".json" else Tokenizer(path, vocab)


def open_model(options: argparse.Namespace) -> Model:
    if options.checkpoint:
        if options.config:
            raise Refused("--config is for models from a seed, and a checkpoint is given")
        checkpoint = open_checkpoint(Path(options.checkpoint), options.ignore_key)
    else:
        text = read_file(Path(options.config)).tobytes() if options.config else SMALL_CONFIG
        checkpoint = Seeded(parse_config(text, options.ignore_key), options.seed)
    return (Gpt2 if checkpoint.config.is_gpt2 else Llama)(checkpoint, options)


def run(options: argparse.Namespace) -> None:
    if options.weights != "stored" and options.arithmetic == "bf16":
        raise Refused("--arithmetic bf16 needs stored weights of bf16")
    if min(options.generate, options.chunk, options.drafts, options.threads - 1) < 0:
        raise Refused("--generate, --chunk and --drafts are 0 or more, and --threads is 1 or more")
    if not 0 <= options.seed < 1 << 64:
        raise Refused("--seed is from 0 to 2^64 - 1")
    if options.isa:
        try:
            rapt.force_isa(options.isa)
        except ValueError as error:
            raise Refused(f"--isa {options.isa}: {error}") from error
    model = open_model(options)
    tokenizer = tokenizer_of(options, model.config.vocab)
    prompts = [parse_tokens(text) for text in options.tokens]
    prompts += [tokenizer.encode(text) for text in options.prompt]
    decoding = Run(model, prompts or [[1]], options)
    for i, sequence in enumerate(decoding.sequences):
        if options.dump_logits:
            try:
                sequence.dump = open(options.dump_logits + (f".{i}" if i else ""), "wb")
            except OSError:
                raise Refused(f"{options.dump_logits} cannot be written") from None
    while decoding.step():
        pass
    report(decoding, tokenizer, options)


def report(decoding: Run, tokenizer: Any, options: argparse.Namespace) -> None:
    def joined(tokens: Iterable[int]) -> str:
        return ",".join(map(str, tokens))

    for sequence in decoding.sequences:
        new = sequence.tokens[sequence.prompt :]
        print(f"tokens     {joined(sequence.tokens[: sequence.prompt])}" + (f" | {joined(new)}" if new else ""))
        if tokenizer:
            sys.stdout.flush()
            sys.stdout.buffer.write(b"text       " + tokenizer.decode(sequence.tokens) + b"\n")
        tokens = fnv1a(FNV_START, np.array(sequence.tokens, "<u4").tobytes())
        print(f"hash       tokens {tokens:016x}, logits {sequence.logits:016x}")
        if options.drafts:
            print(f"drafts     {sequence.accepted} accepted, {sequence.rejected} rejected")
        if sequence.dump is not None:
            sequence.dump.close()
    for phase, seconds in decoding.seconds.items():
        count = decoding.counts[phase]
        print(f"{phase:<10} {count} tokens, {count / seconds if seconds else 0:.1f} tokens/s")
    print(f"level      {rapt.isa()}, {options.threads} thread{'s' if options.threads != 1 else ''}")


def main() -> int:
    options = parser().parse_args()
    try:
        run(options)
        sys.stdout.flush()
    except (Refused, OSError, ValueError) as error:  # a ValueError is rapt's, such as that of an eps that f32 lacks
        print(f"decoder.py: {' '.join(str(error).split())}", file=sys.stderr)
        return 1
    except MemoryError:
        print("decoder.py: the model does not fit the memory", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
