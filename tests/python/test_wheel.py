"""The wheel that run.sh names in RAPT_WHEEL, and the programs of its installation."""

import hashlib
import os
import platform
import re
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kinds import Random

import rapt
from rapt import _library

# What manylinux_2_17 allows, by PEP 600: the newest symbols, and the libraries that a library of C may need.
TAG = "manylinux_2_17"
NEWEST = {"GLIBC": (2, 17)}
LIBRARIES = {"libc.so.6", "libm.so.6", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"}
LIBRARY = f"lib/librapt.so.{rapt.version().rpartition('.')[0]}"
WHEEL = Path(os.environ["RAPT_WHEEL"])


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("wheel")
    zipfile.ZipFile(WHEEL).extractall(folder)
    return folder


def test_it_is_the_installed_one() -> None:
    installed = Path(rapt.__file__).parent
    assert installed.is_relative_to(sys.prefix)
    assert Path(_library.C._name) == installed / LIBRARY


def test_files(unpacked: Path) -> None:
    """Nothing is in NAME.data, where the files of purelib and the rest of a mixed wheel would be."""
    assert {file.name for file in unpacked.iterdir()} == {"rapt", "rapt.pth", f"rapt-{rapt.version()}.dist-info"}
    root = Path(__file__).resolve().parents[2] / "src/python/rapt"
    expected = {file.name for file in [*root.glob("*.py"), root / "py.typed"]}
    assert {file.name for file in (unpacked / "rapt").iterdir()} == expected | {"include", "lib", "torch_kernels"}
    sources = {file.name for file in (root / "torch_kernels").iterdir()}
    assert {file.name for file in (unpacked / "rapt/torch_kernels").iterdir()} == sources
    headers = {file.name for file in (root.parents[2] / "include/rapt").iterdir()}
    assert {file.name for file in (unpacked / "rapt/include/rapt").iterdir()} == headers
    assert list((unpacked / "rapt/lib").iterdir()) == [unpacked / "rapt" / LIBRARY]


def test_tags(unpacked: Path) -> None:
    lines = (unpacked / f"rapt-{rapt.version()}.dist-info" / "WHEEL").read_text().splitlines()
    assert "Root-Is-Purelib: false" in lines
    tags = [line.removeprefix("Tag: ") for line in lines if line.startswith("Tag: ")]
    assert [WHEEL.name] == [f"rapt-{rapt.version()}-{tag}.whl" for tag in tags]
    if platform.libc_ver()[0] == "glibc":
        assert tags == [f"py3-none-{TAG}_{platform.machine()}"]


@pytest.mark.skipif(TAG not in WHEEL.name, reason="a wheel of this system has no manylinux tag")
def test_symbols_are_those_that_the_tag_allows(unpacked: Path) -> None:
    text = subprocess.check_output(["objdump", "-p", unpacked / "rapt" / LIBRARY], text=True)
    needed = set(re.findall(r"NEEDED +(\S+)", text))
    assert "libc.so.6" in needed
    assert needed <= LIBRARIES
    versions = re.findall(r"^ +0x\w+ 0x\w+ \d+ (\w+)_([\d.]+)$", text.partition("Version References:")[2], re.M)
    assert "GLIBC" in dict(versions)
    for name, version in versions:
        assert tuple(map(int, version.split("."))) <= NEWEST[name], f"{LIBRARY} needs {name}_{version}"


def test_attention(random: Random, tmp_path: Path) -> None:
    tensors = [random.normal(size=(2, 4, 8)).astype(np.float32) for _ in "qkv"]
    for name, tensor in zip("qkv", tensors):
        np.save(tmp_path / f"{name}.npy", tensor)
    result = subprocess.run(["rapt-attention", "q.npy", "k.npy", "v.npy"], cwd=tmp_path, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    assert result.stdout.split()[0] == hashlib.sha256(rapt.attention(*tensors).tobytes()).hexdigest()
