#!/usr/bin/env python3
"""other_languages.md's example of cffi reads rapt.h, every function included: header_cffi_test.py SOURCE_DIR CC"""

import re
import subprocess
import sys
from pathlib import Path

try:
    import cffi
except ModuleNotFoundError as error:
    print(f"skipped: the header by cffi: {error} (Debian: python3-cffi)")
    sys.exit(0)

source, compiler = Path(sys.argv[1]), sys.argv[2]
include = source / "include"
page = (source / "src/manual/other_languages.md").read_text()
example = re.search(r"## cffi\n.*?```python\n(.*?)```", page, re.S)[1]
installed = "/usr/local/include/rapt/rapt.h"
assert installed in example and '"cc"' in example
names = {}
exec(example.replace(installed, str(include / "rapt/rapt.h")).replace('"cc"', repr(compiler)), names)
ffi = names["ffi"]

functions = re.findall(r"^RAPT_API [^;(]*?\b(rapt_\w+)\(", (include / "rapt/rapt.h").read_text(), re.M)
assert len(functions) > 50, functions
missing = [name for name in functions if not re.search(rf"\b{name}\(", names["declarations"])]
assert not missing, missing

# cffi lays out the structs as the compiler does.
structs = (
    "rapt_softmax_options",
    "rapt_attention_options",
    "rapt_attention_gradients",
    "rapt_matrix_strides",
    "rapt_linear_options",
)
program = "#include <rapt/rapt.h>\n#include <stddef.h>\n"
for struct in structs:
    program += f'_Static_assert(sizeof({struct}) == {ffi.sizeof(struct)}, "{struct}");\n'
    for field, _ in ffi.typeof(struct).fields:
        program += f'_Static_assert(offsetof({struct}, {field}) == {ffi.offsetof(struct, field)}, "{field}");\n'
subprocess.run(
    [compiler, "-std=c11", "-fsyntax-only", "-I", include, "-x", "c", "-"], input=program, text=True, check=True
)
print(f"cffi reads {len(functions)} functions and {len(structs)} structs")
