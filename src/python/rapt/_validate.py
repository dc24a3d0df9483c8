"""The wheel's rapt-validate."""

import os
import sys
from pathlib import Path


def main() -> None:
    program = Path(__file__).parent / "bin" / "rapt-validate"
    if not program.exists():
        sys.exit(
            "this build of rapt has no rapt-validate: it was built without the headers of CLI11, nlohmann/json and {fmt}"
        )
    os.execv(program, [str(program), *sys.argv[1:]])
