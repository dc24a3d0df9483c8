#!/usr/bin/env bash
# The symbols and instructions of the library's objects.
#
#   audit.sh object LEVEL FILE      a level's closed object: one global symbol, no weak one, no static constructor,
#                                   nothing undefined but libm, memory functions and the questions of machine/questions.hpp,
#                                   no instruction of a higher level
#   audit.sh part LEVEL FILE        a part of a level that the compiler keeps apart (RAPT_CLOSE): the same, but global and weak
#                                   symbols, and undefined ones, may be those that name the level's namespaces
#   audit.sh archive FILE           librapt.a: the same for each level in it; everything else at the baseline, and nothing
#                                   needed of the C++ library
#   audit.sh program FILE MAP       a linked program: outside the levels' code, nothing beyond the baseline.
#                                   MAP is the linker's map (-Wl,-Map=MAP)
#
# LEVELS names the build's rapt_levels.txt, which says what each level may use; without it, the one next to FILE. NM,
# OBJDUMP, READELF and AR name the tools (for a cross build, its own). Ends with 1 if anything is wrong.
set -euo pipefail

export LC_ALL=C  # symbols and instructions are ASCII, which tools read twice as fast
nm=${NM:-nm} objdump=${OBJDUMP:-objdump} readelf=${READELF:-readelf} ar=${AR:-ar}
problems=0
complain() {
  echo "audit: $*" >&2
  problems=$((problems + 1))
}

# The instructions that come with a macro of the compiler, as extended regular expressions over "mnemonic operands". A
# level may hold those of the macros in its row of rapt_levels.txt.
x86_instructions=(
  # with the other instructions of x86-64-v3 that have no VEX
  __SSE3__ '^(addsub|hadd|hsub|lddqu|movddup|movs[hl]dup|palignr|pabs|phadd|phsub|pmaddubsw|pmulhrsw|pshufb|psign|blend|dpp[sd]|extractps|insertps|movntdqa|mpsadbw|packusdw|pblend|pcmpeqq|pcmpgtq|pcmp[ei]str|pextr[bdq]|phminposuw|pinsr[bdq]|pm(ax|in)(s[bd]|u[dw])|pmov[sz]x|pmuldq|pmulld|ptest|round[ps][sd]|crc32|popcnt|lzcnt|tzcnt|movbe|andn |bextr|bls(i|r|msk) |bzhi|mulx|pdep|pext |rorx|s(a|h)[lr]x |adcx|adox|aes|pclmul|sha(1|256)|xgetbv|cmpxchg16b)'
  __AVX__ '^v[a-z0-9]+ '
  __AVX512F__ '%zmm|%[xy]mm(1[6-9]|2[0-9]|3[01])|%k[0-7]|\{(1to|r[nduz]-sae|sae|z\})|^k(mov|and|or|xor|add|shift|not|test|ortest|unpck)[a-z]* '
  __AVXVNNI__ '^\{vex\} vpdp'
  __AVX512VNNI__ '^vpdp'
  __AVX512BF16__ '^v(dpbf16|cvtne)'
  __AVX512IFMA__ '^vpmadd52'
  __AVX512VBMI__ '^vp(erm(b|i2b|t2b) |multishift)'
  __AVX512VBMI2__ '^vp(compress[bw]|expand[bw]|sh[lr]d)'
  __AVX512BITALG__ '^vp(opcnt[bw]|shufbitqmb) '
  __AVX512VPOPCNTDQ__ '^vpopcnt[dq] '
  __AVX512VP2INTERSECT__ '^vp2intersect'
  __AVX512FP16__ '^v([a-z0-9]*[^2]ph|[a-z0-9]+sh) '
  __GFNI__ '^v?gf2p8'
  __VAES__ '^vaes'
  __VPCLMULQDQ__ '^vpclmul'
  __AMX_TILE__ '^(tdp|tile|ldtilecfg|sttilecfg)'
)
arm64_instructions=(
  __ARM_FEATURE_SVE '[[:space:](,{]z[0-9]+\.|^whilel'
  __ARM_FEATURE_DOTPROD '^[su]dot'
  __ARM_FEATURE_MATMUL_INT8 '^(usdot|sudot|u?smmla|ummla)'
  __ARM_FEATURE_BF16_VECTOR_ARITHMETIC '^bf(dot|mmla|mlal)'
  __ARM_FEATURE_FP16_VECTOR_ARITHMETIC '^f([abd-z][a-z]*|c[a-uw-z][a-z]*|cvt[amnpz][su])[[:space:]][vh][0-9]+(\.[48]h|,)'
  __ARM_FEATURE_FP16_FML '^fml[as]l'
  __ARM_FEATURE_COMPLEX '^fc(mla|add)'
  __ARM_FEATURE_QRDMX '^sq?rdmlah'
  __ARM_FEATURE_ATOMICS '^(ld(add|clr|eor|set|smax|smin|umax|umin)|cas|swp)'
  __ARM_FEATURE_PAUTH '^(pac|aut)'
)

forbidden_in() { # LEVEL, or baseline
  local -n table=${machine}_instructions
  local macros='' i
  if [[ $1 != baseline ]]; then
    macros=$(grep -m 1 -E "^$1( |$)" "$levels") || complain "$levels has no level $1"
    macros=${macros//__AMXTILE__/__AMX_TILE__}  # clang 14's name
  fi
  for ((i = 0; i < ${#table[@]}; i += 2)); do
    [[ "$macros " == *" ${table[i]} "* ]] || printf '%s|' "${table[i + 1]}"
  done
  echo '^bad$'
}

set_machine() {
  case "$($readelf -h "$1" 2>/dev/null | sed -n 's/^ *Machine: *//p' | head -n 1)" in
    *X86-64*) machine=x86 ;;
    AArch64) machine=arm64 ;;
    *) complain "$1 is of no processor that this audit knows"; exit 1 ;;
  esac
}

# "address mnemonic operands" of every instruction of a file. More arguments are objdump's.
instructions() {
  $objdump -d --no-show-raw-insn "${@:2}" "$1" | awk '
    $1 ~ /^[0-9a-f]+:$/ && NF > 1 {
      sub(/:/, "", $1)
      while (NF > 2 && $2 ~ /^(rep[a-z]*|lock|bnd|notrack|data16|cs|ds)$/) { $2 = ""; $0 = $0 }
      $1 = $1
      print
    }'
}

# Sets count to the number of the file's instructions.
check_instructions() { # LEVEL FILE NAME
  local found
  instructions "$2" >"$listing"
  count=$(wc -l <"$listing")
  # cpu.cpp executes xgetbv, which not every CPU has, behind OSXSAVE.
  found=$(cut -d' ' -f2- "$listing" | grep -E "$(forbidden_in "$1")" | { [[ $3 == *cpu.cpp* ]] && grep -v '^xgetbv' || cat; } |
          sort | uniq -c | sort -rn | head -n 5 || true)
  [[ -z $found ]] || complain "$3: instructions beyond level $1:"$'\n'"$found"
  total=$((total + count))
}

check_no_constructors() { # FILE NAME
  ! grep -qE '\.(init_array|ctors|preinit_array)' < <($readelf -SW "$1") || complain "$2: static constructors"
}

check_needs() { # NAME SYMBOLS
  local symbols
  symbols=$(grep -vxE 'fmaf?|floorf|mem(cpy|set|move)|rapt_may_use_tiles|rapt_reads_rows_one_by_one|rapt_fetches_far_ahead|rapt_prefers_its_prefetcher|rapt_reads_in_order|rapt_kernels_without_tiles|_GLOBAL_OFFSET_TABLE_' <<<"$2" || true)
  [[ -z $symbols ]] || complain "$1: needs what kernels do not use:"$'\n'"$symbols"
}

audit_part() { # LEVEL FILE
  local name own symbols namespace
  name=$(basename "$2")
  own="^rapt_table_$1\$" # or a namespace as Itanium's ABI writes it
  for namespace in "rapt_$1" "xsimd_$1"; do own+="|[^0-9]${#namespace}$namespace"; done
  symbols=$($nm --defined-only --extern-only "$2" | awk '{print $NF}' | grep -vE "$own" || true)
  [[ -z $symbols ]] || complain "$name: defines symbols that do not name level $1:"$'\n'"$symbols"
  check_needs "$name" "$($nm --undefined-only "$2" | awk '{print $NF}' | grep -vE "$own" || true)"
  check_no_constructors "$2" "$name"
  check_instructions "$1" "$2" "$name"
  echo "audit: $name: $count instructions, symbols of level $1 alone"
}

audit_object() { # LEVEL FILE
  local table="rapt_table_$1" name symbols
  name=$(basename "$2")
  symbols=$($nm --defined-only --extern-only "$2" | awk '{print $NF}')
  [[ $symbols == "$table" ]] || complain "$name: defines more than $table:"$'\n'"$symbols"
  symbols=$($nm "$2" | awk '$(NF-1) ~ /^[WwVvu]$/ {print $(NF-1), $NF}')
  [[ -z $symbols ]] || complain "$name: weak or unique symbols:"$'\n'"$symbols"
  check_needs "$name" "$($nm --undefined-only "$2" | awk '{print $NF}')"
  check_no_constructors "$2" "$name"
  check_instructions "$1" "$2" "$name"
  echo "audit: $name: $count instructions, one global symbol"
}

# A C program links the archive without the C++ library and its runtime.
check_no_cxx_library() { # FILE...
  local defined symbols
  defined=$($nm --defined-only "$@" | awk 'NF > 1 {print $NF}' | sort -u)
  symbols=$($nm --undefined-only "$@" | awk '$1 ~ /^[Uwv]$/ {print $2}' | sort -u | comm -23 - <(echo "$defined") |
            grep -E '^(_Z|__cxa_|__gxx_|_Unwind_|__libcpp_)' | c++filt || true)
  [[ -z $symbols ]] || complain "the archive needs the C++ library:"$'\n'"$symbols"
}

audit_archive() { # FILE
  local member archive member_level
  archive=$(realpath "$1")
  mkdir "$folder/members"
  (cd "$folder/members" && $ar x "$archive")
  check_no_cxx_library "$folder"/members/*
  for member in "$folder"/members/*; do
    set_machine "$member"
    case $(basename "$member") in
      rapt_*.cpp.o)
        member_level=$(basename "$member")
        member_level=${member_level%%.*}
        audit_part "${member_level#rapt_}" "$member"
        ;;
      rapt_*.o)
        member_level=$(basename "$member" .o)
        audit_object "${member_level#rapt_}" "$member"
        ;;
      *)
        check_no_constructors "$member" "$(basename "$member")"
        check_instructions baseline "$member" "$(basename "$member")"
        ;;
    esac
  done
}

# The address ranges that rapt_<level>.o, or rapt_<level>.<part>.cpp.o, takes in a linked program, as "first last" in
# decimal.
level_ranges() { # MAP
  # A long section name is on a separate line, so lines are joined before they are read.
  tr '\n' ' ' <"$1" | grep -oE ' \.text[^ ]* +0x[0-9a-f]+ +0x[0-9a-f]+ +[^ ]*rapt_[a-z0-9_.]+\.o\)?' |
    while read -r _ first size file; do
      [[ $file != *rapt_scalar.* ]] || continue
      echo "$((first)) $((first + size))"
    done
}

audit_program() { # FILE MAP
  local found first last end=0
  set_machine "$1"
  grep -qE "rapt_scalar\.(o|[a-z0-9_.]+\.o)" "$2" || complain "$2 names no level's object"
  # Only what lies between the levels' code is disassembled: they are nearly all of it.
  level_ranges "$2" | sort -n >"$folder/ranges"
  while read -r first last; do
    if ((first > end)); then instructions "$1" --start-address="$end" --stop-address="$first"; fi
    if ((last > end)); then end=$last; fi
  done <"$folder/ranges" >"$listing"
  instructions "$1" --start-address="$end" >>"$listing"
  found=$(cut -d' ' -f2- "$listing" | grep -E "$(forbidden_in baseline)" | grep -v '^xgetbv' | head -n 5 || true)
  [[ -z $found ]] || complain "$1: instructions beyond the baseline outside the levels' code:"$'\n'"$found"
  echo "audit: $(basename "$1"): $(wc -l <"$listing") instructions outside the levels' code"
}

machine="" total=0 count=0
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
listing=$folder/listing  # of one file at a time
levels=${LEVELS:-$(dirname "${@: -1}")/rapt_levels.txt}
case ${1-} in
  object) set_machine "$3"; audit_object "$2" "$3" ;;
  part) set_machine "$3"; audit_part "$2" "$3" ;;
  archive) audit_archive "$2" ;;
  program) audit_program "$2" "$3" ;;
  *) sed -n '2,17s/^# \{0,1\}//p' "$0"; exit 2 ;;
esac
[[ $1 == program || $total -gt 0 ]] || complain "no instructions"
if ((problems > 0)); then
  echo "audit: $problems problems" >&2
  exit 1
fi
