#!/usr/bin/env python3
"""line_width.py [--fix] FILE...: no line of a comment's or a page's sentences is longer than 120 characters; --fix wraps them.

Tables, diagrams and a comment's lists are as wide as they need to be: lines with two spaces within, with bars, or in a fence.
"""

from __future__ import annotations

import re
import sys
import textwrap
from collections.abc import Iterator
from functools import partial
from pathlib import Path

WIDTH = 120
C_LINE = re.compile(r"(?P<indent>\s*)(?P<mark>///|//!|//|/\*\*|\*) (?P<text>\S.*)")
SCRIPT_LINE = re.compile(r"(?P<indent>\s*)(?P<mark>#) (?P<text>\S.*)")
NO_SENTENCE = re.compile(r".*\S  +\S|.*\|.*\||[|@\\~*+-]|\d+\. |//|.*~~~")


def sentences(lines: list[str], form: re.Pattern[str]) -> Iterator[tuple[int, int]]:
    """The paragraphs of comments, as the first line and the one after the last."""
    begin, fenced = None, False
    for i, line in enumerate([*lines, ""]):
        match = form.fullmatch(line)
        fenced ^= bool(match) and "~~~" in line
        plain = match is not None and not fenced and not NO_SENTENCE.match(match["text"])
        opens = plain and match["mark"] == "/**"
        if begin is not None and (not plain or opens or is_end(lines[i - 1]) or is_other(lines[i - 1], line)):
            yield begin, i
            begin = None
        if plain and begin is None:
            begin = i


def is_end(line: str) -> bool:
    """Whether a sentence ends here, in a line that has room for more."""
    return line.endswith("*/") or (line.endswith((".", ":", ";")) and len(line) < WIDTH - 15)


def is_other(before: str, line: str) -> bool:
    """Whether the indentations differ, where a comment of several lines does not begin."""

    def start(of: str) -> int:
        return len(of) - len(of.lstrip()) + of.lstrip().startswith("/**")

    return start(before) != start(line)


def wrapped(lines: list[str], form: re.Pattern[str]) -> list[str]:
    match = form.fullmatch(lines[0])
    assert match
    later = match["indent"] + (" * " if match["mark"] == "/**" else match["mark"] + " ")
    end = " */" if lines[-1].endswith("*/") else ""
    text = " ".join(form.fullmatch(line)["text"] for line in lines).removesuffix("*/").rstrip()  # type: ignore[index]
    made = textwrap.wrap(
        text + end.replace(" ", "\0"),
        WIDTH,
        initial_indent=f"{match['indent']}{match['mark']} ",
        subsequent_indent=later,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return [line.replace("\0", " ") for line in made]


PAGE_ITEM = re.compile(r"(?P<indent>\s*)(?P<mark>[*-] |\d+\. |)(?P<text>\S.*)")
NO_PROSE = re.compile(r"\s*(```|\||#|!\[|<|>|:?-+:?$|\[[^]]*\]: )")
# A word that would begin a list, a table or a heading if it began a line.
BEGINS_A_BLOCK = re.compile(r" (?=([*+-]|\d+[.)]|#+|[|>].*)( |$))")


def paragraphs(lines: list[str]) -> Iterator[tuple[int, int]]:
    """The paragraphs and the items of a page of Markdown, as the first line and the one after the last."""
    begin, fenced = None, False
    for i, line in enumerate([*lines, ""]):
        match = PAGE_ITEM.fullmatch(line)
        fence = line.lstrip().startswith(("```", ":::"))
        plain = match is not None and not fenced and not fence and not NO_PROSE.match(line)
        fenced ^= fence
        if begin is not None and (not plain or match is None or match["mark"] != ""):
            yield begin, i
            begin = None
        if plain and begin is None:
            begin = i


def wrapped_prose(lines: list[str]) -> list[str]:
    match = PAGE_ITEM.fullmatch(lines[0])
    assert match
    later = match["indent"] + " " * len(match["mark"])
    text = " ".join([match["text"], *(line.strip() for line in lines[1:])])
    whole = re.sub("`[^`]*`", lambda code: code[0].replace(" ", "\0"), text)
    made = textwrap.wrap(
        BEGINS_A_BLOCK.sub("\0", whole),
        WIDTH,
        initial_indent=match["indent"] + match["mark"],
        subsequent_indent=later,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return [line.replace("\0", " ") for line in made]


def main(arguments: list[str]) -> int:
    fix = "--fix" in arguments
    long = 0
    for path in (Path(a) for a in arguments if a != "--fix"):
        lines = path.read_text().split("\n")
        form = C_LINE if path.suffix in (".h", ".hpp", ".c", ".cpp", ".def") else SCRIPT_LINE
        if path.suffix == ".md":
            pieces, wrap = paragraphs(lines), wrapped_prose
        else:
            pieces, wrap = sentences(lines, form), partial(wrapped, form=form)
        made, at = [], 0
        for begin, end in pieces:
            first = next((i for i in range(begin, end) if len(lines[i]) > WIDTH), None)
            if first is None:
                continue
            narrow = wrap(lines[first:end])
            if path.suffix == ".md" and narrow == lines[first:end]:  # a word is longer
                continue
            if not fix:
                print(f"{path}:{first + 1}: a line of {len(lines[first])} characters, not {WIDTH}")
            long += 1
            made += [*lines[at:first], *narrow]
            at = end
        if fix and made:
            path.write_text("\n".join(made + lines[at:]))
    return 1 if long and not fix else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
