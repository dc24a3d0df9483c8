"""The kernels of torch_kernels/ in C++: how they are compiled for the PyTorch of this installation, and called.

They take the common calls of an operator in the place of Python's kernels, without its 10 to 50 microseconds. They are compiled
against the headers that come with PyTorch, because its stable interface has no numbers such as the alpha of an addition.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from ctypes import byref, c_char_p, c_int64, c_size_t
from pathlib import Path
from typing import Any

import torch

from ._library import C

_PACKAGE = Path(__file__).resolve().parent
SOURCES = _PACKAGE / "torch_kernels"
# The operators that add_*() in C++ replace, but for linear, which hands other calls to PyTorch.
OPERATORS = (
    frozenset(
        """
    scaled_dot_product_attention _scaled_dot_product_flash_attention_for_cpu mm addmm bmm
    _softmax _log_softmax native_layer_norm sum.dim_IntList mean.dim _softmax_backward_data _log_softmax_backward_data native_layer_norm_backward silu_backward tanh_backward
    sigmoid_backward gelu_backward addcmul_ addcdiv_ lerp_.Scalar gelu pow.Tensor_Scalar add.Tensor add_.Tensor sub.Tensor sub_.Tensor
    """.split()
    )
    | {
        f"{name}{place}"
        for name in "sqrt rsqrt exp exp2 expm1 log log2 log1p sin cos tan tanh erf sigmoid silu".split()
        for place in ("", "_")
    }
)


# Those with a kernel above PyTorch's gradients.
ABOVE = ("linear", "scaled_dot_product_attention")
OLDEST = (2, 10)  # whose threads a library may use


def version() -> tuple[int, ...]:
    """Of PyTorch: major and minor."""
    return tuple(int(part) for part in torch.__version__.split("+")[0].split(".")[:2])


def _headers() -> Path:
    """rapt.h's folder: in the package, or in the checkout that the package is read from."""
    inside = _PACKAGE / "include"
    return inside if inside.is_dir() else _PACKAGE.parents[2] / "include"


def _files() -> list[Path]:
    return sorted([*SOURCES.glob("*.[ch]pp"), *(_headers() / "rapt").glob("*.h")])


@functools.cache
def _digest() -> str:
    digest = hashlib.sha256(torch.__version__.encode())
    for file in _files():
        digest.update(file.read_bytes())
    return digest.hexdigest()[:16]


def path() -> Path:
    """Where the compiled kernels are, if they are: for these sources and this PyTorch."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "rapt" / f"torch-{torch.__version__}-{_digest()}.so"


def _run(command: list[str]) -> None:
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        raise RuntimeError(f"{command[0]} ended with status {done.returncode}:\n{done.stdout}")


def build() -> Path:
    """Compiles the kernels, in about a minute of one core. It needs a compiler of C++17, of which CXX may be the name."""
    target = path()
    if target.is_file():
        return target
    if version() < OLDEST:
        raise RuntimeError(
            f"the kernels in C++ need PyTorch {OLDEST[0]}.{OLDEST[1]} or later, and this is {torch.__version__}"
        )
    found = [name for name in ("c++", "g++", "clang++") if shutil.which(name)]
    compiler = os.environ.get("CXX", "") or (found[0] if found else "")
    if not compiler:
        raise RuntimeError("there is no compiler of C++: PATH has neither c++ nor g++ nor clang++, and CXX names none")
    installed = Path(torch.__file__).parent
    includes = [f"-I{_headers()}", "-isystem", str(installed / "include")]
    includes += ["-isystem", str(installed / "include/torch/csrc/api/include")]
    abi = f"-D_GLIBCXX_USE_CXX11_ABI={int(getattr(torch._C, '_GLIBCXX_USE_CXX11_ABI', True))}"
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        sources = sorted(SOURCES.glob("*.cpp"))
        objects = [str(Path(folder) / source.with_suffix(".o").name) for source in sources]
        flags = ["-O2", "-std=c++17", "-fPIC", "-fvisibility=hidden", abi, *includes, "-c"]
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            list(pool.map(lambda pair: _run([compiler, *flags, str(pair[0]), "-o", pair[1]]), zip(sources, objects)))
        # Another process may do the same: the name belongs to a whole file at any time.
        new = target.with_name(f"{target.name}.{os.getpid()}")
        libraries = [f"-L{installed / 'lib'}", "-ltorch_cpu", "-lc10", str(C._name)]
        _run([compiler, "-shared", *objects, "-o", str(new), *libraries])
        new.replace(target)
    return target


_RELEASE = ctypes.CFUNCTYPE(ctypes.c_bool, ctypes.c_void_p, c_size_t)


class _Loaded:
    library: Any = None
    release: Any = None  # which C++ may call


def is_built() -> bool:
    return _Loaded.library is not None or path().is_file()


def load() -> None:
    """Once in a process: PyTorch keeps what the kernels have looked up."""
    if _Loaded.library is not None:
        return
    library = ctypes.CDLL(str(path()))
    library.rapt_torch_start.restype = c_char_p
    library.rapt_torch_calls.restype = c_char_p
    library.rapt_torch_calls.argtypes = [c_size_t, ctypes.POINTER(c_int64)]
    library.rapt_torch_set_pack_limit.argtypes = [c_int64, _RELEASE]
    library.rapt_torch_packed_count.restype = c_int64
    _Loaded.library = library


def start() -> None:
    reason = _Loaded.library.rapt_torch_start()
    if reason is not None:
        raise RuntimeError(f"the kernels in C++ do not fit PyTorch {torch.__version__}: {reason.decode()}")


def stop() -> None:
    _Loaded.library.rapt_torch_stop()


def calls() -> Iterator[tuple[str, int]]:
    if _Loaded.library is None:
        return
    count, index = c_int64(), 0
    while (name := _Loaded.library.rapt_torch_calls(index, byref(count))) is not None:
        yield name.decode(), count.value
        index += 1


def forget_calls() -> None:
    if _Loaded.library is not None:
        _Loaded.library.rapt_torch_forget_calls()


def set_limit(limit: int | None, release: Callable[[int, int], bool] | None) -> None:
    """`release` gets address and length of weights that have been packed. It says whether it has given them back."""
    if _Loaded.library is not None:
        _Loaded.release = _RELEASE(release) if release else ctypes.cast(0, _RELEASE)
        _Loaded.library.rapt_torch_set_pack_limit(-1 if limit is None else limit, _Loaded.release)


def clear_packed() -> None:
    if _Loaded.library is not None:
        _Loaded.library.rapt_torch_clear_packed()


def packed_count() -> int:
    return 0 if _Loaded.library is None else int(_Loaded.library.rapt_torch_packed_count())
