"""The blocks of Python in README.md."""

import re
from pathlib import Path

README = (Path(__file__).resolve().parents[2] / "README.md").read_text()


def test_blocks(capsys):
    blocks = re.findall(r"^```python\n(.*?)^```", README, re.M | re.S)
    assert blocks
    for block in blocks:
        exec(compile(block, "README.md", "exec"), {})
    # The numbers of the same call from C.
    printed = [float(x) for x in re.findall(r"[0-9]\.[0-9]*", capsys.readouterr().out)][:8]
    text = re.search(r"^```text\n(.*?)^```", README, re.M | re.S)[1]
    assert printed == [float(x) for x in text.split()]
