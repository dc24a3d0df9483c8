#!/bin/sh
# Runs a program as on another CPU; preload.cpp says how.
#
#   run.sh [--on FLAG] [--model CPU] [--emulate FEATURE,...] [--refuse tiles] [--require tiles] [--qemu CPU]
#          PROGRAM [ARGUMENT...]
#
#   --on        this CPU must have the flag of /proc/cpuinfo: what the program executes is not all emulated
#   --model     CPUID shows the features of this CPU model
#   --emulate   CPUID shows amx, avx512_vnni or avx_vnni too, and their instructions are emulated
#   --refuse    the operating system refuses the permission to use AMX's tiles
#   --require   the program must multiply tiles by the emulator, or the exit status is 3
#   --qemu      under qemu-x86_64 with this CPU, whose CPUID and XCR0 show the emulated features without faulting
#
# RAPT_EMULATOR names the compiled library, which is brought up to date first. The exit status is the program's, or 77
# if this machine cannot present the features.
here=$(dirname "$0")
library=$(realpath -m "${RAPT_EMULATOR:-$here/../../build/emulator.so}")
flag='' model='' features='' cpu='' refused='' required=''
while :; do
  case $1 in
    --on) flag=$2 ;;
    --model) model=$2 ;;
    --emulate) features=$2 ;;
    --refuse) refused=$2 ;;
    --require) required=$2 ;;
    --qemu) cpu=$2 ;;
    *) break ;;
  esac
  shift 2
done
if [ "$(uname -sm)" != "Linux x86_64" ]; then
  echo "skipped: emulated x86 features: this machine is no x86-64 Linux"
  exit 77
fi
if [ -n "$flag" ] && ! grep -qw "$flag" /proc/cpuinfo; then
  echo "skipped: emulated $features: this CPU lacks $flag"
  exit 77
fi
"$here/build.sh" "$library" || exit 2
export RAPT_CPU_MODEL="$model" RAPT_EMULATE="$features" RAPT_REFUSE_TILES="$refused" RAPT_REQUIRE_TILES="$required"
if [ -z "$cpu" ]; then
  # The addresses are needed if cpuid cannot fault. /proc/cpuinfo may promise that it can, and a container may forbid
  # it.
  if ! RAPT_CPU_MODEL=haswell RAPT_REQUIRE_TILES='' LD_PRELOAD="$library" env true 2>/dev/null && command -v objdump >/dev/null; then
    RAPT_CPUID_AT=$(objdump -d --no-show-raw-insn "$1" | sed -n 's/^ *\([0-9a-f]*\):\tcpuid *$/\1/p' | paste -sd ,)
    export RAPT_CPUID_AT
  fi
  exec env LD_PRELOAD="$library" "$@"
fi
if ! command -v qemu-x86_64 >/dev/null; then
  echo "skipped: emulated x86 features: no qemu-x86_64"
  exit 77
fi
shown=$(echo ",$features" | sed 's/,avx512_/,avx512-/g; s/,avx512-vnni/,avx512vnni/; s/,avx_vnni/,avx-vnni/
  s/,amx/,amx-tile,amx-bf16,amx-int8/; s/,/,+/g')
exec "$here/qemu.sh" "$cpu,x-force-features=on$shown" -E LD_PRELOAD="$library" "$@"
