#!/bin/sh
# qemu.sh CPU [OPTION...] PROGRAM [ARGUMENT...]: qemu-x86_64 -cpu CPU, with the fma of qemu_fma.cpp where this CPU has
# FMA. RAPT_EMULATOR names a file next to which the library is compiled.
here=$(dirname "$(realpath "$0")")
if [ "$(uname -m)" = x86_64 ] && grep -qw fma /proc/cpuinfo; then
  library=$(dirname "$(realpath -m "${RAPT_EMULATOR:-$here/../../build/emulator.so}")")/qemu_fma.so
  if [ ! -f "$library" ] || [ -n "$(find "$here/qemu_fma.cpp" -newer "$library")" ]; then
    mkdir -p "$(dirname "$library")"
    "${CXX:-c++}" -O2 -mavx2 -mfma -fno-builtin -shared -fPIC "$here/qemu_fma.cpp" -o "$library.$$" || exit 2
    mv "$library.$$" "$library"  # several tests may compile it at the same time
  fi
  # The guest must not load the library: its CPU may lack FMA.
  exec env LD_PRELOAD="$library" qemu-x86_64 -U LD_PRELOAD -cpu "$@"
fi
exec qemu-x86_64 -cpu "$@"
