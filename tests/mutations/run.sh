#!/usr/bin/env bash
# Breaks the kernels of one level in one way at a time, and demands that rapt-validate --quick finds each break, and
# finds none in the unbroken copy.
#
# run.sh SOURCE_DIR WORK_DIR LEVEL [CMAKE_ARGUMENT...]
#   LEVEL     a level that this machine can run, or "best"
#   EMULATOR  in the environment: a command that runs the programs
#
# The level is compiled from a copy of its headers that it finds first: a mutation reaches no other level, and costs
# one object and a link. In "every level" mutations all levels are broken alike, and only the published hashes tell.
# Every core but four at most works on a share of them, in a copy of its own; each break's output stays in
# WORK_DIR/SHARE/logs.
set -euo pipefail

if (($# < 3)); then
  sed -n '2,12s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2
  exit 2
fi
source_dir=$(cd "$1" && pwd) level=$3
mkdir -p "$2"
work=$(cd "$2" && pwd)
shift 3
cmake=${CMAKE:-cmake}
read -ra emulator <<<"${EMULATOR:-}"

if [[ $level == best ]]; then
  case $(uname -m) in
    x86_64)
      has() { local feature; for feature; do grep -qw "$feature" /proc/cpuinfo || return 1; done; }
      if has avx512f avx512bw avx512cd avx512dq avx512vl; then
        level=avx512
      elif has avx2 fma bmi2; then
        level=avx2
      else
        echo "skipped: this CPU runs no vector level"
        exit 0
      fi
      ;;
    aarch64) level=neon ;;
    *) echo "skipped: no vector level for $(uname -m)"; exit 0 ;;
  esac
fi

shares=$(nproc)
if ((shares > 4)); then shares=4; fi
if [[ -z ${RAPT_MUTATIONS_SHARE:-} ]]; then
  echo "level $level"
  failed=0 workers=()
  for ((share = 0; share < shares; share++)); do
    RAPT_MUTATIONS_SHARE=$share "${BASH_SOURCE[0]}" "$source_dir" "$work/$share" "$level" "$@" >"$work/$share.log" 2>&1 &
    workers+=($!)
  done
  for ((share = 0; share < shares; share++)); do
    wait "${workers[share]}" || failed=1
    cat "$work/$share.log"
  done
  exit $failed
fi
share=$RAPT_MUTATIONS_SHARE

copy=$work/source build=$work/build logs=$work/logs
rm -rf "$copy" "$logs"
mkdir -p "$copy" "$logs"
cp -R "$source_dir"/{CMakeLists.txt,cmake,include,src,tests} "$copy"

# The level's own headers: -iquote is searched before the library's -I.
own=$copy/own
mkdir -p "$own/isa"
cp -R "$copy/src/kernels" "$own"
cp -R "$copy/src/isa/$level" "$own/isa"
row=$(grep -c "\"$level|.*\"" "$copy/cmake/isa.cmake")
[[ $row == 1 ]] || { echo "cmake/isa.cmake has $row rows for $level" >&2; exit 1; }
sed -i "s#\"\($level|[^\"]*\)\"#\"\1 -iquote $own\"#" "$copy/cmake/isa.cmake"

"$cmake" -S "$copy" -B "$build" -DCMAKE_BUILD_TYPE=Release -DRAPT_BUILD_VALIDATE=ON -DRAPT_BUILD_TESTS=OFF \
  -DRAPT_INSTALL=OFF "$@" >"$work/configure.log" 2>&1 || { cat "$work/configure.log"; exit 1; }

rebuild() {
  "$cmake" --build "$build" --target rapt-validate >"$work/build.log" 2>&1 || { cat "$work/build.log"; return 1; }
}

failures=0
report() { printf '%-44s %s\n' "$1" "$2"; }

# What rapt-validate's output says of how it failed.
caught_by() {
  local output=$1 ways=()
  if grep -q 'crashed: \|^FAIL: SIG' "$output"; then ways+=("a guard page"); fi
  if grep -q 'got 0x' "$output"; then ways+=("a mismatch"); fi
  if grep -q 'wrote ' "$output"; then ways+=("a canary"); fi
  if grep -q DIFFERENT "$output"; then ways+=("the published hash"); fi
  if grep -q INACCURATE "$output"; then ways+=("the accuracy"); fi
  local list
  list=$(printf '%s, ' "${ways[@]}")
  echo "${list%, }"
}

validate() {
  "${emulator[@]}" "$build/tests/validate/rapt-validate" --quick --isa "$level" >"$1" 2>&1
}

# judge NAME: the mutation in place must build, and fail.
judge() {
  local name=$1 status=0 log="$logs/$1.log"
  rebuild || { report "$name" "DOES NOT BUILD"; failures=$((failures + 1)); return 0; }
  validate "$log" || status=$?
  if ((status == 0)); then
    report "$name" "NOT CAUGHT"
    failures=$((failures + 1))
  elif ((status == 1)) && grep -q '^FAIL: ' "$log"; then
    report "$name" "$(caught_by "$log"), in $(grep -c 'DIFFERENT' "$log") rows"
  else
    report "$name" "rapt-validate itself failed with status $status"
    tail -n 3 "$log"
    failures=$((failures + 1))
  fi
}

# True for this worker's share of the mutations.
count=0
is_mine() { ((count++ % shares == share)); }

# mutate_in ROOT NAME FILE SED_SCRIPT: ROOT/FILE must change, and is put back.
mutate_in() {
  local name=$2 file=$1/$3 script=$4
  cp "$file" "$work/original"
  sed -E -i "$script" "$file"
  if cmp -s "$file" "$work/original"; then
    report "$name" "NOTHING TO MUTATE in $3"
    failures=$((failures + 1))
  else
    judge "$name"
  fi
  # Newer than the object, so that it is compiled again.
  cp "$work/original" "$file"
}
mutate() { if is_mine; then mutate_in "$own" "$@"; fi; }

rebuild
if validate "$logs/nothing.log"; then
  report "nothing" "passes, as it must"
else
  report "nothing" "FAILS"
  tail -n 20 "$logs/nothing.log"
  failures=$((failures + 1))
fi

simd=isa/$level/simd.hpp

mutate "dot: the tail is dropped" kernels/dot.hpp \
  's/if \(i < n\) sum\.add_first\(.*$/(void)i;/'
mutate "exp: the tail is dropped" kernels/exp.hpp \
  's/if \(i < n\) S::store_first\(y \+ i, exp\(.*$/(void)i;/'
mutate "sums: the last element of a tail is dropped" kernels/sum.hpp \
  's/first\(i \+ begin, end - i - begin\)/first(i + begin, end - i - begin - (end - i - begin < S::width ? 1 : 0))/'
mutate "fold: two lanes are swapped" kernels/fold.hpp \
  's/return simd<T>::fold\(fold_registers\(lane\)\);/auto v = fold_registers(lane); T l[simd<T>::width]; simd<T>::store(l, v); const T kept = l[0]; l[0] = l[1]; l[1] = kept; return simd<T>::fold(simd<T>::load(l));/'
mutate "fold: neighbours instead of halves" kernels/fold.hpp \
  's/lane\[r\] \+ lane\[r \+ registers \/ 2\]/lane[2 * r] + lane[2 * r + 1]/'
case $level in
  avx2) unfused='s/return _mm256_fmadd_ps\(a, b, c\);/return _mm256_add_ps(_mm256_mul_ps(a, b), c);/' ;;
  avx512) unfused='s/return _mm512_fmadd_ps\(a, b, c\);/return _mm512_add_ps(_mm512_mul_ps(a, b), c);/' ;;
  neon) unfused='s/return vfmaq_f32\(c, a, b\);/return vaddq_f32(vmulq_f32(a, b), c);/' ;;
esac
mutate "f32: the multiply-add is not fused" "$simd" "$unfused"
mutate "f64: the negated multiply-add is not fused" "$simd" \
  's/return (_mm[0-9]+_fnmadd_pd\(a, b, c\)|vfmsq_f64\(c, a, b\));/return c - a * b;/'
mutate "exp: a coefficient is 1 ulp off in one lane" kernels/exp.hpp \
  's/unroll<C::coefficient_count>\(\[&\]\(auto i\) \{ c\[i\] = batch\(k\.c\[i\]\); \}\);/&\n    T lanes[S::width];\n    S::store(lanes, c[1]);\n    lanes[1] = __builtin_bit_cast(T, static_cast<typename C::Bits>(__builtin_bit_cast(typename C::Bits, lanes[1]) + 1));\n    c[1] = S::load(lanes);/'
mutate "exp: subnormal results are flushed" kernels/exp.hpp \
  's/S::less\(x, batch\(C::exp_normal_from\)\), subnormal, normal\)/S::less(x, batch(C::exp_normal_from)), batch(T(0)), normal)/'
mutate "softmax: tiny probabilities are not flushed" kernels/softmax.hpp \
  's/S::zero_where\(S::less\(e, smallest_\), e\)/S::zero_where(S::less(e, e), e)/'
mutate "softmax: the quotient is not mended" kernels/softmax.hpp \
  's/return S::fma\(S::fnma\(q, divisor_, e\), reciprocal_, q\);/return q;/'
case $level in
  neon) mutate "softmax: NaN is not detected" "$simd" 's/vmaxq_f(32|64)\(/vmaxnmq_f\1(/; s/vmaxvq_f(32|64)\(/vmaxnmvq_f\1(/' ;;
  *) mutate "softmax: NaN is not detected" kernels/softmax.hpp \
    's/is_nan = S::either\(is_nan, S::unordered\(a, b\)\);/(void)a, (void)b;/' ;;
esac
mutate "softmax: one visible column too few" kernels/score_plan.hpp \
  's/cols = r - before \+ 1 \+ after;/cols = r - before + after;/'
mutate "softmax: the mask is one element off" kernels/softmax.hpp \
  's/S::load_flags\(mask_ \+ i, k\)/S::load_flags(mask_ + (i == 0 ? 0 : i - 1), k)/'
case $level in
  neon)
    load='/static batch load_first\(const float/,/^  \}/s/if \(k >= 4\) return vld1q_f32\(p\);/return keep_first(load(p), k);/'
    store='/static void store_first\(float/,/^  \}/s/if \(k >= 4\) return/return/'
    ;;
  *)
    # The empty assembly keeps the compiler from making a masked load of a whole load and a mask.
    load='/static batch load_first\(const float/s/return [^;]*;/batch all = load(p); __asm__("" : "+x"(all.data)); return keep_first(all, k);/'
    store='/static void store_first\(float/s/\{ [^}]*\}/{ (void)k; store(p, v); }/'
    ;;
esac
mutate "a tail is loaded as a whole vector" "$simd" "$load"
mutate "a tail is stored as a whole vector" "$simd" "$store"

# The scalar level and this one are wrong alike: they agree, and only the published hashes know better.
mutate_alike() {
  local name=$1 file=$2 script=$3
  is_mine || return 0
  cp "$own/$file" "$work/own_original"
  sed -E -i "$script" "$own/$file"
  mutate_in "$copy/src" "$name" "$file" "$script"
  cp "$work/own_original" "$own/$file"
}
mutate_alike "every level: one visible column too few" kernels/score_plan.hpp \
  's/cols = r - before \+ 1 \+ after;/cols = r - before + after;/'
mutate_alike "every level: a coefficient is 1 ulp off" kernels/contract.hpp 's/0x1\.5558a6p-5f/0x1.5558a8p-5f/'

if ((failures != 0)); then
  echo "$failures failed"
  exit 1
fi
