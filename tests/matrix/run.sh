#!/usr/bin/env bash
# CPU models × builds: on each model the right level is chosen, every usable level has the published hashes, and
# nothing is an illegal instruction.
#
#   run.sh BUILD_FOLDER [--full]
#
# x86 models run under qemu-x86_64 (up to AVX2, which qemu executes) and natively behind a faulting cpuid (AVX-512's
# subsets, where this CPU has them); Arm models under qemu-aarch64. By default each model runs the Release build of
# gcc and the Debug build of clang; --full adds Release by clang and Debug by gcc.
# A build in BUILD_FOLDER that is there already, or a link to one, is used as it is and brought up to date.
# The last line reads "N passed, N failed, N skipped".
set -euo pipefail

here=$(dirname "$(realpath "${BASH_SOURCE[0]}")")
source_dir=$(realpath "$here/../..")
build_folder=$1
full=false
[[ ${2-} == --full ]] && full=true
mkdir -p "$build_folder"
jobs=$(nproc)

passed=0 failed=0 skipped=0
rows=()
skip() {
  rows+=("$(printf '%-30s %-19s %-20s skipped: %s' "$1" "${2:--}" - "$3")")
  skipped=$((skipped + 1))
}

# configure_and_build FOLDER CMAKE-ARGUMENTS...: the library and rapt-validate; nothing is done twice.
configure_and_build() {
  local folder=$build_folder/$1
  shift
  if [[ ! -f $folder/build.ninja ]]; then
    cmake -S "$source_dir" -B "$folder" -G Ninja -DRAPT_BUILD_VALIDATE=ON "$@" >"$folder.log" 2>&1 ||
      { tail -n 20 "$folder.log"; return 1; }
  fi
  cmake --build "$folder" --target rapt-validate >"$folder.log" 2>&1 || { grep -E 'error|warning' -A 3 "$folder.log" | head -n 20; return 1; }
}

# run_model MODEL BUILD BEST-LEVEL LAUNCHER...: in the background, its outcome into a file.
count=0
run_model() {
  local model=$1 build=$2 best=$3
  shift 3
  while (($(jobs -rp | wc -l) >= jobs)); do wait -n || true; done
  count=$((count + 1))
  local outcome
  outcome=$(printf '%s/outcome-%03d' "$build_folder" "$count")
  local program=$build_folder/$build/tests/validate/rapt-validate
  (
    begin=$SECONDS
    status=0
    timeout 600 "$@" "$program" --quick --json "$outcome.json" >"$outcome.log" 2>&1 || status=$?
    levels=$(sed -nE 's/^([a-z0-9_]+) +usable(, chosen)?$/\1/p' "$outcome.log" | paste -sd ' ')
    chosen=$(sed -nE 's/^([a-z0-9_]+) +usable, chosen$/\1/p' "$outcome.log")
    if ((status == 77)); then
      result="skipped: this machine cannot make cpuid fault"
    elif ((status != 0)); then
      result="FAILED: status $status: $(grep -v '^$' "$outcome.log" | tail -n 1)"
    elif [[ $chosen != "$best" ]]; then
      result="FAILED: chose $chosen, not $best"
    else
      result=passed
    fi
    printf '%-30s %-19s %-20s %s (%d s)\n' "$model" "$build" "${levels:--}" "$result" $((SECONDS - begin)) >"$outcome"
  ) &
}

# builds_for KIND: the builds that exist of native or arm64.
declare -A built=()
try_build() { # NAME ARGUMENTS...
  local name=$1
  echo "matrix: building $name"
  if configure_and_build "$@"; then built[$name]=1; else failed=$((failed + 1)); rows+=("$(printf '%-30s %-19s %-20s FAILED: does not build' "all its models" "$name" -)"); fi
}

rm -f "$build_folder"/outcome-*
host=$(uname -m)
native_builds=() arm_builds=()

add_native() { # NAME COMPILER TYPE
  local c=gcc
  if [[ $2 == clang++ ]]; then c=clang; fi
  try_build "$1" -DCMAKE_CXX_COMPILER="$2" -DCMAKE_C_COMPILER="$c" -DCMAKE_BUILD_TYPE="$3"
  if [[ ${built[$1]-} ]]; then native_builds+=("$1"); fi
}
add_arm() { # NAME COMPILER C-COMPILER TYPE [ARGUMENTS...]
  local name=$1 cxx=$2 cc=$3 type=$4
  shift 4
  try_build "$name" -DCMAKE_SYSTEM_NAME=Linux -DCMAKE_SYSTEM_PROCESSOR=aarch64 -DCMAKE_CXX_COMPILER="$cxx" \
    -DCMAKE_C_COMPILER="$cc" -DCMAKE_BUILD_TYPE="$type" -DCMAKE_EXE_LINKER_FLAGS=-static "$@"
  if [[ ${built[$name]-} ]]; then arm_builds+=("$name"); fi
}

add_native gcc-release g++ Release
if command -v clang++ >/dev/null; then add_native clang-debug clang++ Debug; else skip "all x86 models" clang-debug "no clang++"; fi
if $full; then
  add_native gcc-debug g++ Debug
  if command -v clang++ >/dev/null; then add_native clang-release clang++ Release; fi
fi
if [[ $host == x86_64 ]] && command -v aarch64-linux-gnu-g++ >/dev/null; then
  add_arm arm64-gcc-release aarch64-linux-gnu-g++ aarch64-linux-gnu-gcc Release
  if command -v clang++ >/dev/null; then
    clang_arm=(-DCMAKE_CXX_COMPILER_TARGET=aarch64-linux-gnu -DCMAKE_C_COMPILER_TARGET=aarch64-linux-gnu
      -DCMAKE_OBJCOPY="$(command -v aarch64-linux-gnu-objcopy)" -DCMAKE_AR="$(command -v aarch64-linux-gnu-ar)"
      -DCMAKE_RANLIB="$(command -v aarch64-linux-gnu-ranlib)")
    add_arm arm64-clang-debug clang++ clang Debug "${clang_arm[@]}"
  fi
  if $full; then
    add_arm arm64-gcc-debug aarch64-linux-gnu-g++ aarch64-linux-gnu-gcc Debug
    if command -v clang++ >/dev/null; then add_arm arm64-clang-release clang++ clang Release "${clang_arm[@]}"; fi
  fi
elif [[ $host == x86_64 ]]; then
  skip "all Arm models" - "no aarch64-linux-gnu-g++"
fi

if [[ $host != x86_64 ]]; then
  skip "all models" - "this host is $host: models are presented on x86-64 alone"
else
  echo "matrix: running"
  if command -v qemu-x86_64 >/dev/null; then
    for build in "${native_builds[@]}"; do
      for model in Nehalem:scalar SandyBridge:scalar IvyBridge:scalar Haswell:avx2 Haswell,-fma:scalar \
        Skylake-Client:avx2 EPYC:avx2; do
        run_model "${model%:*} (qemu)" "$build" "${model##*:}" qemu-x86_64 -cpu "${model%:*}"
      done
    done
  else
    skip "x86 models under qemu" - "no qemu-x86_64"
  fi

  mask=$build_folder/cpuid_mask.so
  cc -O2 -shared -fPIC "$here/cpuid_mask.c" -o "$mask" -ldl
  flags=" $(sed -n 's/^flags[[:space:]]*: //p' /proc/cpuinfo | head -n 1) "
  for entry in haswell:avx2:avx2 haswell-without-fma:scalar:avx2 haswell-without-bmi2:scalar:avx2 \
    system-without-xsave:scalar:avx2 knights-landing:avx2:avx512f skylake-x:avx512:avx512bw \
    cooper-lake:avx512:avx512_bf16 ice-lake:avx512:avx512_vbmi2 sapphire-rapids:avx512:amx_tile; do
    IFS=: read -r model best needs <<<"$entry"
    for build in "${native_builds[@]}"; do
      if [[ $flags == *" $needs "* ]]; then
        run_model "$model (native)" "$build" "$best" env "LD_PRELOAD=$mask" "RAPT_CPU_MODEL=$model"
      else
        skip "$model (native)" "$build" "this CPU lacks $needs: such a machine would have to run it"
      fi
    done
  done
  for build in "${native_builds[@]}"; do
    best=scalar
    if [[ $flags == *" avx2 "* && $flags == *" fma "* && $flags == *" bmi2 "* ]]; then best=avx2; fi
    if [[ $flags == *" avx512bw "* && $flags == *" avx512vl "* && $flags == *" avx512dq "* ]]; then best=avx512; fi
    run_model "this CPU" "$build" "$best" env
  done

  if ((${#arm_builds[@]} > 0)) && command -v qemu-aarch64 >/dev/null; then
    for build in "${arm_builds[@]}"; do
      for model in cortex-a53 cortex-a72 cortex-a76 neoverse-n1 a64fx max; do
        run_model "$model (qemu)" "$build" neon qemu-aarch64 -cpu "$model"
      done
    done
  fi
  wait
fi

for outcome in "$build_folder"/outcome-???; do
  [[ -f $outcome ]] || continue
  row=$(cat "$outcome")
  rows+=("$row")
  case $row in
    *" passed ("*) passed=$((passed + 1)) ;;
    *"skipped: "*) skipped=$((skipped + 1)) ;;
    *)
      failed=$((failed + 1))
      echo "--- ${row%% *}: the end of $outcome.log"
      tail -n 15 "$outcome.log"
      ;;
  esac
done

echo
printf '%-30s %-19s %-20s %s\n' "CPU model" "build" "levels that ran" "result"
printf '%s\n' "${rows[@]}"
echo "$passed passed, $failed failed, $skipped skipped"
((failed == 0))
