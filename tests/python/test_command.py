"""rapt-attention."""

import hashlib

import numpy as np
import pytest

import rapt
from rapt._command import main


@pytest.fixture
def files(tmp_path, random):
    arrays = {name: random.normal(size=(2, 4, 8)).astype(np.float32) for name in "qkv"}
    arrays["sinks"] = np.array([0.5, -1], np.float32)
    for name, array in arrays.items():
        np.save(tmp_path / f"{name}.npy", array)
    return tmp_path, arrays


def test_the_result_and_its_hash(files, capsys):
    folder, arrays = files
    tensors = [str(folder / f"{x}.npy") for x in "qkv"]
    assert main([*tensors, "-o", str(folder / "out.npy"), "--lse", str(folder / "lse.npy"), "--causal", "--scale", "0.5",
                 "--sinks", str(folder / "sinks.npy")]) == 0  # fmt: skip
    out, lse = rapt.attention(
        *(arrays[x] for x in "qkv"), causal=True, scale=0.5, sinks=arrays["sinks"], return_lse=True
    )
    assert np.array_equal(np.load(folder / "out.npy"), out) and np.array_equal(np.load(folder / "lse.npy"), lse)
    assert capsys.readouterr().out.split()[0] == hashlib.sha256(out.tobytes()).hexdigest()


def test_every_level_prints_the_same_hash(files, capsys):
    folder, _ = files
    tensors = [str(folder / f"{x}.npy") for x in "qkv"]
    try:
        for name, usable in rapt.isas().items():
            if usable:
                assert main([*tensors, "--isa", name, "--threads", "2"]) == 0
    finally:
        rapt.force_isa(None)
    hashes = {line.split()[0] for line in capsys.readouterr().out.splitlines()}
    assert len(hashes) == 1


@pytest.mark.parametrize("change, words", [(["--softcap", "-1"], "softcap"), (["--isa", "avx1024"], "instruction set"),
                                           (["--mask", "absent.npy"], "absent.npy")])  # fmt: skip
def test_errors(files, capsys, change, words):
    folder, _ = files
    assert main([*(str(folder / f"{x}.npy") for x in "qkv"), *change]) == 1
    assert words in capsys.readouterr().err
