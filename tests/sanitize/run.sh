#!/usr/bin/env bash
# Builds the library and its tests with sanitizers, and runs them.
set -euo pipefail

if (($# != 1)); then
  cat >&2 <<'TEXT'
usage: tests/sanitize/run.sh BUILD_DIR

BUILD_DIR is kept: a second run compiles nothing. It may be the folder of tests/fuzz/run.sh, which shares a build.
TEXT
  exit 2
fi
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
mkdir -p "$1"
build=$(cd "$1" && pwd)
source "$root/cmake/packages.sh"
source "$root/tests/sanitize/build.sh"

# As few cases as under an emulator, but flush against the guard pages.
export RAPT_TEST_EMULATED=sanitizer
export ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=print_stacktrace=1
result=() failed=false

# run_logged NAME COMMAND...: true if it succeeds; what it printed is shown if it does not.
run_logged() {
  local name=$1
  shift
  if "$@" >"$build/$name.log" 2>&1; then return 0; fi
  echo "FAILED: $name"
  tail -n 40 "$build/$name.log"
  return 1
}

finish() {
  result+=("$1 $2")
  if [[ $2 == FAILED ]]; then failed=true; fi
}

run_tests() {
  local name=$1 test status=0
  shift
  for test in "$@"; do
    run_logged "$name-$test" timeout 300 "${fixed_addresses[@]}" "$build/$name/tests/rapt_${test}_test" || status=1
  done
  return $status
}

check_address() {
  local first=(bitwise registers attention attention_special_values) other
  local second=(attention_arguments attention_backward attention_backward_arguments
    attention_backward_special_values special_values floating_point_state dispatch arguments guard_sweep exp_blocks
    softmax_batches)
  local tests=("${first[@]}" "${second[@]}")
  local targets=("${tests[@]/#/rapt_}")
  run_logged address.build sanitizer_build address "$build/address" "${targets[@]/%/_test}" || return 1
  run_tests address "${first[@]}" &
  other=$!
  local status=0
  run_tests address "${second[@]}" || status=1
  wait $other || status=1
  echo "address, undefined (clang): ${tests[*]}"
  return $status
}

# libstdc++ is not built with the memory sanitizer, and a test program's strings and streams would be false alarms. The
# fuzzing harnesses use neither: they run here with a main of their own.
check_memory() {
  local families=(vectors dot_rows softmax softmax_backward attention attention_backward) family status=0 jobs=()
  run_logged memory.build sanitizer_build memory "$build/memory" rapt_fuzz || return 1
  for family in "${families[@]}"; do
    run_logged "memory-$family" "${fixed_addresses[@]}" "$build/memory/tests/fuzz/rapt_${family}_fuzz" 8 \
      "$root/tests/fuzz/corpus/$family" &
    jobs+=($!)
  done
  local job
  for job in "${jobs[@]}"; do wait "$job" || status=1; done
  for family in "${families[@]}"; do
    echo "memory (clang): $family: $(tail -n 1 "$build/memory-$family.log")"
  done
  return $status
}

check_thread() {
  run_logged thread.build sanitizer_build thread "$build/thread" rapt_dispatch_test || return 1
  run_tests thread dispatch || return 1
  echo "thread (gcc): dispatch"
}

check() {
  local name=$1 flags=$2 compiler=$3 packages=$4
  if ! $packages || ! sanitizer_runs "$flags" "$compiler"; then
    echo "skipped: $name sanitizer: $compiler has none that runs here"
    finish "$name" skipped
  elif "check_$name"; then
    finish "$name" ok
  else
    finish "$name" FAILED
  fi
}

need_gcc() { need_packages cmake ninja-build g++ binutils doctest-dev libmpfr-dev libxsimd-dev; }

check address address,undefined clang++ need_clang_sanitizers
check memory memory clang++ need_clang_sanitizers
check thread thread g++ need_gcc

printf -v line '%s, ' "${result[@]}"
echo "sanitizers: ${line%, }"
! $failed
