"""The blocks of Python in README.md and the manual."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rapt

SOURCE = Path(__file__).resolve().parents[2]
README = (SOURCE / "README.md").read_text()


def test_blocks(capsys: pytest.CaptureFixture[str]) -> None:
    blocks = re.findall(r"^```python\n(.*?)^```\n\n```text\n(.*?)^```", README, re.M | re.S)
    assert blocks
    for code, text in blocks:
        exec(compile(code, "README.md", "exec"), {})
        # The instruction set is this machine's.
        assert capsys.readouterr().out == text.replace("avx512", rapt.isa())


def test_every_block_has_an_output() -> None:
    assert README.count("```python") == len(re.findall(r"^```python\n[^`]*^```\n\n```text\n", README, re.M))


def test_blocks_of_the_manual() -> None:
    page = (SOURCE / "src/manual/other_languages.md").read_text()
    section = page.split("\n## Python\n")[1].split("\n## ")[0]
    blocks = re.findall(r"^```python\n(.*?)^```", section, re.M | re.S)
    assert len(blocks) == 2
    names: dict[str, Any] = {}  # the second block continues the first
    for code in blocks:
        exec(compile(code, "other_languages.md", "exec"), names)
    x, small = names["x"], names["small"]
    assert (names["y"] == rapt.linear(x, small)).all()
    assert rapt.linear(x, small, arithmetic="i8").shape == (5, 128)


def test_blocks_of_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (SOURCE / "src/manual/linear_layers.md").read_text()
    blocks = re.findall(r"^```python\n(.*?)^```", page, re.M | re.S)
    assert len(blocks) == 1
    file = np.random.default_rng(1).integers(0, 128, (100, 2 * 144)).astype(np.uint8)
    file[:, [1, 3, 145, 147]] = 30  # exponents of f16
    (tmp_path / "model.gguf").write_bytes(b"GGUF" + file.tobytes())
    monkeypatch.chdir(tmp_path)
    x = np.ones((5, 512), np.float32)
    names: dict[str, Any] = {"np": np, "rapt": rapt, "x": x, "offset": 4, "out_features": 100, "in_features": 512}
    exec(compile(blocks[0], "linear_layers.md", "exec"), names)
    assert (names["y"] == rapt.linear(x, rapt.pack_blocks(file, "Q4_K"))).all()
    assert (rapt.unpack_blocks(names["packed"]) == file).all()
    assert rapt.linear(x, names["packed"], arithmetic="i8").shape == (5, 100)


def test_first_page_of_the_manual() -> None:
    blocks = re.findall(r"^```python\n(.*?)^```", (SOURCE / "src/manual/index.md").read_text(), re.M | re.S)
    assert len(blocks) == 1
    names: dict[str, Any] = {}
    exec(compile(blocks[0], "index.md", "exec"), names)
    assert (names["out"] == names["q"]).all()  # queries, keys and values are equal
