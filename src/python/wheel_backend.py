"""The wheel's build: setuptools, and one more command, by which CMake builds librapt.so.

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
from typing import Any, NoReturn

from setuptools import Command, build_meta
from setuptools.build_meta import *  # noqa: F403
from setuptools.command.build import build
from setuptools.command.egg_info import egg_info

try:
    from setuptools.command.bdist_wheel import bdist_wheel
except ImportError:  # before setuptools 70.1
    try:
        from wheel.bdist_wheel import bdist_wheel
    except ImportError:
        bdist_wheel = Command  # which ends with a sentence

ROOT = Path(__file__).resolve().parents[2]

# MAJOR.MINOR.PATCH
VERSION = ".".join(
    re.findall(r"^#define RAPT_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)", (ROOT / "include/rapt/rapt.h").read_text(), re.M)
)

LICENSE = "Apache-2.0"
LIBRARY = f"lib/librapt.so.{VERSION.rpartition('.')[0]}"
# For programs, and for the kernels that `python -m rapt.torch --build` compiles. An editable install has the
# checkout's.
HEADERS = ("include/rapt/parallel.h", "include/rapt/parallel.hpp", "include/rapt/rapt.h", "include/rapt/rapt.hpp")

# The wheel's tag, and the newest version of the C library that it allows. The library needs no other versions of
# symbols.
MANYLINUX, NEWEST = "manylinux_2_17", (2, 17)

OLDEST_CMAKE = (3, 22)

# Python reads it when it starts: children of a program may then do as their parent.
AT_START = "rapt.pth"

# What a wheel is made of, next to the package's modules, and rapt-validate, which CMake alone builds: it needs files of
# tests.
SOURCES = (
    *("CHANGELOG.md", "CMakeLists.txt", "LICENSE", "README.md", "pyproject.toml"),
    *("cmake", "include", "src"),
    *(
        "tests/calls",
        "tests/examples/decoder",
        "tests/examples/decoder.cpp",
        "tests/oracle",
        "tests/support",
        "tests/validate",
    ),
)
NO_SOURCES = ("src/manual", "src/python/examples", "src/python/rapt/lib")

# The only setting of pip's --config-settings that is rapt's own: the levels to compile.
SETTING = "RAPT_LEVELS"
settings: dict[str, str] = {}

# What CMake keeps in a build folder although the environment may have changed since.
KEPT = ("CC", "CXX", "CFLAGS", "CXXFLAGS", "LDFLAGS", "CMAKE_GENERATOR", "CMAKE_TOOLCHAIN_FILE")


@functools.cache
def work_folder() -> Path:
    """setuptools' files have a new folder in each build, so that a deleted module does not stay in the next wheel."""
    folder = Path(tempfile.mkdtemp(prefix="rapt-wheel-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def fail(sentence: str) -> NoReturn:
    """Without a traceback, which setuptools would write for an exception of its own in an editable install."""
    raise SystemExit(f"error: {sentence}")


def cmake(*arguments: object, **how: Any) -> str:
    """What CMake wrote, if `how` says that it goes to a pipe."""
    if not shutil.which("cmake"):
        fail(
            "rapt is compiled by CMake, which PATH lacks: install it, such as by `apt-get install cmake` or `pip install "
            "cmake`. `pip install .` without --no-build-isolation does that by itself"
        )
    # CMake's default is make, which a machine with Ninja may lack.
    environment = {"CMAKE_GENERATOR": "Ninja"} if shutil.which("ninja") else {}
    done = subprocess.run(["cmake", *map(str, arguments)], env=environment | os.environ, text=True, **how)
    if done.returncode:
        if done.stdout:
            print(done.stdout, flush=True)
        fail(
            f"CMake ended with status {done.returncode}, and says above why. Its options are those of CMAKE_ARGS in the environment"
        )
    return done.stdout or ""


def missing_tools() -> list[str]:
    """PyPI's packages of what PATH lacks."""
    missing = []
    if cmake_version() < OLDEST_CMAKE:
        missing.append(f"cmake>={'.'.join(map(str, OLDEST_CMAKE))}")
    is_make = any(map(shutil.which, ("make", "gmake"))) and not os.environ.get("CMAKE_GENERATOR", "").startswith(
        "Ninja"
    )
    if not is_make and not shutil.which("ninja"):
        missing.append("ninja")
    return missing


def cmake_version() -> tuple[int, ...]:
    try:
        text = subprocess.run(["cmake", "--version"], capture_output=True, text=True).stdout
    except OSError:
        return ()
    return tuple(map(int, re.findall(r"\d+", text)[:2]))


def take_settings(config_settings: Any) -> None:
    """For setuptools, which runs in this process. A misspelt setting would compile all levels, and so is an error."""
    given = {name: text for name, text in (config_settings or {}).items() if "rapt" in name.lower()}
    for name in given:
        if name != SETTING:
            fail(
                f"rapt has no setting {name}: {SETTING} is the only one, and CMAKE_ARGS in the environment has CMake's options"
            )
        settings[name] = given[name] if isinstance(given[name], str) else ",".join(given[name])


def build_wheel(wheel_directory: str, config_settings: Any = None, metadata_directory: str | None = None) -> str:
    take_settings(config_settings)
    name: str = build_meta.build_wheel(wheel_directory, config_settings, metadata_directory)
    return name


def build_editable(wheel_directory: str, config_settings: Any = None, metadata_directory: str | None = None) -> str:
    take_settings(config_settings)
    name: str = build_meta.build_editable(wheel_directory, config_settings, metadata_directory)
    return name


def get_requires_for_build_wheel(config_settings: Any = None) -> list[str]:
    take_settings(config_settings)
    return [*build_meta.get_requires_for_build_wheel(config_settings), *missing_tools()]


def get_requires_for_build_editable(config_settings: Any = None) -> list[str]:
    take_settings(config_settings)
    return [*build_meta.get_requires_for_build_editable(config_settings), *missing_tools()]


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """One process at a time is in here: a second one waits."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def build_with_cmake(stage: Path) -> None:
    """Installs the library into the folder `stage`."""
    # The first one replaces what a build folder's cache may have; each of the others replaces those before it.
    options = ["-DRAPT_LEVELS=", *shlex.split(os.environ.get("CMAKE_ARGS", ""))]
    if settings:
        options.append(f"-D{SETTING}={settings[SETTING]}")
    # CMake keeps its folder, so that a second wheel compiles changes only. Other options have another folder, because
    # CMake would remember these.
    kept = repr([str(ROOT), options, [os.environ.get(name) for name in KEPT]])
    folder = ROOT / "build" / f"python-{hashlib.sha256(kept.encode()).hexdigest()[:8]}"
    with locked(folder.with_suffix(".lock")):
        report = cmake(
            "-S",
            ROOT,
            "-B",
            folder,
            "-DCMAKE_BUILD_TYPE=Release",
            "-DBUILD_SHARED_LIBS=ON",
            "-DRAPT_PACKAGE=OFF",
            "-DRAPT_BUILD_VALIDATE=OFF",  # a program of C++, which needs a newer system
            "-DCMAKE_INSTALL_LIBDIR=lib",
            *options,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        # `pip install -v` shows this, and of it first what is compiled and how long that takes.
        facts = re.findall(r"^-- (rapt: (?:levels|\d).*)", report, re.M)
        print(*facts, f"rapt: --config-settings={SETTING}=avx2 chooses levels", report, sep="\n", flush=True)
        refuse_fewer_levels(folder, options)
        jobs = os.environ.get("CMAKE_BUILD_PARALLEL_LEVEL") or os.cpu_count() or 1
        cmake("--build", folder, "--parallel", jobs)
        cmake("--install", folder, "--prefix", stage, "--component", "rapt", "--strip")
    if not (stage / LIBRARY).is_file():
        fail(f"CMake installed no {LIBRARY}, without which rapt cannot be imported; see CMAKE_ARGS")


def refuse_fewer_levels(folder: Path, options: list[str]) -> None:
    """A wheel lacks levels only if pip's caller named the others: a file that CMake reads may name some too."""
    left_out = re.search("^# left out: (.*)", (folder / "rapt_levels.txt").read_text(), re.M)
    if left_out and not re.search(rf" -D ?{SETTING}(:\w+)?=[^ ]", " ".join(options)):
        fail(
            f"this library would lack the levels {left_out[1]}, and nobody asked for fewer: CMake's cache, a toolchain file "
            f"or the like in {folder} names {SETTING}. If this is what you want, say so: --config-settings={SETTING}=avx2"
        )


def put(source: Path, target: Path) -> None:
    """Makes `target` the only file of its folder. A process that has loaded the file before keeps the old one."""
    target.parent.mkdir(parents=True, exist_ok=True)
    for old in target.parent.iterdir():
        if old != target:
            old.unlink()
    new = target.with_name(target.name + ".new")
    shutil.copy(source, new)
    new.replace(target)


class BuildLibrary(Command):
    """The library goes into the wheel's package. For `pip install -e` it goes into the checkout's, which git ignores."""

    description = "build librapt.so with CMake"
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
        put(stage / LIBRARY, self.package() / LIBRARY)
        if not self.editable_mode:
            shutil.copy(ROOT / "src/python" / AT_START, self.package().parent / AT_START)
            for header in HEADERS:
                (self.package() / header).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(ROOT / header, self.package() / header)

    def get_outputs(self) -> list[str]:
        return list(self.get_output_mapping())

    def get_output_mapping(self) -> dict[str, str]:
        names = [f"rapt/{name}" for name in (LIBRARY, *HEADERS)] + [AT_START]
        files = {f"{self.build_lib}/{name}": self.package().parent / name for name in names}
        return {name: str(file) for name, file in files.items() if file.exists()}

    def get_source_files(self) -> list[str]:
        """The files of the source distribution."""
        paths = [path for name in SOURCES for path in (ROOT / name, *(ROOT / name).rglob("*")) if path.is_file()]
        names = [path.relative_to(ROOT) for path in paths if path.suffix != ".pyc"]
        return [str(name) for name in names if not any(name.is_relative_to(folder) for folder in NO_SOURCES)]


class BuildWithLibrary(build):
    sub_commands = [("build_library", None), *build.sub_commands]  # what takes minutes is first, and says so

    def initialize_options(self) -> None:
        super().initialize_options()
        self.build_base = str(work_folder())
        # Files of one platform belong into platlib, which setuptools chooses by this answer.
        self.distribution.has_ext_modules = lambda: True


class EggInfoBeside(egg_info):
    """Nothing is written next to the sources. The licence is here, because no form of pyproject.toml serves all setuptools."""

    def initialize_options(self) -> None:
        super().initialize_options()
        metadata = self.distribution.metadata
        setattr(metadata, "license_expression" if hasattr(metadata, "license_expression") else "license", LICENSE)
        self.egg_base = str(work_folder())


class PlatformWheel(bdist_wheel):
    """One wheel per platform serves every Python: ctypes calls the library."""

    def initialize_options(self) -> None:
        if bdist_wheel is Command:
            fail(
                "wheels are built by setuptools 70.1 or newer, or by an older one and the package wheel: pip install wheel"
            )
        super().initialize_options()

    def finalize_options(self) -> None:
        super().finalize_options()
        self.root_is_pure = False

    def get_tag(self) -> tuple[str, str, str]:
        platform = super().get_tag()[2]
        if platform.startswith("linux_"):
            library = self.get_finalized_command("build_library")
            libraries = [
                Path(file) for file in library.get_output_mapping() if file.endswith(LIBRARY) and Path(file).exists()
            ]
            platform = platform.replace("linux", manylinux(libraries), 1)
        return "py3", "none", platform


def manylinux(libraries: list[Path]) -> str:
    """The wheel's tag if it allows the libraries' symbols, and "linux", which is this machine's, if not."""
    try:
        needed = [version for library in libraries for version in needed_versions(library)]
    except (OSError, subprocess.CalledProcessError):
        return "linux"
    # An editable install has no library, and musl has no versions.
    return MANYLINUX if needed and all(name == "GLIBC" and number <= NEWEST for name, number in needed) else "linux"


def needed_versions(library: Path) -> set[tuple[str, tuple[int, ...]]]:
    """The versions of other libraries' symbols, such as ("GLIBC", (2, 34))."""
    text = subprocess.run(
        ["readelf", "--version-info", "--wide", library],
        check=True,
        capture_output=True,
        text=True,
        env=os.environ | {"LC_ALL": "C"},
    ).stdout
    names = re.findall(r"Name: (\S+)  Flags", text.partition("Version needs section")[2])
    parts = [name.rpartition("_") for name in names]
    return {(name, tuple(int(part) for part in number.split(".") if part.isdigit())) for name, _, number in parts}
