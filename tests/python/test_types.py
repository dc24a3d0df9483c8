"""mypy over the package, typical code, which also runs, the tests and the examples; and mistakes that mypy finds."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import typical
from kinds import Random

import rapt

HERE = Path(__file__).resolve().parent
EXAMPLES = HERE.parents[1] / "src/python/examples"


def mypy(*files: str | Path, cache: Path) -> subprocess.CompletedProcess[str]:
    pytest.importorskip("mypy")
    # mypy finds an installed package by itself, and refuses its folder here.
    folders = [folder for folder in (HERE, EXAMPLES, Path(rapt.__file__).parents[1]) if folder.name != "site-packages"]
    command: list[str | Path] = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", cache, *files]
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        cwd=HERE,
        env={"PATH": "/usr/bin:/bin", "MYPYPATH": ":".join(map(str, folders))},
    )


def test_the_package_and_typical_code(cache: Path) -> None:
    # test_torch.py checks rapt.torch, for which mypy reads PyTorch.
    answer = mypy("--exclude", r"/(_torch_\w+|torch)\.py$", Path(rapt.__file__).parent, "typical.py", cache=cache)
    assert answer.returncode == 0, answer.stdout + answer.stderr


@pytest.mark.skipif("RAPT_WHEEL" in os.environ, reason="mypy reads the tests once, over the package's sources")
def test_the_tests_and_the_examples(cache: Path) -> None:
    # test_torch.py checks itself, and others need a newer PyTorch. The package tokenizers of an example may be missing.
    others = "test_torch", "torch_"
    tests = [file for file in HERE.glob("*.py") if not file.name.startswith(others)]
    answer = mypy("--explicit-package-bases", "--ignore-missing-imports", *tests, EXAMPLES, cache=cache)
    assert answer.returncode == 0, answer.stdout + answer.stderr


MISTAKES = """
rapt.softmax(np.zeros(3), causal="diagonal")
rapt.softmax(np.zeros(3), scale="2")
rapt.softmax(np.zeros(3), axes=1)
rapt.softmax(np.zeros(3), out=[0.0] * 3)
rapt.rope(np.zeros((2, 4)), [1.0, 2.0], layout="neox")
rapt.gated(np.zeros(3), np.zeros(3), "relu")
rapt.rms_norm(np.zeros(3), eps=None)
rapt.tanh(np.zeros(3), 2)
rapt.multiply(np.zeros(3), object())
rapt.clamp(np.zeros(3), "low")
rapt.add(np.zeros(3), 1, alpha="2")
text: str = rapt.softmax(np.zeros(3))
number: int = rapt.prepare(rapt.rms_norm, np.zeros(3))()
rapt.attention(np.zeros((1, 2)), np.zeros((1, 2)), np.zeros((1, 2)), causal="diagonal")
rapt.attention(np.zeros((1, 2)), np.zeros((1, 2)), np.zeros((1, 2)), window=3)
rapt.attention(np.zeros((1, 2)), np.zeros((1, 2)), np.zeros((1, 2)), mask=object())
y, lse = rapt.attention(np.zeros((1, 2)), np.zeros((1, 2)), np.zeros((1, 2)), window_left="3")
text = rapt.attention(np.zeros((1, 2)), np.zeros((1, 2)), np.zeros((1, 2)), return_lse=True)
"""


def test_a_type_checker_finds_mistakes(cache: Path, tmp_path: Path) -> None:
    file = tmp_path / "mistakes.py"
    file.write_text("import numpy as np; import rapt" + MISTAKES)
    found = mypy(file, cache=cache).stdout
    for line, mistake in enumerate(MISTAKES.splitlines()[1:], 2):
        assert f"mistakes.py:{line}: error" in found, mistake + found


def test_tensors_of_torch_have_their_type(cache: Path, tmp_path: Path) -> None:
    file = tmp_path / "tensors.py"
    file.write_text(
        """
import rapt
class Tensor:
    def __dlpack__(self) -> object:
        return self
    def data_ptr(self) -> int:
        return 0
    def requires_grad_(self) -> object:
        return self
    def detach(self) -> "Tensor":
        return self
def f(x: Tensor) -> Tensor:
    y, total = rapt.exp_sum(rapt.softmax(x).detach())
    z, lse = rapt.attention(x, rapt.pack_keys(x), y, packed_keys=True, return_lse=True)
    lse.detach()
    rapt.add(rapt.tanh(x), 2.0, alpha=3).detach()
    rapt.clamp(rapt.relu_backward(x, y), 0.0).detach()
    z = rapt.attention(z, [[1.0]], x, mask=y, out=x).detach()
    return rapt.rms_norm(rapt.prepare(rapt.attention, x, y, z)()).detach()
"""
    )
    answer = mypy(file, cache=cache)
    assert "tensors.py" not in answer.stdout, answer.stdout


def test_typical_code_runs(random: Random) -> None:
    x, gate, up, w = (random.normal(size=(8, 8)).astype(np.float32) for _ in range(4))
    weights = {name: w for name in "qkvo"} | {"norm": np.ones(8, np.float32)}
    assert typical.decoder_layer(x, weights, 2).shape == typical.feed_forward(x, gate, up, w).shape == (8, 8)
    assert len(typical.probabilities(x.tolist(), x > -9)) == 8
    assert typical.many_times(x.copy()) == pytest.approx(24, rel=1e-5)
    assert all(np.isfinite(typical.lengths(x)))
    assert typical.narrow(x).dtype == np.float32 and len(typical.gradients(x, w)) == 6
    assert all(y.shape == (8, 8) for y in typical.elementwise(x, w)) and len(typical.hashes(x)) == 2
    assert rapt.isa() in typical.level()
