"""The wheel's build: setuptools, and one more command, by which CMake builds librapt.so and rapt-validate.

pyproject.toml names this module and its commands.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import functools
import hashlib
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from setuptools import Command
from setuptools.build_meta import *  # noqa: F403
from setuptools.command.build import build
from setuptools.command.egg_info import egg_info
from setuptools.errors import SetupError
from wheel.bdist_wheel import bdist_wheel

ROOT = Path(__file__).resolve().parents[2]

# MAJOR.MINOR.PATCH
VERSION = ".".join(
    re.findall(r"^#define RAPT_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)", (ROOT / "include/rapt/rapt.h").read_text(), re.M)
)

# A wheel cannot hold links, so the library has the name under which rapt-validate finds it.
LIBRARY = f"lib/librapt.so.{VERSION.rpartition('.')[0]}"
VALIDATE = "bin/rapt-validate"  # left out of a build that lacks its headers

# The newest versions of symbols that each tag allows, by auditwheel's table.
MANYLINUX = {
    "manylinux_2_17": {"GLIBC": (2, 17), "GLIBCXX": (3, 4, 19), "CXXABI": (1, 3, 7), "GCC": (4, 8, 0)},
    "manylinux_2_34": {"GLIBC": (2, 34), "GLIBCXX": (3, 4, 29), "CXXABI": (1, 3, 13), "GCC": (7, 0, 0)},
}

# What a wheel is made of, next to the package's modules. rapt-validate is made of files of tests.
SOURCES = (
    *("CHANGELOG.md", "CMakeLists.txt", "LICENSE", "README.md", "pyproject.toml"),
    *("cmake", "include", "src"),
    *("tests/examples/decoder", "tests/examples/decoder.cpp", "tests/oracle", "tests/support", "tests/validate"),
)
NO_SOURCES = ("cmake/recipes", "src/manual", "src/python/examples", "src/python/rapt/bin", "src/python/rapt/lib")

# What CMake keeps in a build folder although the environment may have changed since.
KEPT = ("CC", "CXX", "CFLAGS", "CXXFLAGS", "LDFLAGS", "CMAKE_GENERATOR", "CMAKE_TOOLCHAIN_FILE")


@functools.cache
def work_folder() -> Path:
    """setuptools' files have a new folder in each build, so that a deleted module does not stay in the next wheel."""
    folder = Path(tempfile.mkdtemp(prefix="rapt-wheel-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def cmake(*arguments: object) -> None:
    # CMake's default is make, which a machine with Ninja may lack.
    environment = {"CMAKE_GENERATOR": "Ninja"} if shutil.which("ninja") else {}
    subprocess.run(["cmake", *map(str, arguments)], check=True, env=environment | os.environ)


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """One process at a time is in here: a second one waits."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def build_with_cmake(stage: Path) -> None:
    """Installs the library and rapt-validate into the folder `stage`."""
    options = shlex.split(os.environ.get("CMAKE_ARGS", ""))
    # CMake keeps its folder, so that a second wheel compiles changes only. Other options have another folder, because
    # CMake would remember these.
    kept = repr([str(ROOT), options, [os.environ.get(name) for name in KEPT]])
    folder = ROOT / "build" / f"python-{hashlib.sha256(kept.encode()).hexdigest()[:8]}"
    with locked(folder.with_suffix(".lock")):
        cmake(
            "-S",
            ROOT,
            "-B",
            folder,
            "-DCMAKE_BUILD_TYPE=Release",
            "-DBUILD_SHARED_LIBS=ON",
            "-DRAPT_PACKAGE=OFF",
            "-DCMAKE_INSTALL_LIBDIR=lib",
            *options,
        )
        jobs = os.environ.get("CMAKE_BUILD_PARALLEL_LEVEL") or os.cpu_count() or 1
        cmake("--build", folder, "--parallel", jobs)
        cmake("--install", folder, "--prefix", stage, "--component", "rapt", "--strip")
    if not (stage / LIBRARY).is_file():
        raise SetupError(f"CMake installed no {LIBRARY}, without which rapt cannot be imported; see CMAKE_ARGS")


def put(source: Path, target: Path) -> None:
    """Makes `target` the only file of its folder. A process that has loaded the file before keeps the old one."""
    target.parent.mkdir(parents=True, exist_ok=True)
    for old in target.parent.iterdir():
        if old != target:
            old.unlink()
    if source.exists():
        new = target.with_name(target.name + ".new")
        shutil.copy(source, new)
        new.replace(target)
    else:
        target.unlink(missing_ok=True)


class BuildLibrary(Command):
    """The library goes into the wheel's package. For `pip install -e` it goes into the checkout's, which git ignores."""

    description = "build librapt.so and rapt-validate with CMake"
    user_options: list[tuple[str, str | None, str]] = []

    def initialize_options(self) -> None:
        self.editable_mode = False
        self.build_lib: str | None = None

    def finalize_options(self) -> None:
        self.set_undefined_options("build_py", ("build_lib", "build_lib"))

    def package(self) -> Path:
        return (ROOT / "src" / "python" if self.editable_mode else Path(self.build_lib or "")) / "rapt"

    def run(self) -> None:
        stage = Path(tempfile.mkdtemp(dir=work_folder()))
        build_with_cmake(stage)
        for file in (LIBRARY, VALIDATE):
            put(stage / file, self.package() / file)

    def get_outputs(self) -> list[str]:
        return list(self.get_output_mapping())

    def get_output_mapping(self) -> dict[str, str]:
        files = [file for file in (LIBRARY, VALIDATE) if (self.package() / file).exists()]
        return {f"{self.build_lib}/rapt/{file}": str(self.package() / file) for file in files}

    def get_source_files(self) -> list[str]:
        """The files of the source distribution."""
        paths = [path for name in SOURCES for path in (ROOT / name, *(ROOT / name).rglob("*")) if path.is_file()]
        names = [path.relative_to(ROOT) for path in paths if path.suffix != ".pyc"]
        return [str(name) for name in names if not any(name.is_relative_to(folder) for folder in NO_SOURCES)]


class BuildWithLibrary(build):
    sub_commands = [*build.sub_commands, ("build_library", None)]

    def initialize_options(self) -> None:
        super().initialize_options()
        self.build_base = str(work_folder())
        # Files of one platform belong into platlib, which setuptools chooses by this answer.
        self.distribution.has_ext_modules = lambda: True


class EggInfoBeside(egg_info):
    """Nothing is written next to the sources."""

    def initialize_options(self) -> None:
        super().initialize_options()
        self.egg_base = str(work_folder())


class PlatformWheel(bdist_wheel):
    """One wheel per platform serves every Python: ctypes calls the library."""

    def finalize_options(self) -> None:
        super().finalize_options()
        self.root_is_pure = False

    def get_tag(self) -> tuple[str, str, str]:
        platform = super().get_tag()[2]
        if platform.startswith("linux_"):
            library = self.get_finalized_command("build_library")
            programs = [Path(file) for file in library.get_output_mapping() if Path(file).exists()]
            platform = platform.replace("linux", manylinux(programs), 1)
        return "py3", "none", platform


def manylinux(programs: list[Path]) -> str:
    """The oldest tag that allows every program's symbols; "linux", which is this machine's, where none is known to."""
    try:
        needed = [version for program in programs for version in needed_versions(program)]
    except (OSError, subprocess.CalledProcessError):
        return "linux"
    if not any(name == "GLIBC" for name, _ in needed):  # an editable install has no programs; musl has no versions
        return "linux"
    for tag, newest in MANYLINUX.items():
        if all(name in newest and number <= newest[name] for name, number in needed):
            return tag
    return "linux"


def needed_versions(program: Path) -> set[tuple[str, tuple[int, ...]]]:
    """The versions of other libraries' symbols, such as ("GLIBC", (2, 34))."""
    text = subprocess.run(
        ["readelf", "--version-info", "--wide", program],
        check=True,
        capture_output=True,
        text=True,
        env=os.environ | {"LC_ALL": "C"},
    ).stdout
    names = re.findall(r"Name: (\S+)  Flags", text.partition("Version needs section")[2])
    parts = [name.rpartition("_") for name in names]
    return {(name, tuple(int(part) for part in number.split(".") if part.isdigit())) for name, _, number in parts}
