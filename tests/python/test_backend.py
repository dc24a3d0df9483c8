"""The wheel's build, as far as nothing is compiled: its tag, what it requires, its licence, and its sentences."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from rapt import _library

SOURCE = Path(__file__).resolve().parents[2]
pytest.importorskip("setuptools")


def backend(code: str, *arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
    """The code of a frontend, which has a process for each call."""
    environment = os.environ | {"PYTHONPATH": str(SOURCE / "src/python")} | environment
    command = [sys.executable, "-c", f"import sys, wheel_backend as backend; {code}", *map(str, arguments)]
    return subprocess.run(command, cwd=SOURCE, env=environment, capture_output=True, text=True)


@pytest.fixture
def tools(tmp_path: Path) -> Any:
    """PATH with these programs alone, of which cmake says its version."""

    def path(*names: str, version: str = "3.22.1") -> str:
        folder = tmp_path / "-".join((*names, version))
        folder.mkdir()
        for name in names:
            (folder / name).write_text(f"#!/bin/sh\necho 'cmake version {version}'\n")
            (folder / name).chmod(0o755)
        return str(folder)

    return path


def test_the_tag_is_that_of_old_systems() -> None:
    if sys.platform != "linux" or os.confstr("CS_GNU_LIBC_VERSION") is None:
        pytest.skip("a system without glibc has no such tag")
    answer = backend("import pathlib; print(backend.manylinux([pathlib.Path(sys.argv[1])]))", _library.C._name)
    assert answer.stdout.strip() == "manylinux_2_17", answer.stderr
    page = (SOURCE / "src/manual/building.md").read_text()
    assert "`manylinux_2_17`" in page and "manylinux_2_34" not in page


def test_tools_that_are_missing_come_from_pip(tools: Any) -> None:
    def missing(path: str, **environment: str) -> list[str]:
        return backend(
            "print(*backend.missing_tools())", **{"CMAKE_GENERATOR": "", "PATH": path, **environment}
        ).stdout.split()

    assert missing(tools("empty")) == ["cmake>=3.22", "ninja"]
    assert missing(tools("cmake", "make")) == missing(tools("cmake", "ninja")) == []
    assert missing(tools("cmake", "gmake"), CMAKE_GENERATOR="Ninja") == ["ninja"]
    assert missing(tools("cmake", "make", version="3.21.4")) == ["cmake>=3.22"]
    assert missing(tools("cmake", "make", version="4.1.0")) == []
    names = ("wheel", "editable", "sdist")
    code = "; ".join(f"print('{name}:', *backend.get_requires_for_build_{name}())" for name in names)
    answer = backend(code, PATH=tools("none"))
    assert answer.returncode == 0, answer.stderr
    lines = [line for line in answer.stdout.splitlines() if line.split(":")[0] in names]
    assert [line.endswith("cmake>=3.22 ninja") for line in lines] == [True, True, False]


def test_without_cmake_there_is_a_sentence(tools: Any, tmp_path: Path) -> None:
    answer = backend("backend.build_with_cmake(backend.Path(sys.argv[1]))", tmp_path, PATH=tools("make"))
    assert answer.returncode == 1
    assert answer.stderr.startswith("error: rapt is compiled by CMake, which PATH lacks: install it, ")
    assert len(answer.stderr.splitlines()) == 1


@pytest.fixture
def configured(tmp_path: Path) -> Any:
    """Builds with a cmake that compiles nothing: its answer, and the levels that it was told to compile, last one first."""
    log = tmp_path / "arguments"
    program = tmp_path / "bin/cmake"
    program.parent.mkdir()
    program.write_text(
        f"""#!/bin/sh
echo "$*" >>{log}
if [ "$1" = -S ]; then
  echo "-- rapt: levels: some"
  echo "-- rapt: 17 files to compile"
  mkdir -p "$4"
  printf '# g++\\nscalar\\n%b' "$LEFT_OUT" >"$4/rapt_levels.txt"
fi
"""
    )
    program.chmod(0o755)

    def build(settings: object, **environment: str) -> tuple[subprocess.CompletedProcess[str], list[str]]:
        log.unlink(missing_ok=True)
        code = "backend.ROOT = backend.Path(sys.argv[1]); backend.take_settings(eval(sys.argv[2])); "
        code += "backend.build_with_cmake(backend.Path(sys.argv[1]))"
        path = f"{program.parent}:{os.environ['PATH']}"
        answer = backend(code, tmp_path, settings, **{"PATH": path, "CMAKE_ARGS": "", "LEFT_OUT": ""} | environment)
        words = log.read_text().splitlines()[0].split() if log.exists() else []
        return answer, [word.removeprefix("-DRAPT_LEVELS=") for word in reversed(words) if "RAPT_LEVELS" in word]

    return build


def test_levels_are_those_of_this_call(configured: Any) -> None:
    """CMake's cache may have others."""
    assert configured(None)[1] == [""]
    assert configured({"RAPT_LEVELS": "avx2"})[1] == ["avx2", ""]
    assert configured({"RAPT_LEVELS": ["avx2", "avx512"], "--build-option": "-q"})[1] == ["avx2,avx512", ""]
    assert configured(None, CMAKE_ARGS="-DRAPT_LEVELS=avx512")[1] == ["avx512", ""]
    assert configured({"RAPT_LEVELS": "avx2"}, CMAKE_ARGS="-DRAPT_LEVELS=avx512")[1] == ["avx2", "avx512", ""]


def test_a_misspelt_setting_has_a_sentence(configured: Any) -> None:
    for name in ("RAPT_LEVEL", "rapt.levels", "-DRAPT_LEVELS"):
        answer, levels = configured({name: "avx2"})
        assert answer.returncode == 1 and not levels
        assert answer.stderr.startswith(f"error: rapt has no setting {name}: RAPT_LEVELS is the only one, ")
    code = "print(backend.get_requires_for_build_{}({{'RAPT_LEVEL': 'avx2'}}))"
    assert [backend(code.format(name)).returncode for name in ("wheel", "editable")] == [1, 1]


def test_levels_that_nobody_left_out_are_missed(configured: Any) -> None:
    lacks = {"LEFT_OUT": "# left out: avx512 amx\n"}
    for options in ("", "-DRAPT_LEVELS=", "-DCMAKE_TOOLCHAIN_FILE=RAPT_LEVELS=avx2"):
        answer, _ = configured(None, CMAKE_ARGS=options, **lacks)
        assert answer.returncode == 1
        assert answer.stderr.startswith(
            "error: this library would lack the levels avx512 amx, and nobody asked for fewer"
        )
    asked: list[tuple[dict[str, str] | None, str]] = [({"RAPT_LEVELS": "avx2"}, "")]
    asked += [(None, option) for option in ("-DRAPT_LEVELS=avx2", "-D RAPT_LEVELS=avx2", "-DRAPT_LEVELS:STRING=avx2")]
    for settings, options in asked:
        answer, _ = configured(settings, CMAKE_ARGS=options, **lacks)
        assert answer.stderr.startswith("error: CMake installed no lib/librapt.so."), answer.stderr  # the next step


def test_what_is_compiled_is_said_first(configured: Any) -> None:
    lines = configured(None)[0].stdout.splitlines()
    assert lines[:2] == ["rapt: levels: some", "rapt: 17 files to compile"]
    assert lines[2].startswith("rapt: --config-settings=RAPT_LEVELS=")


def test_the_licence_and_what_a_wheel_needs(tmp_path: Path) -> None:
    """Debian 12's setuptools has no form of pyproject.toml for the licence that later ones keep."""
    if importlib.util.find_spec("wheel") is None:
        import setuptools

        if int(setuptools.__version__.split(".")[0]) < 71:
            answer = backend("backend.prepare_metadata_for_build_wheel(sys.argv[1])", tmp_path)
            assert answer.returncode == 1 and "\nerror: wheels are built by setuptools 70.1 or newer" in answer.stderr
            return
    answer = backend("backend.prepare_metadata_for_build_wheel(sys.argv[1])", tmp_path)
    assert answer.returncode == 0, answer.stderr
    assert "deprecated" not in answer.stderr.lower()
    (metadata,) = tmp_path.glob("*.dist-info/METADATA")
    lines = metadata.read_text().splitlines()
    assert "License-Expression: Apache-2.0" in lines or "License: Apache-2.0" in lines
    assert "License-File: LICENSE" in lines and not any("License ::" in line for line in lines)
    programs = (metadata.parent / "entry_points.txt").read_text()
    assert "rapt-attention = " in programs and "rapt-validate" not in programs
