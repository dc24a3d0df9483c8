#!/usr/bin/env python3
"""Draws the table of why_sqrt_dk: why_sqrt_dk.py TABLE.csv PICTURE.png"""

import csv
import io
import math
import sys

import matplotlib

matplotlib.use("agg")
import matplotlib.pyplot as plt
from PIL import Image

if len(sys.argv) != 3:
    sys.exit(__doc__)
rows = list(csv.DictReader(open(sys.argv[1])))
scales = {"1/sqrt(d_k)": ("#1b6ca8", "scale 1/√d_k"), "1": ("#c0392b", "no scale"), "1/d_k": ("#d68910", "scale 1/d_k")}
least = 1e-12  # smaller gradients are below the panels
plt.rcParams.update({"font.size": 9, "axes.spines.top": False, "axes.spines.right": False})
figure, ((variance, weight), (scores, queries)) = plt.subplots(
    2, 2, figsize=(8, 5.6), layout="constrained", sharex=True
)


def column(name, sigma, scale):
    own = [row for row in rows if row["sigma"] == sigma and row["scale"] == scale]
    return [int(row["d_k"]) for row in own], [float(row[name]) for row in own]


for scale, (color, label) in scales.items():
    for sigma, style in (("1", {"linestyle": "-", "marker": "o", "markersize": 3}), ("2", {"linestyle": ":"})):
        style = {"color": color, "linewidth": 1.3, **style}
        variance.plot(*column("score_variance", sigma, scale), label=label if sigma == "1" else None, **style)
        weight.plot(*column("largest_weight", sigma, scale), **style)
        for panel, name in ((scores, "score_gradient"), (queries, "query_gradient")):
            d_k, values = column(name, sigma, scale)
            panel.plot(d_k, [max(value, least / 10) for value in values], **style)
    d_k, theory = column("theory", "1", scale)
    variance.plot(d_k, theory, color="#444444", linewidth=0.7, zorder=0)
    slope = round(math.log(theory[-1] / theory[0]) / math.log(d_k[-1] / d_k[0]))
    variance.annotate(
        f"slope {slope}",
        (d_k[-3], theory[-3]),
        xytext=(0, 5),
        textcoords="offset points",
        ha="right",
        color=color,
        fontsize=8,
    )
variance.set(title="variance of the scores, and theory's line", xscale="log", yscale="log", ylim=(1e-4, 1e6))
variance.set_xscale("log", base=2)
weight.set(title="largest of 64 weights", ylim=(0, 1.02))
weight.axhline(1 / 64, color="#444444", linewidth=0.7)
weight.annotate("uniform: 1/64", (4096, 1 / 64), xytext=(0, 4), textcoords="offset points", ha="right", fontsize=8)
entropy = weight.inset_axes([0.64, 0.18, 0.34, 0.28])
for scale, (color, _) in scales.items():
    d_k, nats = column("entropy", "1", scale)
    entropy.semilogx(d_k, [value / math.log(64) for value in nats], color=color, linewidth=1)
entropy.set_title("entropy / log 64", fontsize=7, pad=2)
entropy.set(ylim=(0, 1.05), xticks=[])
entropy.tick_params(labelsize=7)
scores.legend(*variance.get_legend_handles_labels(), frameon=False, loc="lower left")
scores.set(title="gradient of the scores, of the middle row", xlabel="d_k", yscale="log", ylim=(least, 3))
queries.set(title="gradient of q, per element", xlabel="d_k", yscale="log", ylim=(least, 3))
figure.suptitle("entries of variance 1 (solid) and 4 (dotted); 256 queries, 64 keys", fontsize=8, color="#444444")
image = io.BytesIO()
figure.savefig(image, dpi=110)
Image.open(image).convert("RGB").quantize(32).save(sys.argv[2], optimize=True)
