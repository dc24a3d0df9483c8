"""The wheel's build: setuptools, whose commands let CMake build librapt.so and rapt-validate into the package.

pyproject.toml names this module and its commands.
"""

import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

from setuptools.build_meta import *  # noqa: F403
from setuptools.command.build import build
from setuptools.command.build_py import build_py
from setuptools.command.egg_info import egg_info
from wheel.bdist_wheel import bdist_wheel

ROOT = Path(__file__).resolve().parents[2]
WORK = ROOT / "build" / "python-setuptools"  # its own files, next to CMake's


# MAJOR.MINOR.PATCH
VERSION = ".".join(
    re.findall(r"^#define RAPT_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)", (ROOT / "include/rapt/rapt.h").read_text(), re.M)
)


def cmake(*arguments: object) -> None:
    # CMake's default is make, which a machine with Ninja may lack.
    environment = {"CMAKE_GENERATOR": "Ninja"} if shutil.which("ninja") else {}
    subprocess.run(["cmake", *map(str, arguments)], check=True, env=environment | os.environ)


class BuildWithLibrary(build_py):
    def run(self) -> None:
        super().run()
        # CMake keeps its folder, so that a second wheel only compiles changes.
        build, stage = ROOT / "build" / "python", ROOT / "build" / "python-stage"
        cmake(
            "-S",
            ROOT,
            "-B",
            build,
            "-DCMAKE_BUILD_TYPE=Release",
            "-DBUILD_SHARED_LIBS=ON",
            "-DRAPT_PACKAGE=OFF",
            "-DCMAKE_INSTALL_LIBDIR=lib",
            *shlex.split(os.environ.get("CMAKE_ARGS", "")),
        )
        cmake("--build", build, "--parallel", str(os.cpu_count() or 1))
        shutil.rmtree(stage, ignore_errors=True)
        cmake("--install", build, "--prefix", stage, "--component", "rapt", "--strip")
        # A wheel cannot hold links, so the library has the name under which rapt-validate finds it.
        library = f"lib/librapt.so.{VERSION.rpartition('.')[0]}"
        for file in [library, "bin/rapt-validate"]:
            if (stage / file).exists():
                target = Path(self.build_lib) / "rapt" / file
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(stage / file, target)


class PlatformWheel(bdist_wheel):
    """One wheel per platform serves every Python: ctypes calls the library."""

    def finalize_options(self) -> None:
        super().finalize_options()
        self.root_is_pure = False

    def get_tag(self) -> tuple[str, str, str]:
        return "py3", "none", super().get_tag()[2]


class BuildBeside(build):
    def initialize_options(self) -> None:
        super().initialize_options()
        self.build_base = str(WORK)


class EggInfoBeside(egg_info):
    def initialize_options(self) -> None:
        super().initialize_options()
        WORK.mkdir(parents=True, exist_ok=True)
        self.egg_base = str(WORK)
