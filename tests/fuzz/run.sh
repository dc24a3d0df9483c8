#!/usr/bin/env bash
# Runs the harnesses of a build with libFuzzer, two at a time.
set -euo pipefail

if (($# != 3)) || [[ ! $3 =~ ^[1-9][0-9]*$ ]]; then
  cat >&2 <<'TEXT'
usage: tests/fuzz/run.sh HARNESS_DIR WORK_DIR SECONDS

HARNESS_DIR is tests/fuzz in a build with -DRAPT_FUZZ_ENGINE=-fsanitize=fuzzer (tests/run --full makes one). WORK_DIR is
kept: a second run begins with the inputs that the first one found. All harnesses together take SECONDS. The exit status
is 1 if anything was found; the input is named then.
TEXT
  exit 2
fi
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
harnesses=$1 work=$2 families=(calls attention attention_backward)
export ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=print_stacktrace=1
seconds_each=$((($3 * 2 + ${#families[@]} - 1) / ${#families[@]}))
mkdir -p "$work/findings"
fixed_addresses=()  # these sanitizers fail where the kernel randomises more address bits than they expect
if setarch -R true 2>/dev/null; then fixed_addresses=(setarch -R); fi

run_family() {
  local family=$1 corpus=$work/corpus/$1 status=0
  mkdir -p "$corpus"
  "${fixed_addresses[@]}" "$harnesses/rapt_${family}_fuzz" -max_total_time=$seconds_each -timeout=10 -max_len=512 -len_control=20 \
    -print_final_stats=1 "-artifact_prefix=$work/findings/$family-" "$corpus" "$root/tests/fuzz/corpus/$family" \
    >"$work/$family.log" 2>&1 || status=$?
  echo $status >"$work/$family.status"
}

for family in "${families[@]}"; do
  while (($(jobs -rp | wc -l) >= 2)); do wait -n || true; done
  run_family "$family" &
done
wait

executions=0 findings=0
for family in "${families[@]}"; do
  count=$(sed -n 's/^stat::number_of_executed_units: //p' "$work/$family.log")
  echo "$family: ${count:-no} executions"
  executions=$((executions + ${count:-0}))
  if [[ $(cat "$work/$family.status") == 0 && -n $count ]]; then continue; fi
  findings=$((findings + 1))
  grep -E '^FINDING|runtime error:|^SUMMARY|Test unit written to|ALARM' "$work/$family.log" || tail -n 20 "$work/$family.log"
  sed -n 's/^Base64: /input in base64: /p' "$work/$family.log"
done
echo "fuzz: ${#families[@]} harnesses, $executions executions, $findings findings"
((findings == 0))
