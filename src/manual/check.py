"""check.py HTML_DIR HEADER: every link of the pages leads to a place in them, and every function of the header has an entry."""

import re
import sys
from html.parser import HTMLParser
from pathlib import Path


class Page(HTMLParser):
    def __init__(self, path: Path) -> None:
        super().__init__()
        self.places, self.links, self.words = set(), [], ""
        self.feed(path.read_text())

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        self.places |= {attributes.get("id"), attributes.get("name")}
        for name in ("href", "src"):
            if attributes.get(name):
                self.links.append(attributes[name])

    def handle_data(self, data):
        self.words += data


def main(html: Path, header: Path) -> int:
    pages = {path.name: Page(path) for path in sorted(html.glob("*.html"))}
    problems = []
    for name, page in pages.items():
        for link in page.links:
            if re.match(r"[a-z]+:", link):
                continue
            file, _, place = link.partition("#")
            file = file or name
            if not (html / file).exists() or place and file in pages and place not in pages[file].places:
                problems.append(f"{name}: {link} leads nowhere")

    functions = set(re.findall(r"^RAPT_API .*?(rapt_\w+)\(", header.read_text(), re.M))
    entries = set()
    for name, page in pages.items():
        if name.startswith("group__"):
            entries |= set(re.findall(r"◆[\s\xa0]*(rapt_\w+)\(\)", page.words))
    problems += [f"{name} has no entry" for name in sorted(functions - entries)]
    print(
        "\n".join(problems) or f"manual: {len(functions)} functions, {len(pages)} pages",
        file=sys.stderr if problems else sys.stdout,
    )
    return bool(problems)


sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2])))
