#!/usr/bin/env bash
# rapt-validate's exit status and what it prints: command_line_test.sh RAPT_VALIDATE..., the command that runs it.
set -euo pipefail

output=$(mktemp)
trap 'rm -f "$output" "$output".json*' EXIT
failures=0

# expect STATUS TEXT ARGUMENT...
expect() {
  local status=$1 text=$2 got=0
  shift 2
  "${command[@]}" "$@" >"$output" 2>&1 || got=$?
  if ((got != status)) || ! grep -qF -- "$text" "$output"; then
    echo "rapt-validate $*: status $got, not $status, or without \"$text\":"
    cat "$output"
    failures=$((failures + 1))
  fi
}

# expect_without TEXT ARGUMENT...: whatever the status.
expect_without() {
  local text=$1
  shift
  "${command[@]}" "$@" >"$output" 2>&1 || true
  if grep -qF -- "$text" "$output"; then
    echo "rapt-validate $*: prints \"$text\":"
    cat "$output"
    failures=$((failures + 1))
  fi
}

command=("$@")
expect 0 'Usage: rapt-validate [OPTIONS]' --help
expect 0 '--print-hashes' -h
expect 0 'softmax_backward_f64' --list
expect 0 'PASS: scalar' --quick --kernel dot_f32 --kernel softmax_f64 --isa scalar
case $(uname -m) in
  x86_64 | aarch64) expect 0 'PASS: scalar; not run: ' --quick --kernel dot_f32 --isa scalar ;;
esac
expect 0 'not published' --quick --kernel exp_f32 --seed 7
expect 0 '1 cases in' --kernel dot_rows_f32 --isa scalar --case 'rows=3 n=17 input=gaussian seed=5'
expect 0 'decoder ' --list
expect 0 'decoder               scalar' --kernel decoder --isa scalar
expect 2 'needs one --kernel' --kernel decoder --case 'n=3'
expect_without 'decoder' --quick --kernel dot_f32
expect 0 'HASH(dot_f64, quick, 0x' --print-hashes --kernel dot_f64
expect 0 'PASS: ' --quick --kernel scale_f32 --json "$output.json"
RAPT_ISA=sse9 expect 0 'RAPT_ISA=sse9 is ignored: ' --quick --kernel dot_f32
RAPT_ISA=scalar expect_without 'RAPT_ISA' --quick --kernel dot_f32
# This fails before anything runs: a path below a file is not a folder.
expect 2 'cannot be written' --quick --json "$output.json/report.json"
expect_without 'dot_f32' --quick --json "$output.json/report.json"
expect 2 'no level is called sse9' --isa sse9
expect 2 'no kernel is called dot' --kernel dot
expect 2 'needs one --kernel' --case 'n=3'
expect 2 '"colour=red" is not understood' --kernel dot_f32 --case 'colour=red'
expect 2 'x is no seed' --seed x
expect 2 '-1 is no seed' --seed -1
expect 2 'is no seed' --seed 18446744073709551616
expect 0 'seed      18446744073709551615: ' --quick --kernel dot_f32 --isa scalar --seed 0xffffffffffffffff
expect 2 'not expected: quick' quick
expect 2 'not expected: quick' --isa scalar quick
expect 2 'not expected: --bogus' --bogus
expect 2 '--quick' --quick --full

system=$(uname -s)
if [[ ${command[-1]} == *.exe ]]; then system=Windows; fi
for said in '"holds": true' "\"date\": \"$(date -u +%Y)-" "\"system\": \"$system " '"compiler": "' '"rapt": "' \
  '"levels_run": [' '"levels_not_run": [' '"kernel": "scale_f32"' '"worst_error": 0.' '"hash": "0x'; do
  if ! grep -qF -- "$said" "$output.json"; then
    echo "the JSON lacks $said"
    failures=$((failures + 1))
  fi
done
if ! grep -A 1 '"levels_run": \[' "$output.json" | grep -q '"scalar"'; then
  echo "the JSON lacks the scalar level among levels_run"
  failures=$((failures + 1))
fi
if command -v python3 >/dev/null && ! python3 -m json.tool "$output.json" >/dev/null; then
  echo "the JSON is none"
  failures=$((failures + 1))
fi

# A run whose report cannot be written must not succeed.
if [[ $system == Linux ]]; then
  for arguments in --help --list '--quick --kernel dot_f32 --isa scalar' '--print-hashes --kernel dot_f64'; do
    got=0
    # shellcheck disable=SC2086 # several arguments
    "${command[@]}" $arguments >/dev/full 2>"$output" || got=$?
    if ((got != 1)) || ! grep -qF 'standard output cannot be written: No space left on device' "$output"; then
      echo "rapt-validate $arguments > /dev/full: status $got, and it says:"
      cat "$output"
      failures=$((failures + 1))
    fi
  done
  expect 1 '/dev/full cannot be written: No space left on device' --quick --kernel dot_f32 --json /dev/full
  expect 0 '"holds": true' --quick --kernel dot_f32 --isa scalar --json /dev/stdout
fi
expect 2 'cannot be written: Is a directory' --quick --json /

# interrupt SIGNAL STATUS: a signal from outside must end the program, blame no kernel and leave no file. The first
# kernel ends at once, and the second runs for long.
interrupt() {
  "${command[@]}" --full --kernel dot_f32 --kernel attention_f32 --isa scalar --json "$output.json.late" >"$output" 2>&1 &
  local pid=$! got=0
  for ((tenths = 0; tenths < 600; ++tenths)); do
    if grep -q '^dot_f32' "$output" || ! kill -0 "$pid"; then break; fi
    sleep 0.1
  done
  kill -s "$1" "$pid"
  wait "$pid" || got=$?
  if ((got != $2)) || grep -q 'FAIL\|crashed\|DIFFERENT' "$output" || compgen -G "$output.json.late*" >/dev/null; then
    echo "rapt-validate under SIG$1: status $got, not $2, or it accuses a kernel or leaves a file:"
    cat "$output"
    ls "$output"*
    failures=$((failures + 1))
  fi
}
if [[ $system == Linux && -z ${RAPT_LAUNCHER:-} && -z ${RAPT_TEST_EMULATED:-} ]]; then
  interrupt TERM 143
  interrupt SEGV 139
  interrupt ILL 132
fi
((failures == 0)) && echo "everything is as expected"
