"""Writes the pages of the reference: one for each group of the headers, and those of Python."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable
from pathlib import Path

HEADERS = {
    "rapt.h": ("C", "c"),
    "parallel.h": ("C, on threads", "c"),
    "rapt.hpp": ("C++", "cpp"),
    "parallel.hpp": ("C++, on threads", "cpp"),
}
PYTHON = {  # pages, with the beginnings of their names, in this order
    "attention": ("Attention", "attention pack_keys Gradients"),
    "experts": ("Mixtures of experts", "linear_experts expert_ pack_experts PackedExperts ExpertLists"),
    "linear": (
        "Linear layers",
        "linear matmul bmm pack_weights unpack_weights pack_quantized unpack_quantized pack_blocks unpack_blocks pack_gptq pack_awq packed_rows quantize_rows dequantize_rows PackedWeights",
    ),
    "norms": ("Norms, gated activations and rotary positions", "rms_norm layer_norm NormStatistics gated rope"),
    "rows": ("Rows", "softmax log_softmax logsumexp cross_entropy"),
    "search": ("Embeddings and vector search", "top_k TopK similarity metric_pointer mean_pool normalize"),
    "convolutions": ("Convolutions", "conv1d conv2d conv3d conv_transpose conv_input conv_weight causal_conv1d"),
    "reductions": (
        "Reductions",
        "sum mean var std prod norm min max argmin cumsum cumprod cumulative_ index_add embedding_",
    ),
    "map": (
        "Elementwise functions",
        "sqrt rsqrt reciprocal exp2 expm1 log sin cos tan erf sigmoid softplus mish elu celu selu hard relu clamp clip add subtract multiply divide pow atan2 fma lerp",
    ),
    "solve": ("Triangular systems", "solve_triangular"),
    "delta": ("The delta rule", "delta_rule DeltaGradients"),
    "training": ("Optimizers and random numbers", "adamw_step sgd_step random_"),
    "vectors": ("Vectors", "silu gelu argmax dot scale convert exp"),
    "hash": ("Hashes of arrays", "hash"),
    "prepare": ("Prepared calls", "prepare Prepared"),
    "levels": ("Levels and versions", "isa kernel_isa force_isa version bits_version"),
}


def write_pages(root: Path, out: Path) -> None:
    for header, (title, domain) in HEADERS.items():
        path = root / "include/rapt" / header
        if path.exists():
            _write_header(path, title, domain, out)
    _write_python(root, out)


def _write_header(path: Path, title: str, domain: str, out: Path) -> None:
    folder = out / "reference" / path.name.replace(".", "_")
    folder.mkdir(parents=True, exist_ok=True)
    text = path.read_text()
    groups = re.findall(r"\\defgroup (\w+) (.*?)(?: \*/)?$", text, re.M)
    for group, name in groups:
        part = re.split(r"\\defgroup ", text[text.index(f"\\defgroup {group} ") + 1 :], 1)[0]
        content = _declarations(part) if domain == "c" else _group(group, part)
        page = f"{name}\n{'=' * len(name)}\n\n{content}"
        _write(folder / f"{group}.rst", page)
    heading = f"{title}: {path.name}"
    label = path.name.replace(".", "_8")  # Doxygen's, which the comments' mentions of a header lead to
    index = f".. _{label}:\n\n{heading}\n{'=' * len(heading)}\n\n.. code-block:: {domain}\n\n   #include <rapt/{path.name}>\n\n"
    index += (
        ".. toctree::\n   :maxdepth: 1\n\n" + "".join(f"   {group}\n" for group, _ in groups) + "\n" if groups else ""
    )
    index += f".. doxygenfile:: {path.name}\n   :sections: detaileddescription\n   :no-link:\n\n"
    if path.name == "rapt.h":
        versions = [f"RAPT_{name}" for name in ("VERSION_MAJOR", "VERSION_MINOR", "VERSION_PATCH", "BITS_VERSION")]
        index += "".join(f".. doxygendefine:: {name}\n\n" for name in versions)
    if not groups and domain == "c":
        index += _declarations(text)
    _write(folder / "index.rst", index)


def _declarations(part: str) -> str:
    """The names of C in the header's order, an option's struct before its functions."""
    part = re.sub(r"/\*.*?\*/", "", part, flags=re.S)
    kinds = {
        "define": r"#define (RAPT_\w+)",
        "function": r"(?:RAPT_API|RAPT_INLINE) [^;{(]*?\b(rapt_\w+)\(",
        "typedef": r"typedef (?!struct|enum)[^;(]*(?:\(\*|\b)(\w+)(?:;|\)\()",
        "struct": r"typedef struct (\w+) \{",
        "enum": r"enum (\w+) \{",
    }
    places = [
        (match.start(), kind, match[1]) for kind, line in kinds.items() for match in re.finditer("^" + line, part, re.M)
    ]
    return "".join(
        f".. doxygen{kind}:: {name}\n" + ("   :members:\n" if kind == "struct" else "") + "\n"
        for _, kind, name in sorted(places)
        if name not in ("RAPT_API", "RAPT_INLINE", "RAPT_STRIDE") and not name.endswith("_H")
    )


def _group(group: str, part: str) -> str:
    """A group of C++. breathe knows no concepts: their comments come from the header."""
    found = re.findall(r"((?:^///.*\n)+)template <class (\w+)>\nconcept (\w+) =", part, re.M)
    content = f".. doxygengroup:: {group}\n   :content-only:\n   :members:\n"
    return (
        _introduction(part)
        + content
        + "".join(
            f"\n.. cpp:concept:: template <class {parameter}> rapt::{name}\n\n   "
            + " ".join(line[3:].strip() for line in comment.splitlines())
            + "\n"
            for comment, parameter, name in found
        )
    )


def _introduction(part: str) -> str:
    """What a group's comment says of all its members: breathe shows it only below the group's internal name."""
    lines = [line[3:].removeprefix(" ") for line in part.split("/// \\{")[0].splitlines()[1:] if line.startswith("///")]
    text, inside = "", False
    for line in lines:
        if line == "~~~":
            inside = not inside
            text += "\n.. code-block:: cpp\n\n" if inside else "\n"
        else:
            text += line + "\n"  # code is indented in the comment, too
    return text + "\n"


def names_of_torch(package: Path) -> list[str]:
    """Of rapt.torch: read, because to import it needs PyTorch."""
    names: list[str] = ast.literal_eval(re.search(r"__all__ = (\[.*?\])", (package / "torch.py").read_text(), re.S)[1])
    return names


def _write_python(root: Path, out: Path) -> None:
    import rapt

    folder = out / "reference/python"
    folder.mkdir(parents=True, exist_ok=True)
    left = list(rapt.__all__)
    pages = []
    for page, (title, beginnings) in PYTHON.items():
        names = [name for beginning in beginnings.split() for name in left if name.startswith(beginning)]
        left = [name for name in left if name not in names]
        text = f"{title}\n{'=' * len(title)}\n\n.. currentmodule:: rapt\n\n"
        for name in names:
            thing = getattr(rapt, name)
            kind = "class" if isinstance(thing, type) else "function"
            text += (
                f".. auto{kind}:: {name}{_signature(thing)}\n" + ("   :members:\n" if kind == "class" else "") + "\n"
            )
        _write(folder / f"{page}.rst", text)
        pages.append(page)
    if left:
        raise SystemExit(f"no page of Python has {', '.join(left)}")
    names = names_of_torch(root / "src/python/rapt")
    kinds = {name: "class" if name[0].isupper() else "function" for name in names}
    entries = "".join(f".. auto{kind}:: rapt.torch.{name}\n\n" for name, kind in kinds.items())
    _write(
        folder / "torch.rst",
        "Gradients for PyTorch: rapt.torch\n=================================\n\n.. automodule:: rapt.torch\n\n"
        + entries,
    )
    pages.append("torch")
    index = "Python: rapt\n============\n\n.. automodule:: rapt\n\n.. toctree::\n\n"
    _write(folder / "index.rst", index + "".join(f"   {page}\n" for page in pages))


def _signature(thing: Callable[..., object]) -> str:
    """One signature without types in place of all overloads, and without the addresses of functions."""
    signature = inspect.signature(thing)
    parameters = [parameter.replace(annotation=parameter.empty) for parameter in signature.parameters.values()]
    return re.sub("=<.*?>", "=...", str(signature.replace(parameters=parameters, return_annotation=signature.empty)))


def _write(path: Path, text: str) -> None:
    """Keeps an unchanged page's time, so that Sphinx does not read it again."""
    if not path.exists() or path.read_text() != text:
        path.write_text(text)
