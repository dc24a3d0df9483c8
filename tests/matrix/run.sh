#!/usr/bin/env bash
# CPU models × builds. On each model the right level must be chosen, every usable level must have the published hashes,
# and no instruction may be illegal.
#
#   run.sh WORK_FOLDER NAME=BUILD_FOLDER...
#
# x86 models run under qemu-x86_64 (up to AVX2, which qemu executes) and natively behind a trapping cpuid (AVX-512's
# subsets, where this CPU has them; ../emulate executes AMX, VNNI and bf16 where it does not). Arm models run under
# qemu-aarch64, of builds whose name begins with "arm64".
# rapt-validate --quick runs every kernel on this CPU, unless the build's own tests do, on Sapphire Rapids, and on the
# Arm model that has all levels. Alder Lake runs those of bytes, which AVX-VNNI has for itself. The others run some
# kernels: these models choose among the same code, and ../audit knows its instructions. RAPT_TEST_SHARE, such as 0/3,
# takes a third of those.
# WORK_FOLDER/levels gets a line "native LEVEL" or "emulated LEVEL" for each level that passed on a model. The last line
# reads "N passed, N failed, N skipped".
set -euo pipefail

here=$(dirname "$(realpath "${BASH_SOURCE[0]}")")
work=$1
shift
mkdir -p "$work"
rm -f "$work"/outcome-* "$work/levels"
touch "$work/levels"
jobs=$(nproc)
host=$(uname -m)
native_builds=() arm_builds=()
for build in "$@"; do
  if [[ $build == arm64* ]]; then arm_builds+=("$build"); else native_builds+=("$build"); fi
done

passed=0 failed=0 skipped=0
rows=()
skip() {
  rows+=("$(printf '%-34s %-19s %-20s skipped: %s' "$1" "${2:--}" - "$3")")
  skipped=$((skipped + 1))
}

# run_model MODEL NAME=BUILD FLAGS KERNELS LAUNCHER...: in the background, its outcome into a file. FLAGS are the
# compiler's for the model: dispatch must choose the best level that they allow. KERNELS: all, bytes or some.
count=0 with_some=0
IFS=/ read -r share shares <<<"${RAPT_TEST_SHARE:-0/1}"
run_model() {
  local model=$1 build=${2%%=*} folder=${2#*=} kernels=$4 best flags
  if [[ $kernels == some && $model != "this CPU" ]]; then
    with_some=$((with_some + 1))
    if ((with_some % shares != share)); then return; fi
  fi
  read -ra flags <<<"$3"
  shift 4
  best=$("$here/../levels" "$folder" "${flags[@]}")
  best=${best##* }
  while (($(jobs -rp | wc -l) >= jobs)); do wait -n || true; done
  count=$((count + 1))
  local outcome arguments=(--quick)
  outcome=$(printf '%s/outcome-%03d' "$work" "$count")
  local names=()
  case $kernels in
    some) names=(dot_f64 exp_f32 softmax_f32 dot_i8) ;;
    bytes) mapfile -t names < <("$folder/tests/validate/rapt-validate" --list | sed -nE 's/^ +([a-z0-9_]*i8)$/\1/p') ;;
  esac
  arguments+=("${names[@]/#/--kernel=}")
  (
    begin=$SECONDS
    status=0
    # All kernels take minutes under QEMU; a busy machine needs room.
    timeout 1800 "$@" "$folder/tests/validate/rapt-validate" "${arguments[@]}" --json "$outcome.json" >"$outcome.log" 2>&1 ||
      status=$?
    levels=$(sed -nE 's/^([a-z0-9_]+) +usable(, chosen)?$/\1/p' "$outcome.log" | paste -sd ' ')
    chosen=$(sed -nE 's/^([a-z0-9_]+) +usable, chosen$/\1/p' "$outcome.log")
    if ((status == 77)); then
      result="skipped: $(tail -n 1 "$outcome.log")"
    elif ((status != 0)); then
      result="FAILED: status $status: $(grep -v '^$' "$outcome.log" | tail -n 1)"
    elif [[ $chosen != "$best" ]]; then
      result="FAILED: chose $chosen, not $best"
    else
      result="passed, $kernels kernels" how=emulated
      if [[ $model == "this CPU" || $model == *"(native)" ]]; then how=native; fi
      tr ' ' '\n' <<<"$levels" | sed "s/^/$how /" >>"$work/levels"
    fi
    printf '%-34s %-19s %-20s %s (%d s)\n' "$model" "$build" "${levels:--}" "$result" $((SECONDS - begin)) >"$outcome"
  ) &
}

if [[ $host != x86_64 ]]; then
  skip "all models" - "this host is $host: models are presented on x86-64 alone"
else
  # First, because one of them takes longest.
  if ((${#arm_builds[@]} > 0)) && command -v qemu-aarch64 >/dev/null; then
    for build in "${arm_builds[@]}"; do
      while IFS='|' read -r model flags kernels; do
        run_model "$model (qemu)" "$build" "$flags" "$kernels" qemu-aarch64 -cpu "$model"
      done <<'MODELS'
max|-march=armv8.6-a|all
cortex-a53|-mcpu=cortex-a53|some
cortex-a72|-mcpu=cortex-a72|some
cortex-a76|-mcpu=cortex-a76|some
neoverse-n1|-mcpu=neoverse-n1|some
a64fx|-mcpu=a64fx|some
MODELS
    done
  fi

  export RAPT_EMULATOR=$work/emulator.so
  "$here/../emulate/build.sh" "$RAPT_EMULATOR"
  if command -v qemu-x86_64 >/dev/null; then
    for build in "${native_builds[@]}"; do
      while IFS='|' read -r model flags features; do
        launcher=("$here/../emulate/qemu.sh" "$model")
        if [[ -n $features ]]; then launcher=("$here/../emulate/run.sh" --qemu "$model" --emulate "$features"); fi
        run_model "$model${features:++$features} (qemu)" "$build" "$flags" some "${launcher[@]}"
      done <<'MODELS'
Nehalem|-march=nehalem|
SandyBridge|-march=sandybridge|
IvyBridge|-march=ivybridge|
Haswell|-march=haswell|
Haswell,-fma|-march=haswell -mno-fma|
Haswell-noTSX|-march=haswell -mavxvnni -mamx-tile -mamx-bf16 -mamx-int8|avx_vnni,amx
Skylake-Client|-march=skylake|
EPYC|-march=znver1|
MODELS
    done
  else
    skip "x86 models under qemu" - "no qemu-x86_64"
  fi

  # Each model needs a CPU with the flag. What the model has in addition, and this CPU lacks, is emulated.
  cpu_flags=" $(sed -n 's/^flags[[:space:]]*: //p' /proc/cpuinfo | head -n 1) "
  while IFS='|' read -r model flags needed extensions; do
    missing='' how=native kernels=some
    case $model in
      sapphire-rapids) kernels=all ;;
      alder-lake) kernels=bytes ;;
    esac
    for extension in ${extensions//,/ }; do
      if [[ $cpu_flags != *" ${extension/%amx/amx_tile} "* ]]; then missing+=,$extension how=emulated; fi
    done
    for build in "${native_builds[@]}"; do
      if [[ $cpu_flags == *" $needed "* ]]; then
        run_model "$model ($how)" "$build" "$flags" "$kernels" "$here/../emulate/run.sh" --model "$model" --emulate "${missing#,}"
      else
        skip "$model (native)" "${build%%=*}" "this CPU lacks $needed: such a machine would have to run it"
      fi
    done
  done <<'MODELS'
haswell|-march=haswell|avx2|
haswell-without-fma|-march=haswell -mno-fma|avx2|
haswell-without-bmi2|-march=haswell -mno-bmi2|avx2|
system-without-xsave|-march=haswell -mno-avx|avx2|
alder-lake|-march=alderlake|avx2|avx_vnni
knights-landing|-march=haswell -mavx512f -mavx512cd|avx512f|
skylake-x|-march=skylake-avx512|avx512bw|
cooper-lake|-march=cooperlake|avx512bw|avx512_vnni
ice-lake|-march=icelake-server|avx512bw|avx512_vnni
sapphire-rapids|-march=sapphirerapids|avx512bw|avx512_vnni,avx_vnni,amx
MODELS
  for build in "${native_builds[@]}"; do
    kernels=all
    if [[ -x ${build#*=}/tests/rapt_calls_test ]]; then kernels=some; fi
    run_model "this CPU" "$build" -march=native "$kernels" env
  done

  wait
fi

for outcome in "$work"/outcome-???; do
  [[ -f $outcome ]] || continue
  row=$(cat "$outcome")
  rows+=("$row")
  case $row in
    *" passed, "*) passed=$((passed + 1)) ;;
    *"skipped: "*) skipped=$((skipped + 1)) ;;
    *)
      failed=$((failed + 1))
      echo "--- ${row%% *}: the end of $outcome.log"
      tail -n 15 "$outcome.log"
      ;;
  esac
done

echo
printf '%-34s %-19s %-20s %s\n' "CPU model" "build" "levels that ran" "result"
printf '%s\n' "${rows[@]}"
echo "$passed passed, $failed failed, $skipped skipped"
((failed == 0))
