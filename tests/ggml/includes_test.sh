#!/usr/bin/env bash
# src/ggml is a client of the library: it includes rapt's public headers, ggml's, the system's, and its own.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../../src"
others=$(grep -nE '^ *# *include' ggml/*.?pp | grep -vE '#include (<rapt/(rapt\.h|parallel\.hpp)>|"rapt/rapt\.h"|<ggml[a-z-]*\.h>|"ggml/[a-z_]+\.hpp"|<[a-z_]+>|<(dlfcn|link|sched)\.h>|<sys/mman\.h>)$' || true)
if [[ -n $others ]]; then
  printf 'FAILED: src/ggml includes more than public headers:\n%s\n' "$others" >&2
  exit 1
fi
own=$(grep -ohE '"ggml/[a-z_]+\.hpp"' ggml/*.?pp | tr -d '"' | sort -u)
for file in $own; do
  [[ -f $file ]] || { echo "FAILED: there is no src/$file" >&2; exit 1; }
done
