#!/usr/bin/env bash
# Builds the fuzzing harnesses with clang's address and undefined-behaviour sanitizers and runs them, two at a time.
set -euo pipefail

if (($# != 2)) || [[ ! $2 =~ ^[1-9][0-9]*$ ]]; then
  cat >&2 <<'TEXT'
usage: tests/fuzz/run.sh BUILD_DIR SECONDS

BUILD_DIR is kept: a second run compiles nothing and begins with the inputs that the first one found. All harnesses
together take SECONDS (beside the build). The exit status is 1 if anything was found; the input is named then.
TEXT
  exit 2
fi
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
mkdir -p "$1"
build=$(cd "$1" && pwd)
source "$root/cmake/packages.sh"
source "$root/tests/sanitize/build.sh"

families=(vectors dot_rows softmax softmax_backward attention attention_backward)
if ! need_clang_sanitizers || ! sanitizer_runs address,undefined clang++; then
  echo "skipped: fuzzing: no clang with libFuzzer and the address sanitizer"
  exit 0
fi
if ! sanitizer_build address "$build/address" rapt_fuzz >"$build/fuzz.build.log" 2>&1; then
  tail -n 40 "$build/fuzz.build.log"
  echo "fuzz: the harnesses do not build"
  exit 1
fi

export ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=print_stacktrace=1
seconds_each=$((($2 * 2 + ${#families[@]} - 1) / ${#families[@]}))
findings_dir=$build/findings
mkdir -p "$findings_dir"

run_family() {
  local family=$1 corpus=$build/corpus/$1 status=0
  mkdir -p "$corpus"
  "${fixed_addresses[@]}" "$build/address/tests/fuzz/rapt_${family}_fuzz" -max_total_time=$seconds_each -timeout=10 \
    -max_len=512 -len_control=20 -print_final_stats=1 "-artifact_prefix=$findings_dir/$family-" \
    "$corpus" "$root/tests/fuzz/corpus/$family" >"$build/$family.log" 2>&1 || status=$?
  echo $status >"$build/$family.status"
}

running=0
for family in "${families[@]}"; do
  if ((running == 2)); then
    wait -n
    running=$((running - 1))
  fi
  run_family "$family" &
  running=$((running + 1))
done
wait

executions=0 findings=0
for family in "${families[@]}"; do
  count=$(sed -n 's/^stat::number_of_executed_units: //p' "$build/$family.log")
  echo "$family: ${count:-no} executions"
  executions=$((executions + ${count:-0}))
  if [[ $(cat "$build/$family.status") == 0 && -n $count ]]; then continue; fi
  findings=$((findings + 1))
  grep -E '^FINDING|runtime error:|^SUMMARY|Test unit written to|ALARM' "$build/$family.log" || tail -n 20 "$build/$family.log"
  sed -n 's/^Base64: /input in base64: /p' "$build/$family.log"
done
echo "fuzz: ${#families[@]} harnesses, $executions executions, $findings findings"
((findings == 0))
