#!/usr/bin/env python3
"""Draws the curves of the training test: loss and gradient of the scores by step, for three scales.

RAPT_TRAINING_CURVES=curves.csv <build>/tests/rapt_training_test
tests/training/plot.py curves.csv tests/training/scale.png
"""
import csv
import io
import sys

import matplotlib

matplotlib.use("agg")
import matplotlib.pyplot as plt
from PIL import Image

if len(sys.argv) != 3:
    sys.exit(__doc__)
rows = list(csv.DictReader(open(sys.argv[1])))
styles = {"1/sqrt(d_k)": ("#1b6ca8", "scale 1/√d_k"), "1": ("#c0392b", "no scale"), "1/d_k": ("#d68910", "scale 1/d_k")}
plt.rcParams.update({"font.size": 9, "axes.spines.top": False, "axes.spines.right": False})
figure, (left, right) = plt.subplots(1, 2, figsize=(8, 2.9), layout="constrained")
for name, (color, label) in styles.items():
    own = [r for r in rows if r["scale"] == name]
    steps = [int(r["step"]) for r in own]
    smooth, losses = None, []
    for r in own:
        loss = float(r["loss"])
        smooth = loss if smooth is None else 0.8 * smooth + 0.2 * loss
        losses.append(smooth)
    left.plot(steps, losses, color=color, label=label, linewidth=1.4)
    right.plot(steps, [max(float(r["score_gradient"]), 1e-30) for r in own], color=color, label=label, linewidth=1)
left.set(xlabel="step", ylabel="cross-entropy, nats (smoothed)", ylim=(0, None))
left.legend(frameon=False)
right.set(xlabel="step", ylabel="norm of the gradient of the scores", yscale="log", ylim=(1e-9, None))
image = io.BytesIO()
figure.savefig(image, dpi=110)
Image.open(image).convert("RGB").quantize(32).save(sys.argv[2], optimize=True)
