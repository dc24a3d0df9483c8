"""python -m rapt.torch --demo: how many answers a small model has on this machine, with PyTorch's kernels and with rapt's.

Each way to run it is a process: PyTorch takes its instruction set from the environment when it starts. The model is a
transformer of two layers in float32 with random weights, of which one row counts: alone, and in a batch with longer rows.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import torch

import rapt

from . import _torch_enable

WIDTH, LENGTH, ROWS = 256, 24, 8


def _model() -> Any:
    nn: Any = torch.nn
    layer = nn.TransformerEncoderLayer(WIDTH, 4, 4 * WIDTH, activation="gelu", batch_first=True)
    model = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
    with torch.no_grad():
        for seed, parameter in enumerate(model.parameters()):  # PyTorch's own normal numbers vary, too
            numbers = rapt.random_normal(tuple(parameter.shape), seed=seed)
            parameter.copy_(torch.from_numpy(numbers) * 0.05 + float(parameter.dim() == 1))
    return model.eval()


def _hashes(model: Any) -> list[str]:
    """Of a row of half the length: alone, and in a batch that pads it."""
    x = torch.from_numpy(rapt.random_normal((ROWS, LENGTH, WIDTH), seed=99))
    padding = torch.zeros(ROWS, LENGTH, dtype=torch.bool)
    padding[0, LENGTH // 2 :] = True
    with torch.no_grad():
        alone = model(x[:1, : LENGTH // 2])
        batch = model(x, src_key_padding_mask=padding)[:1, : LENGTH // 2]
    return [f"{rapt.hash(y.contiguous().numpy()) & 0xFFFFFFFF:08x}" for y in (alone, batch)]


def _one_way(threads: int) -> None:
    torch.set_num_threads(threads)
    model = _model()
    stock = _hashes(model)
    with _torch_enable.enabled(strict=True):
        print(json.dumps(stock + _hashes(model)))


def instruction_sets() -> list[str]:
    """Those that this CPU has: PyTorch believes ATEN_CPU_CAPABILITY, and would end with an illegal instruction."""
    info = Path("/proc/cpuinfo")
    flags = info.read_text().split() if info.exists() else []
    known = {"avx2": ("avx2", "fma"), "avx512": ("avx512bw", "avx512vl", "avx512dq")}
    return ["default", *(name for name, needed in known.items() if set(needed) <= set(flags))]


def demo() -> None:
    columns = ["PyTorch alone", "in a batch", "rapt alone", "in a batch"]
    print(f"{'instruction set, threads':26}" + "".join(f"{name:>15}" for name in columns), flush=True)
    stock, ours = set(), set()
    for instruction_set in instruction_sets():
        for threads in (1, 2):
            command = [sys.executable, "-m", "rapt._torch_demo", str(threads)]
            environment = {**os.environ, "ATEN_CPU_CAPABILITY": instruction_set, "RAPT_TORCH": "0"}
            done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
            hashes = json.loads(done.stdout.splitlines()[-1])
            stock.update(hashes[:2])
            ours.update(hashes[2:])
            print(f"{instruction_set + ', ' + str(threads):26}" + "".join(f"{one:>15}" for one in hashes), flush=True)
    print(f"answers of PyTorch {torch.__version__}: {len(stock)}, of rapt: {len(ours)}")


if __name__ == "__main__":
    _one_way(int(sys.argv[1]))
