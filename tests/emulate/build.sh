#!/bin/sh
# build.sh FILE.so: compiles the emulator if FILE.so is older than its sources. It is never instrumented, and uses
# nothing of rapt.
set -e
here=$(dirname "$0")
if [ -f "$1" ] && [ -z "$(find "$here" -maxdepth 1 -name '*.[ch]pp' -newer "$1")" ]; then exit 0; fi
mkdir -p "$(dirname "$1")"
"${CXX:-c++}" -std=c++20 -O2 -ffp-contract=off -fno-exceptions -fvisibility=hidden -Wall -Wextra -Wpedantic -Wconversion \
  -shared -fPIC "$here"/frame.cpp "$here"/instruction.cpp "$here"/tiles.cpp "$here"/vectors.cpp "$here"/features.cpp \
  "$here"/cpuid_trap.cpp "$here"/preload.cpp -o "$1.$$" -lm -ldl
mv "$1.$$" "$1"  # several tests may compile it at the same time
