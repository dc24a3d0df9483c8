#!/usr/bin/env bash
# Breaks the kernels of one level in one way at a time, and demands that rapt-validate --quick finds each break, and
# finds none in the unbroken copy.
#
# run.sh SOURCE_DIR WORK_DIR LEVEL [CMAKE_ARGUMENT...]
#   LEVEL     a level that this machine can run, or "best"
#   EMULATOR  in the environment: a command that runs the programs
#   RAPT_MUTATIONS_EVERY, RAPT_MUTATIONS_ONLY  in the environment: every so manyth is made; those alone whose name
#             matches this extended regular expression
#
# The level is compiled from a copy of its headers that it finds first: a mutation reaches no other level, and costs
# an object or two and a link. In "every level" mutations all levels are broken alike, and only the published hashes tell.
# Every core but four at most works on a share of them, in a copy of its own; each break's output stays in
# WORK_DIR/SHARE/logs.
set -euo pipefail

if (($# < 3)); then
  sed -n '2,14s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2
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

# True for this worker's share of the mutations. RAPT_MUTATIONS_EVERY=3: only every third is made, as each costs the
# compilation of a level.
count=0 every=${RAPT_MUTATIONS_EVERY:-1}
is_mine() {
  if [[ -n ${RAPT_MUTATIONS_ONLY:-} && ! $1 =~ $RAPT_MUTATIONS_ONLY ]]; then return 1; fi
  local number=$((count++))
  ((number % every == 0 && number / every % shares == share))
}

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
mutate() { if is_mine "$1"; then mutate_in "$own" "$@"; fi; }

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
mutate "exp, scale: the tail is dropped" kernels/map.hpp \
  's/if \(i_ < n_\) some\(n_ - i_\);/(void)0;/'
mutate "exp, scale: what comes before alignment is dropped" kernels/map.hpp \
  's/if \(head > 0\) some\(head\);/i_ = head;/'
mutate "dot: what comes before alignment is dropped" kernels/dot.hpp \
  's/S::load_last\(a - back, head\) \* S::load_last\(b - back, head\)/typename S::batch(T(0))/'
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
  's/unroll<C::coefficient_count>\(.*c\[i\] = batch\(k\.c\[i\]\); \}\);/&\n    T lanes[S::width];\n    S::store(lanes, c[1]);\n    lanes[1] = __builtin_bit_cast(T, static_cast<typename C::Bits>(__builtin_bit_cast(typename C::Bits, lanes[1]) + 1));\n    c[1] = S::load(lanes);/'
mutate "exp: subnormal results are flushed" kernels/exp.hpp \
  's/S::subtract_bits_where\(subnormal, S::add_where\(subnormal, y, unit\), unit\)/S::zero_where(subnormal, y)/'
mutate "exp: subnormal results end too late" kernels/exp.hpp \
  's/normal_from\(C::exp_normal_from\)/normal_from(C::exp_normal_from + 1)/'
case $level in
  avx512)
    mutate "exp: a vector of a block is not looked at" "$simd" \
      's/differ = (_mm512_ternarylogic_epi64\(differ, bits\(v\[0\]\), bits\(v\[3\]\), unequal_or\));/(void)\1;/'
    mutate "exp: the remainder of an infinity is taken" kernels/exp.hpp \
      's/S::nearer_zero\(this->remainder\(v\[r\], n\), bound\)/this->remainder(v[r], n)/'
    ;;
  *)
    mutate "exp: a vector of a block is not looked at" kernels/exp.hpp \
      's/S::magnitude_reaches\(v\[r \+ 1\], plain\)/S::magnitude_reaches(v[r], plain)/'
    mutate "exp: infinity is not looked for" kernels/exp.hpp \
      's/S::select\(S::not_greater\(x, high\), y, x \+ infinity\)/y/'
    ;;
esac
mutate "softmax: tiny probabilities are not flushed" kernels/quotient.hpp \
  's/flushed = S::less\(e, smallest_\)/flushed = S::less(e, e)/'
mutate "softmax: the quotient is not mended" kernels/quotient.hpp \
  's/S::fma\(S::fnma\(q, divisor_, e\), reciprocal_, q\)/q/'
case $level in
  neon) mutate "softmax: NaN is not detected" "$simd" 's/vmaxq_f(32|64)\(/vmaxnmq_f\1(/; s/vmaxvq_f(32|64)\(/vmaxnmvq_f\1(/' ;;
  avx512)
    mutate "softmax: NaN in a row's sum is not detected" kernels/softmax_by_rows.hpp \
      's/regular \&\& done\.sum == done\.sum\) \[\[likely\]\]/regular)/'
    mutate "softmax: NaN in a group's sums is not detected" kernels/softmax_by_groups.hpp 's/any_nan_ = S::exp_keeps_nan/any_nan_ = false/'
    mutate "softmax: NaN beside nothing but -inf is not detected" kernels/scores.hpp \
      's/if constexpr \(simd<T>::exp_keeps_nan\)/if constexpr (false \&\& simd<T>::exp_keeps_nan)/'
    mutate "log_softmax: NaN in a row's sum is not detected" kernels/log_softmax.hpp \
      's/RowKind::regular \&\& sum == sum\) \[\[likely\]\]/RowKind::regular)/'
    ;;
  *)
    mutate "softmax: NaN in a whole vector is not detected" kernels/scores.hpp \
      's/if constexpr \(looks_for_nan\) \{/if constexpr (false) {/'
    mutate "softmax: NaN in a tail is not detected" kernels/scores.hpp \
      's/if constexpr \(looks_for_nan\) is_nan_/if constexpr (false) is_nan_/'
    mutate "softmax: NaN in a group in registers is not detected" kernels/softmax_by_groups.hpp \
      's/if constexpr \(MaxOf<T>::looks_for_nan\)/if constexpr (false)/'
    ;;
esac
mutate "softmax: a row is finished with the next one's maximum" kernels/softmax_by_rows.hpp \
  's/auto done = row;/auto \&done = row;/'
mutate "softmax: the next row has this one's options" kernels/softmax_by_rows.hpp \
  's/call\.look_at\(r \+ 1, next_x, next_y\)/call.look_at(r, next_x, next_y)/'
mutate "groups: odd rows are not looked for" kernels/softmax_by_groups.hpp \
  's/if \(S::any\(S::either\(is_nan, irregular\)\)\)/if (S::any(is_nan))/'
mutate "groups: only one of two is looked at" kernels/softmax_by_groups.hpp \
  's/if \(!a_is_regular \|\| !b_is_regular\)/if (!a_is_regular)/'
mutate "groups: a row is divided by its neighbour's sum" kernels/softmax_by_groups.hpp \
  's/quotient\{batch\(sum_\[j\]\)/quotient{batch(sum_[j ^ 1])/'
mutate "groups: a row has its neighbour's maximum" kernels/softmax_by_groups.hpp \
  's/exponential\(exp, lowest_\[j\], magic_\[j\]\)/exponential(exp, lowest_[j], magic_[j ^ 1])/'
mutate "groups: a register is divided by another one's sum" kernels/softmax_by_groups.hpp \
  's/quotient\(of_rows\(this->sum_, m\)/quotient(of_rows(this->sum_, m ^ 1)/'
mutate "groups: the second one has the first one's options" kernels/softmax_by_groups.hpp \
  's/r \+ skip, count - skip\)/r, count - skip)/'
mutate "groups: the second one begins a row too early" kernels/softmax_by_groups.hpp \
  's/skip = count > most \? most : 0;/skip = count > most ? most - 1 : 0;/'
mutate "groups: a row's end writes over the next row" kernels/softmax_by_groups.hpp 's/pitch = \(.*;/pitch = rows_.cols;/'
mutate "groups: what a row does not see is not written" kernels/softmax_by_groups.hpp \
  's/if \(cols\(j\) < rows_\.cols\) fill\(.*$/(void)j;/'
case $level in
  neon)
    order='/fold_each\(const batch/,/^  \}/s/op\(low_halves\((v\[i\], v\[i \+ 1\])\), high_halves\(v\[i\], v\[i \+ 1\]\)\)/op(vuzp1q_f32(\1), vuzp2q_f32(\1))/'
    exchange='/fold_each\(const batch/,/^  \}/s/a = halves\(0\), b = halves\(2\)/a = halves(2), b = halves(0)/'
    ;;
  *)
    order='s/op\((_mm[0-9]+_shuffle_ps)\(a, b, 0x44\), (_mm[0-9]+_shuffle_ps)\(a, b, 0xee\)\)/op(\1(a, b, 0x88), \2(a, b, 0xdd))/'
    exchange='s/pairs\(four\(0\), four\(1\)\)/pairs(four(1), four(0))/; s/pairs\(halves\(0\), halves\(1\)\)/pairs(halves(1), halves(0))/'
    ;;
esac
mutate "groups: neighbours instead of halves" "$simd" "$order"
mutate "groups: two rows are exchanged in the fold" "$simd" "$exchange"
if [[ $level == avx512 ]]; then
  mutate "joined rows: the other one is written" "$simd" \
    's/upper_half\(batch v\) \{ return _mm512_shuffle_f32x4\(v, v, 0xee\)/upper_half(batch v) { return _mm512_shuffle_f32x4(v, v, 0x44)/'
  mutate "joined rows: in another order than they are folded" kernels/softmax_by_groups.hpp 's/m % 4 \+ part \* 4/m % 4 + (1 - part) * 4/'
  mutate "joined rows: lower and upper exchanged" "$simd" 's/(join_halves\(batch a, batch b\) \{ return _mm512_shuffle_f32x4)\(a, b, 0x44\)/\1(b, a, 0x44)/'
fi
mutate "attention: the mask is one key off" kernels/attention/few_rows.hpp \
  's/S::load_flags\(mask \+ j, count\)/S::load_flags(mask + (j == 0 ? 0 : j - 1), count)/'
mutate "attention: a key too many is seen" kernels/attention/many_rows.hpp \
  's/range_end\[i\] = static_cast<T>\(within_block\(rows_\.end\[r \+ i\], first\)\)/&+1/'
mutate "attention: the sums of chunks are not folded by a fused operation" kernels/attention/rows.hpp \
  's/S::fma\(S::load\(next\.sum \+ r\), b, S::load\(total\.sum \+ r\) \* a\)/S::load(next.sum + r) * b + S::load(total.sum + r) * a/'
mutate "attention: values are not rescaled to a new maximum" kernels/attention/rows.hpp \
  's/S::store\(rescale \+ r, factor_now\);/S::store(rescale + r, batch(T(1)));/'
mutate "attention: NaN leaks from an excluded value" kernels/attention/attention.hpp 's/values\.be_careful\(\);/return;/'
mutate "attention: in place, queries are read anew" kernels/attention/few_rows.hpp \
  's/if \(!careful_\) load_queries\(\);/load_queries();/'
mutate "attention: a weight is not fused" kernels/attention/weight.hpp \
  's/p = S::fma\(p, r, batch\(T\(1\)\)\);/p = p * r + batch(T(1));/'
mutate "attention: the sink is not in the sum" kernels/attention/rows.hpp \
  's/S::fma\(before, to_weight, added\)/before * to_weight/'
mutate "attention: the softcap bends, but does not scale" kernels/attention/many_rows.hpp \
  's/score = cap \* tanh;/score = tanh;/'
mutate "attention: the slope's product is rounded" kernels/attention/few_rows.hpp \
  's/S::fma\(slope, distance \+ index, score\)/slope * (distance + index) + score/'
mutate "attention: one page for all" kernels/attention/block.hpp \
  's/(const T \*key = tile\.k<T>\(first) \+ j\)/\1) + k_stride * static_cast<std::ptrdiff_t>(j)/'
mutate "attention: one page for all keys of a few rows" kernels/attention/few_rows.hpp \
  's/: tile_\.k<T>\(at\);/: tile_.k<T>(first) + k_stride * static_cast<std::ptrdiff_t>(at - first);/'
mutate "attention: a block's last values are its first" kernels/attention/few_rows.hpp \
  's/tile_\.v<T>\(first \+ i < end/tile_.v<T>(i == 48 ? first : first + i < end/'
mutate "attention: a row's end is written over" kernels/attention/transposed.hpp \
  's/S::store_first\(row\[i\] \+ d, v\[i\], dims\)/S::store(row[i] + d, v[i])/'
mutate "attention: a product that underflows is -0" kernels/attention/rows.hpp \
  's/value \* factor_now \+ zero/value * factor_now/'
mutate "attention: a partial result is read past its end" kernels/attention/few_rows.hpp \
  's/S::load_first\(next \+ d, o_\.v_dim - d\)/S::load(next + d)/'
mutate "attention's gradient: the last row is dropped" kernels/attention/backward.hpp \
  's/std::size_t begin = 0, end = rows_\.rows;/std::size_t begin = 0, end = rows_.rows > 1 ? rows_.rows - 1 : 1;/'
mutate "attention's gradient: rows in the opposite order" kernels/attention/outer.hpp \
  's/for \(std::size_t i = begin; i < end; \+\+i\) \{/for (std::size_t i = end; i-- > begin;) {/'
mutate "attention's gradient: the scale is forgotten" kernels/attention/backward.hpp \
  's/S::select\(is_nothing, zero, g \* to_score\)/S::select(is_nothing, zero, g)/; s/const batch mean = S::load\(mean_ \+ r\), to_score = .*;/const batch mean = S::load(mean_ + r);/'
mutate "attention's gradient: the softcap's slope is forgotten" kernels/attention/backward.hpp \
  's/if \(has_cap\) g = g \* S::load\(slopes_ \+ at\);/(void)has_cap;/'
mutate "attention's gradient: NaN of a weight of 0" kernels/attention/backward.hpp \
  's/S::select\(is_nothing, zero, g \* to_score\)/g * to_score/'
mutate "attention's gradient: a weight above 1" kernels/attention/backward.hpp \
  's/S::min\(batch\(T\(0\)\), distance\)/distance/'
mutate "attention's gradient: the sign of dsinks" kernels/attention/backward.hpp \
  's/sum = fused\(-sink\[r\], mean_\[r\], sum\)/sum = fused(sink[r], mean_[r], sum)/'
mutate "attention's gradient: the tail of the dimensions is dropped" kernels/attention/outer.hpp \
  's/if \(d < dim\) outer_products_of<T, 1, depth, false>.*$/(void)d;/'
mutate "attention's gradient: infinite keys of weight 0" kernels/attention/backward.hpp \
  's/const bool keys_are_finite = are_finite\(addresses_\.k, keys\);/const bool keys_are_finite = true;/'
mutate "attention's gradient: infinite rows of weight 0" kernels/attention/backward.hpp \
  's/if \(!rows_are_finite_\) return add_by_element\(keys, dk, dv\);/(void)rows_are_finite_;/'
mutate "attention's gradient: the bias has the score's gradient" kernels/attention/backward.hpp \
  's/S::store\(slopes_ \+ at, S::select\(is_nothing, zero, ds\)\)/S::store(slopes_ + at, S::select(is_nothing, zero, g * to_score))/'
mutate "softmax: one visible column too few" kernels/score_plan.hpp \
  's/cols = r - before \+ 1 \+ after;/cols = r - before + after;/'
mutate "softmax: the mask is one element off" kernels/scores.hpp \
  's/S::load_flags\(mask_ \+ i, k\)/S::load_flags(mask_ + (i == 0 ? 0 : i - 1), k)/'
mutate "softmax: the mask alone is one element off" kernels/scores.hpp \
  's/S::load_flags\(mask \+ i, k\)/S::load_flags(mask + (i == 0 ? 0 : i - 1), k)/'
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
  is_mine "$name" || return 0
  cp "$own/$file" "$work/own_original"
  sed -E -i "$script" "$own/$file"
  mutate_in "$copy/src" "$name" "$file" "$script"
  cp "$work/own_original" "$own/$file"
}
mutate_alike "every level: one visible column too few" kernels/score_plan.hpp \
  's/cols = r - before \+ 1 \+ after;/cols = r - before + after;/'
mutate_alike "every level: attention's coefficient is 1 ulp off" kernels/attention_contract.hpp \
  's/0x1\.c6af76p-5f/0x1.c6af78p-5f/'
mutate_alike "every level: a coefficient is 1 ulp off" kernels/contract.hpp 's/0x1\.5558a6p-5f/0x1.5558a8p-5f/'

if ((failures != 0)); then
  echo "$failures failed"
  exit 1
fi
