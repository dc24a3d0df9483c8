"""The programs of an installed wheel."""

import hashlib
import subprocess

import numpy as np

import rapt


def test_attention(random, tmp_path):
    tensors = [random.normal(size=(2, 4, 8)).astype(np.float32) for _ in "qkv"]
    for name, tensor in zip("qkv", tensors):
        np.save(tmp_path / f"{name}.npy", tensor)
    result = subprocess.run(["rapt-attention", "q.npy", "k.npy", "v.npy"], cwd=tmp_path, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    assert result.stdout.split()[0] == hashlib.sha256(rapt.attention(*tensors).tobytes()).hexdigest()


def test_validate():
    result = subprocess.run(["rapt-validate", "--quick", "--kernel", "dot_f32"], capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr
