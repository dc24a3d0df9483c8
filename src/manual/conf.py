"""Sphinx makes the manual from this folder's pages, the headers' comments (by Doxygen and breathe) and Python's docstrings.

src/manual/build copies the pages next to what it generates, and calls Sphinx there with ROOT, the checkout, in the environment.
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

ROOT = Path(os.environ["ROOT"])
sys.path[:0] = [str(ROOT / "src/python"), str(ROOT / "src/manual")]

from docutils import nodes  # noqa: E402
from reference import write_pages  # noqa: E402
from sphinx import addnodes  # noqa: E402
from sphinx.util.nodes import make_refnode  # noqa: E402

project = "rapt"
copyright = "the authors of rapt"
version = release = ".".join(
    re.findall(r"^#define RAPT_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)", (ROOT / "include/rapt/rapt.h").read_text(), re.M)
)
extensions = ["breathe", "myst_parser", "sphinx.ext.autodoc"]
html_theme = "furo"
html_title = f"rapt {version}"
html_static_path = ["manual.css"]
html_css_files = ["manual.css"]
html_show_sphinx = False
html_copy_source = False
myst_heading_anchors = 3
pygments_style = "tango"
highlight_language = "none"

breathe_projects = {"rapt": str(ROOT / "build/manual/xml")}
breathe_default_project = "rapt"
breathe_domain_by_extension = {"h": "c", "hpp": "cpp"}
breathe_show_include = False

autodoc_member_order = "bysource"
autodoc_mock_imports = ["torch"]  # rapt.torch has a page where PyTorch is not installed, too
autodoc_typehints = "none"

# Types of C and C++ have no page here. breathe's references within templates and docstrings' plain words are no
# targets.
nitpick_ignore_regex = [("c:identifier", r"(size_t|ptrdiff_t|u?int\d+_t)"), ("cpp:.*", r".*"), ("py:.*", r".*")]


def plain_docstring(app, what, name, obj, options, lines: list[str]) -> None:
    """A docstring is plain text: names next to their descriptions are a list, and stars and bars mean themselves."""
    result: list[str] = []
    for paragraph in re.split(r"\n\s*\n", "\n".join(lines).strip("\n")):
        rows = paragraph.split("\n")
        if rows[0].startswith(">>>"):
            result += rows
        elif entries := _columns(rows):
            for names, description in entries:
                result += [", ".join(f"``{word}``" for word in names.split(", ")), "   " + _plain(description)]
        elif any(row.startswith("  ") for row in rows):
            result += ["::", "", *("  " + row for row in rows)]
        else:
            result += [_plain(row) for row in rows]
        result.append("")
    lines[:] = result


def _columns(rows: list[str]) -> list[list[str]]:
    """Pairs of rows such as "name   description", which may go on in indented rows. Of another paragraph, nothing."""
    entries: list[list[str]] = []
    for row in rows:
        if match := re.match(r"(\S(?:.*?\S)?) {2,}(\S.*)", row):
            entries.append([match[1], match[2]])
        elif row.startswith("  ") and entries:
            entries[-1][1] += " " + row.strip()
        else:
            return []
    return entries


def _plain(text: str) -> str:
    return re.sub(r"(`+)([^`]+)\1|([*_|\\])", lambda match: f"``{match[2]}``" if match[2] else "\\" + match[3], text)


def without_numbers(app, what, name, obj, skip, options) -> bool | None:
    """A named tuple's fields, and what a call of an object does, are in the text of its class. Python says less of them."""
    return True if (getattr(obj, "__doc__", None) or "").startswith(("Alias for field", "Call self")) else None


def link_names(app, doctree) -> None:
    """A name in the text of a page leads to its entry: `rapt_rope`, `rapt_force_isa("avx2")`, `RAPT_F32`, `rapt.softmax`."""
    for node in list(doctree.findall(nodes.literal)):
        name = re.fullmatch(r"((?:rapt_|RAPT_|rapt\.)\w+)(?:\(.*\))?", node.astext())
        if name and isinstance(node.parent, nodes.paragraph):
            domain, role = ("py", "obj") if name[1].startswith("rapt.") else ("c", "identifier")
            link = addnodes.pending_xref("", node.deepcopy(), refdomain=domain, reftype=role, reftarget=name[1])
            link["refdoc"] = link["of_text"] = app.env.docname
            node.replace_self(link)


def link_to_entry(app, env, node, content):
    """What Sphinx has not found: an enumerator, or a function for all types, which has the entry for f32."""
    if not node.get("of_text"):
        return None
    places = {name.rpartition(".")[2]: place for name, _, _, *place, _ in env.get_domain("c").get_objects()}
    for ending in ("", "_f32", "_f16_to_f32"):
        if place := places.get(node["reftarget"] + ending):
            return make_refnode(app.builder, node["refdoc"], *place, content)
    return content if node["reftarget"].startswith("RAPT_") else None  # options of CMake; others are misspelt


def tidy_structs(app, doctree) -> None:
    """Fields without a heading come first, and only headings that say something stay."""
    for section in list(doctree.findall(nodes.container)):
        if "breathe-sectiondef" not in section["classes"]:
            continue
        if section["objtype"] != "user-defined":
            for title in list(section.findall(nodes.rubric)):
                title.parent.remove(title)
            parent = section.parent
            first = next(i for i, child in enumerate(parent) if "breathe-sectiondef" in child.get("classes", ()))
            parent.remove(section)
            parent.insert(first, section)


def setup(app) -> None:
    write_pages(ROOT, Path(app.srcdir))
    app.connect("autodoc-skip-member", without_numbers)
    app.connect("autodoc-process-docstring", plain_docstring)
    app.connect("doctree-read", tidy_structs)
    app.connect("doctree-read", link_names)
    app.connect("missing-reference", link_to_entry)
