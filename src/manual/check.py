"""check.py HTML_DIR INCLUDE_DIR: every link leads to a place, and every public name of C, C++ and Python has a description.

The names come from the headers and from rapt itself, not from what the generators found.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import rapt
from reference import names_of_torch

VOID = {"area", "base", "br", "col", "hr", "img", "input", "link", "meta", "source", "wbr"}
TITLES = r"Public (Members|Functions)|Values:"  # of the parts of a struct or enum, which describe nothing
NOT_PUBLIC = {"RAPT_API", "RAPT_INLINE", "RAPT_STRIDE"}


class Page(HTMLParser):
    """The links and places of a page, and the words below every entry, by (language, qualified name)."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.places: set[str | None] = set()
        self.links: list[str] = []
        self.entries: dict[tuple[str, str], str] = {}
        self._language: list[str] = []  # of the lists of entries around this place, "" for other lists
        self._names: list[str] = []  # of the entries around this place
        self._stack: list[tuple[str, bool, bool]] = []  # tag, is it a name, is it a description
        self.feed(path.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        self.places |= {attributes.get("id"), attributes.get("name")}
        self.links += [value for name in ("href", "src") if (value := attributes.get(name))]
        if tag in VOID:
            return
        classes = (attributes.get("class") or "").split()
        if tag == "dl":
            self._language.append(classes[0] if classes and classes[0] in ("c", "cpp", "py") else "")
            self._names.append("")
        language = self._language[-1] if self._language else ""
        if "descname" in classes:
            self._names[-1] = ""  # the last name of an entry is its own; a template's parameters are before it
        if tag == "dd" and any(self._language):
            self._add(" ")  # between a list's name and its description
        description = tag == "dd" and bool(language)
        if description:
            self.entries.setdefault((language, self._name()), "")
        self._stack.append((tag, "descname" in classes, description))

    def handle_endtag(self, tag: str) -> None:
        while self._stack and self._stack.pop()[0] != tag:
            pass
        if tag == "dl":
            self._language.pop()
            self._names.pop()

    def handle_data(self, data: str) -> None:
        if not self._names or not self._language[-1]:
            if self._language and any(self._language):
                self._add(data)  # a list within a description
            return
        if any(is_name for _, is_name, _ in self._stack):
            self._names[-1] += data.strip()
        elif any(tag == "dt" for tag, *_ in self._stack[-8:]) and not self._stack[-1][2]:
            return
        else:
            self._add(data)

    def _add(self, data: str) -> None:
        if any(description for *_, description in self._stack):
            self.entries[self._key()] = self.entries.get(self._key(), "") + data

    def _key(self) -> tuple[str, str]:
        return next(language for language in reversed(self._language) if language), self._name()

    def _name(self) -> str:
        return ".".join(name for name in self._names if name)


def without_comments(text: str) -> str:
    return re.sub(r"/\*.*?\*/|//[^\n]*", "", text, flags=re.S)


def fields(body: str) -> Iterator[str]:
    for declaration in body.split(";"):
        if "(" not in declaration and "{" not in declaration:
            for part in declaration.split("=")[0].split(","):
                if name := re.search(r"(\w+)\s*$", part):
                    yield name[1]


def names_of_c(text: str) -> Iterator[str]:
    yield from set(re.findall(r"^#define (RAPT_\w+)(?<!_H)\b", text, re.M)) - NOT_PUBLIC
    text = re.sub(r"^#.*(?:\\\n.*)*", "", text, flags=re.M)
    yield from re.findall(r"^(?:RAPT_API|RAPT_INLINE) [^;{(]*?\b(rapt_\w+)\(", text, re.M)
    yield from re.findall(r"^typedef (?!struct|enum)[^;(]*?(\w+);", text, re.M)
    yield from re.findall(r"^typedef [^;(]*\(\*(\w+)\)\(", text, re.M)
    for name, body in re.findall(r"^typedef struct \w+ \{(.*?)^\} (\w+);", text, re.M | re.S):
        yield body
        yield from (f"{body}.{field}" for field in fields(name))
    for name, body in re.findall(r"^enum (\w+) \{(.*?)\};", text, re.M | re.S):
        yield name
        yield from (f"{name}.{value}" for value in re.findall(r"\bRAPT_\w+", body))


def names_of_cpp(text: str) -> Iterator[str]:
    yield from re.findall(r"^using (\w+) =", text, re.M)
    yield from re.findall(r"^concept (\w+) =", text, re.M)
    yield from re.findall(r"^inline constexpr auto (\w+) =", text, re.M)
    yield from set(re.findall(r"^(?!namespace|concept|using)[\w:]+(?: [\w:]+)* (\w+)\([^;]*?\{", text, re.M))
    for name, body in re.findall(r"^struct (\w+) \{(.*?)^\};", text, re.M | re.S):
        yield name
        yield from (f"{name}.{field}" for field in fields(re.sub(r"constexpr .*", "", body, flags=re.S)))


def problems_of_python(entries: dict[tuple[str, str], str]) -> Iterator[str]:
    """A parameter is described by its function's text, or by that of another one that the text names."""
    for name in rapt.__all__:
        thing, text = getattr(rapt, name), entries.get(("py", name), "")
        generated = re.match(rf"{name}\(.*\)$", text.strip())  # what Python writes for a class without a docstring
        if not text.strip() or generated:
            yield f"Python: {name} has no description"
            continue
        words = set(re.findall(r"\w+", text))
        for other in words & set(rapt.__all__) - {name}:
            words |= set(re.findall(r"\w+", entries.get(("py", other), "")))
        for parameter in inspect.signature(thing).parameters.values():
            if parameter.kind is not parameter.VAR_KEYWORD and parameter.name not in words:
                yield f"Python: {name} does not describe {parameter.name}"


def main(html: Path, include: Path) -> int:
    paths = sorted(html.rglob("*.html"))
    pages = {path.relative_to(html).as_posix(): Page(path) for path in paths}
    entries: dict[tuple[str, str], str] = {}
    problems = []
    for name, page in pages.items():
        for link in page.links:
            if re.match(r"[a-z]+:", link):
                continue
            file, _, place = link.partition("#")
            target = (html / name).parent.joinpath(file.split("?")[0]).resolve() if file else html.resolve() / name
            known = pages.get(target.relative_to(html.resolve()).as_posix())
            if not target.exists() or place and known and place not in known.places:
                problems.append(f"{name}: {link} leads nowhere")
        module = "torch." if name == "reference/python/torch.html" else ""
        for (language, entry), text in page.entries.items():
            key = language, module + entry
            entries[key] = entries.get(key, "") + text

    expected = []
    for header in sorted(include.glob("*.h*")):
        text = re.sub(r"^namespace detail \{.*?^\}  // namespace detail$", "", header.read_text(), flags=re.M | re.S)
        text = without_comments(text)
        language = "c" if header.suffix == ".h" else "cpp"
        found = sorted(set(names_of_c(text) if language == "c" else names_of_cpp(text)))
        if not found:
            problems.append(f"{header.name} has no names")
        expected += [(header.name, language, name) for name in found]
    for header_name, language, name in expected:
        if not re.sub(TITLES, "", entries.get((language, name), "")).strip():
            problems.append(f"{header_name}: {name} has no description")
    problems += problems_of_python(entries)
    of_torch = names_of_torch(Path(rapt.__file__).parent)
    problems += [
        f"rapt.torch: {name} has no description" for name in of_torch if not entries.get(("py", f"torch.{name}"))
    ]
    print(
        "\n".join(problems)
        or f"manual: {len(expected)} names of the headers, {len(rapt.__all__) + len(of_torch)} of Python, {len(pages)} pages",
        file=sys.stderr if problems else sys.stdout,
    )
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2])))
