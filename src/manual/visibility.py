#!/usr/bin/env python3
"""Draws which keys a query sees, and where packed keys lie, as the library itself says: visibility.py FOLDER"""

import sys
from pathlib import Path

import matplotlib
import numpy as np

matplotlib.use("agg")
import matplotlib.pyplot as plt  # noqa: E402

import rapt  # noqa: E402

QUERIES, KEYS = 6, 10
PICTURES = {
    "causal": [{}, {"causal": "bottom_right"}, {"causal": "top_left"}, {"causal_offset": 2}],
    "windows": [
        {"window_left": 3},
        {"causal": "bottom_right", "window_left": 3},
        {"window_left": 3, "window_right": 2},
        {"causal": "bottom_right", "window_chunk": 4},
    ],
    "lengths": [
        {"kv_lengths": [7]},
        {"kv_lengths": [7], "causal": "bottom_right"},
        {"kv_lengths": [7], "causal": "top_left"},
        {"kv_lengths": [7], "causal": "bottom_right", "window_left": 3},
    ],
    "padding": [
        {"kv_starts": [3]},
        {"kv_starts": [3], "q_starts": [2]},
        {"kv_starts": [3], "causal": "top_left"},
        {"kv_starts": [3], "causal": "bottom_right", "window_chunk": 4},
    ],
}


def seen(**options: object) -> np.ndarray:
    """[query][key], True where the query sees the key."""
    q, k = np.zeros((1, 1, QUERIES, 4), np.float32), np.zeros((1, 1, KEYS, 4), np.float32)
    return rapt.attention(q, k, np.eye(KEYS, dtype=np.float32)[None, None], **options)[0, 0] > 0


def draw_packed_keys(folder: Path) -> None:
    """Numbers stand for places in memory: keys [tokens][dim] hold their own, and pack_keys moves them."""
    tokens, dim, shown = 128, 3, 8
    keys = np.arange(tokens * dim, dtype=np.float32).reshape(tokens, dim)
    place = np.empty(tokens * dim, np.intp)
    place[rapt.pack_keys(keys).reshape(-1).astype(np.intp)] = np.arange(tokens * dim)
    columns = [*range(shown // 2), *range(64, 64 + shown // 2)]
    figure, axes = plt.subplots(1, 2, figsize=(8.8, 1.5), layout="constrained")
    for axis, title, places in zip(
        axes, ("k, rows of 3", "packed"), (keys.astype(np.intp), place.reshape(tokens, dim))
    ):
        cells = places[columns].T
        axis.pcolormesh(cells, cmap="Blues", vmin=-200, vmax=tokens * dim, edgecolors="white", linewidth=1)
        for row, column in np.ndindex(cells.shape):
            axis.text(column + 0.5, row + 0.5, cells[row, column], ha="center", va="center", fontsize=7)
        axis.set(xticks=np.arange(shown) + 0.5, yticks=np.arange(dim) + 0.5)
        axis.set_xticklabels([f"key {column}" for column in columns], fontsize=6)
        axis.set_yticklabels([f"dimension {row}" for row in range(dim)], fontsize=6)
        axis.tick_params(length=0)
        axis.invert_yaxis()
        axis.set_title(title, fontsize=7)
    figure.savefig(folder / "packed.png", dpi=110)


def main(folder: Path) -> None:
    plt.rcParams.update({"font.size": 8})
    draw_packed_keys(folder)
    for name, cases in PICTURES.items():
        figure, axes = plt.subplots(1, len(cases), figsize=(8.8, 2.0), layout="constrained")
        for axis, options in zip(axes, cases):
            axis.pcolormesh(seen(**options), cmap="Blues", vmin=0, vmax=1.6, edgecolors="white", linewidth=1)
            axis.set(aspect="equal", xticks=[], yticks=[])
            axis.invert_yaxis()
            text = "\n".join(f"{key} = {value}" for key, value in options.items()) or "no option"
            axis.set_title(text, fontsize=7)
        axes[0].set(xlabel="keys", ylabel="queries")
        figure.savefig(folder / f"{name}.png", dpi=110)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(Path(sys.argv[1]))
