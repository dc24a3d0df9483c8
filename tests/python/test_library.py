"""The structs of ctypes against rapt.h, and the wheel's parts."""

import ctypes
import os
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

import pytest

import rapt
from rapt import _gated, _library, _rope
from rapt._status import Status

ROOT = Path(__file__).resolve().parents[2]
STRUCTS: dict[str, type[ctypes.Structure]] = {"rapt_softmax_options": _library.SoftmaxOptions, "rapt_attention_options": _library.AttentionOptions,
           "rapt_attention_gradients": _library.AttentionGradients, "rapt_gated_options": _library.GatedOptions,
           "rapt_linear_options": _library.LinearOptions, "rapt_rope_options": _library.RopeOptions,
           "rapt_linear_batch_options": _library.LinearBatchOptions,
           "rapt_embedding_bag_options": _library.EmbeddingBagOptions,
           "rapt_expert_options": _library.ExpertOptions, "rapt_expert_sum_options": _library.ExpertSumOptions,
           "rapt_rope_frequency_options": _library.RopeFrequencyOptions,
           "rapt_norm_options": _library.NormOptions, "rapt_map_options": _library.MapOptions,
           "rapt_reduce_options": _library.ReduceOptions,
           "rapt_scan_options": _library.ScanOptions,
           "rapt_cross_entropy_options": _library.CrossEntropyOptions,
           "rapt_index_add_options": _library.IndexAddOptions,
           "rapt_triangular_solve_options": _library.TriangularSolveOptions,
           "rapt_causal_convolution_options": _library.CausalConvolutionOptions,
           "rapt_delta_rule_options": _library.DeltaRuleOptions,
           "rapt_delta_rule_gradients": _library.DeltaRuleGradients,
           "rapt_state_strides": _library.StateStrides,
           "rapt_search_options": _library.SearchOptions, "rapt_mean_pool_options": _library.MeanPoolOptions,
           "rapt_normalize_options": _library.NormalizeOptions,
           "rapt_convolution_options": _library.ConvolutionOptions,
           "rapt_norm_backward_options": _library.NormBackwardOptions}  # fmt: skip


def printed(folder: Path, statements: str) -> Any:
    """The numbers of each line that a program of C prints, which includes rapt.h."""
    source, program = folder / "program.c", folder / "program"
    source.write_text(f"#include <stdio.h>\n#include <rapt/rapt.h>\nint main(void) {{ {statements} return 0; }}")
    subprocess.run([os.environ.get("CC", "cc"), "-I", ROOT / "include", source, "-o", program], check=True)
    return [tuple(map(int, line.split())) for line in subprocess.check_output([program], text=True).splitlines()]


@pytest.mark.parametrize("name", STRUCTS)
def test_struct_is_that_of_the_header(name: str, tmp_path: Path) -> None:
    struct = STRUCTS[name]
    prints = "".join(
        f'printf("%zu %zu\\n", offsetof({name}, {field}), sizeof(x.{field}));' for field, *_ in struct._fields_
    )
    lines = printed(tmp_path, f'{name} x; printf("%zu 0\\n", sizeof x); {prints}')
    assert lines[0][0] == ctypes.sizeof(struct)
    for (field, *_), line in zip(struct._fields_, lines[1:], strict=True):
        assert line == (getattr(struct, field).offset, getattr(struct, field).size), field


def test_numbers_are_those_of_the_header(tmp_path: Path) -> None:
    """By the names of rapt.h: a name that it lacks does not compile."""
    numbers = {f"RAPT_BAD_{name}": status.value for name, status in Status.__members__.items()}
    numbers |= {
        f"RAPT_{name}": getattr(_library, name)
        for name in ("F32", "F64", "F16", "BF16", "I8", "I4", "U4", "U8", "REPEAT")
    }
    numbers |= {f"RAPT_{name}": of.number for name, of in _library.BLOCKS.items()}
    kinds: dict[str, Mapping[Any, int]] = {
        "CAUSAL": _library.CAUSAL,
        "ARITHMETIC": _library.ARITHMETIC,
        "METRIC": _library.METRIC,
        "ROPE": _rope.LAYOUTS,
        "ROPE_SCALING": _library.ROPE_TYPES,
    }
    for prefix, choices in kinds.items():
        numbers |= {f"RAPT_{prefix}_{name.upper()}": number for name, number in choices.items() if name}
    numbers |= {f"RAPT_{name.upper()}": number for name, number in _library.ACTIVATION.items()}
    numbers |= {f"RAPT_MAP_{name.upper()}": map.number for name, map in _library.MAP.items()}
    numbers["RAPT_MAX_DIMS"] = _library.MAX_DIMS
    numbers["RAPT_ROPE_SCALING_NONE"] = numbers.pop("RAPT_ROPE_SCALING_DEFAULT")
    assert len(numbers) > 50
    lines = printed(tmp_path, "".join(f'printf("%lld\\n", (long long){name});' for name in numbers))
    assert [number for number, in lines] == list(numbers.values())


def test_activations_are_those_of_the_list() -> None:
    rows = re.findall(r"^ACTIVATION\((\w+),", (ROOT / "src/contract/activations.def").read_text(), re.M)
    assert len(rows) >= 3 and _library.ACTIVATION == {name: number for number, name in enumerate(rows)}
    assert list(get_args(_gated.Activation)) == rows
    assert all(hasattr(rapt, name) and hasattr(rapt, f"{name}_backward") for name in rows)


def test_every_function_of_the_header_is_declared() -> None:
    header = (ROOT / "include/rapt/rapt.h").read_text()
    names = set(re.findall(r"^RAPT_API [^(]*?\b(rapt_\w+)\(", header, re.M))
    undeclared = {
        name
        for name in names
        if not getattr(_library.C, name).argtypes
        and name not in {"rapt_version", "rapt_bits_version", "rapt_isa_count", "rapt_isa_status", "rapt_active_isa"}
    }
    assert len(names) > 40 and not undeclared


def test_library_has_the_name_of_the_platform(tmp_path: Path) -> None:
    names = {"linux": "librapt.so.0.3", "darwin": "librapt.0.3.dylib", "win32": "librapt.dll"}
    assert [_library.library_in(tmp_path, platform) for platform in names] == [None, None, None]
    for name in [*names.values(), "librapt.a", "librapt.dll.a"]:
        (tmp_path / name).touch()
    for platform, name in names.items():
        assert _library.library_in(tmp_path, platform) == tmp_path / name
    (tmp_path / "rapt.dll").touch()
    assert _library.library_in(tmp_path, "win32") == tmp_path / "rapt.dll"


def test_library_that_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    here = _library.C._name
    monkeypatch.setattr(_library, "library_in", lambda *arguments: tmp_path / "librapt.so")  # the wheel's, broken
    monkeypatch.setenv("RAPT_LIBRARY", here)
    assert _library._load()._name == here
    monkeypatch.delenv("RAPT_LIBRARY")
    with pytest.raises(OSError):
        _library._load()
    monkeypatch.setattr(_library, "library_in", lambda *arguments: None)
    with pytest.raises(ImportError, match="RAPT_LIBRARY"):
        _library._load()


def test_versions() -> None:
    header = (ROOT / "include/rapt/rapt.h").read_text()
    numbers = re.findall(r"#define RAPT_VERSION_\w+ (\d+)", header)
    assert rapt.version() == rapt.__version__ == ".".join(numbers)
    assert re.findall(r"#define RAPT_BITS_VERSION (\d+)", header) == [str(rapt.bits_version())]


def test_levels() -> None:
    levels = rapt.isas()
    assert levels["scalar"] and levels[rapt.isa()]
    try:
        usable = [name for name, is_usable in levels.items() if is_usable]
        for name in usable:
            rapt.force_isa(name)
            assert rapt.isa() == name
        rapt.force_isa("scalar")
        rapt.force_isa(None)
        assert rapt.isa() == usable[-1]
        rapt.force_isa("scalar")
        assert rapt.isa() == rapt.kernel_isa("softmax_f32") == "scalar"
        with pytest.raises(ValueError, match="avx1024|instruction set"):
            rapt.force_isa("avx1024")
        with pytest.raises(TypeError, match="name is 3, not the name of a level"):
            rapt.force_isa(3)  # type: ignore[arg-type]
        assert rapt.isa() == "scalar"
    finally:
        rapt.force_isa(None)
    assert rapt.kernel_isa("softmin_f32") is None
