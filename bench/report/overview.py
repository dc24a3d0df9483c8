#!/usr/bin/env python3
"""The README's plot and table of rapt compared with the fastest peer, medians of several runs of one machine:

overview.py RESULTS.json... PICTURE.png
bench/run --peers --filter '^(attention_f32|softmax_f32|exp_f32|dot_f32|dot_rows_f32|linear_f32|attention_backward_f32)/'
"""

from __future__ import annotations

import io
import sys
from pathlib import Path
from statistics import median_low

import matplotlib

matplotlib.use("agg")
import matplotlib.pyplot as plt
from data import Results
from PIL import Image

# Kernel, size, and what they are in words.
ROWS = [
    ("attention_f32", "prefill:d128:t1024:causal", "prefill, causal, 1024 tokens, 128 dimensions"),
    ("attention_f32", "prefill:d128:t1024", "prefill, full, 1024 tokens, 128 dimensions"),
    ("attention_f32", "prefill:d64:t512:causal", "prefill, causal, 512 tokens, 64 dimensions"),
    ("attention_f32", "decode:8x8:d128:k4096", "decoding a token, 4096 keys, 8 heads"),
    ("attention_f32", "decode:32x8:d128:k4096", "decoding a token, 32 heads share 8"),
    ("attention_backward_f32", "d64:t512:causal", "gradient, causal, 512 tokens, 64 dimensions"),
    ("softmax_f32", "cols:128:L1", "softmax, rows of 128 in L1"),
    ("softmax_f32", "cols:1024:L2", "softmax, rows of 1024 in L2"),
    ("softmax_f32", "cols:1024:mem", "softmax, rows of 1024 in memory"),
    ("exp_f32", "L1", "exp in L1"),
    ("exp_f32", "mem", "exp in memory"),
    ("linear_f32", "1x4096x4096", "linear layer of 4096 inputs and outputs, 1 row"),
    ("linear_f32", "64x4096x4096", "linear layer of 4096 inputs and outputs, 64 rows"),
    ("linear_f32", "512x4096x4096", "linear layer of 4096 inputs and outputs, 512 rows"),
    ("dot_rows_f32", "dim:128:L2", "dot products of a query with rows of 128 in L2"),
]


def main(sources: list[Path], picture: Path) -> None:
    runs = [Results.read(source) for source in sources]
    isa = next(isa for isa in ("avx512", "avx2", "neon") if isa in runs[0].isas)
    print(f"| {isa}, one core | rapt's speed over the fastest peer's | the peer | share of the machine's limit |")
    print("| --- | --- | --- | --- |")
    found = {}
    for kernel, size, text in ROWS:
        numbers = []
        for results in runs:
            own, rival = results.find(kernel, isa, size), results.best_rival(kernel, isa, size)
            if own and rival:
                numbers.append((results.best_ratio(kernel, isa, size), rival.library, own.share or 0))
        if numbers:
            ratio, library, _ = median_low(numbers)
            share = median_low(share for _, _, share in numbers)
            found[text] = ratio, f"{ratio:.2f}  {library}"
            print(f"| {text} | {ratio:.2f} | {library} | {f'{share:.0%}' if share else ''} |")

    plt.rcParams.update({"font.size": 8, "axes.spines.top": False, "axes.spines.right": False})
    figure, axis = plt.subplots(figsize=(8, 0.26 * len(found) + 0.5), layout="constrained")
    ratios = [ratio for ratio, _ in found.values()]
    bars = axis.barh(list(found), ratios, color=["#1b6ca8" if ratio >= 1 else "#d68910" for ratio in ratios])
    axis.bar_label(bars, [label for _, label in found.values()], padding=3, fontsize=7)
    axis.invert_yaxis()
    axis.axvline(1, color="#444444", linewidth=0.8)
    axis.set(xlim=(0, max(ratios) * 1.18), title=f"speed over the fastest peer's, {isa}, one core")
    image = io.BytesIO()
    figure.savefig(image, dpi=110)
    Image.open(image).convert("RGB").quantize(32).save(picture, optimize=True)


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    *sources, picture = map(Path, sys.argv[1:])
    main(sources, picture)
