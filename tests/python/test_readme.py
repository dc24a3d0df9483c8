"""The blocks of Python in README.md."""

import re
from pathlib import Path

import rapt

README = (Path(__file__).resolve().parents[2] / "README.md").read_text()


def test_blocks(capsys):
    blocks = re.findall(r"^```python\n(.*?)^```\n\n```text\n(.*?)^```", README, re.M | re.S)
    assert blocks
    for code, text in blocks:
        exec(compile(code, "README.md", "exec"), {})
        # The instruction set is this machine's.
        assert capsys.readouterr().out == text.replace("avx512", rapt.isa())


def test_every_block_has_an_output():
    assert README.count("```python") == len(re.findall(r"^```python\n[^`]*^```\n\n```text\n", README, re.M))
