#!/usr/bin/env bash
# output_test.sh SOURCE PROGRAM...: the program prints what the comment at the head of its source says.
set -euo pipefail
source=$1
shift
expected=$(awk '/^(\/\/| \*) Output:$/ { inside = 1; next } inside && !/^(\/\/| \*)   / { exit } inside { print substr($0, 6) }' "$source")
if [[ -z $expected ]]; then echo "$source has no output in its head" >&2; exit 1; fi
diff --strip-trailing-cr <(echo "$expected") <("$@")
