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

from reference import write_pages  # noqa: E402

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

# Types of C and C++ have no page here. breathe's references within templates and docstrings' plain words are no targets.
nitpick_ignore_regex = [("c:identifier", r"(size_t|ptrdiff_t|u?int\d+_t)"), ("cpp:.*", r".*"), ("py:.*", r".*")]


def literal_columns(app, what, name, obj, options, lines: list[str]) -> None:
    """A docstring is plain text: paragraphs with columns keep their places, and stars and bars mean themselves."""
    paragraphs = re.split(r"\n\s*\n", "\n".join(lines).strip("\n"))
    result: list[str] = []
    for paragraph in paragraphs:
        rows = paragraph.split("\n")
        if any(re.match(r" {2}", row) or re.search(r"\S {2,}\S", row) for row in rows):
            result += ["::", "", *("  " + row for row in rows), ""]
        else:
            result += [re.sub(r"(`+)([^`]+)\1|([*_|\\])", _plain, row) for row in rows] + [""]
    lines[:] = result


def _plain(match: re.Match[str]) -> str:
    return f"``{match[2]}``" if match[2] else "\\" + match[3]


def without_numbers(app, what, name, obj, skip, options) -> bool | None:
    """A named tuple's fields are in the text of its class; what Python says of them is only their number."""
    return True if (getattr(obj, "__doc__", None) or "").startswith("Alias for field") else None


def setup(app) -> None:
    write_pages(ROOT, Path(app.srcdir))
    app.connect("autodoc-skip-member", without_numbers)
    app.connect("autodoc-process-docstring", literal_columns)
