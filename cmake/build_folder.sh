# shellcheck shell=bash
# tests/run, bench/run and tests/try source this file after packages.sh, so that they share build/native: the library is
# compiled once for all of them.
#
#   configure_build PRESET [-DNAME=VALUE...]   configures build/PRESET where something has changed. Options stay until
#                                              another value replaces them. ccache is used where it is installed
#   counted WHAT LOG COMMAND...                runs a command without input, adds its output to the log, and shows its progress
#   progress WHAT                              a filter that changes nothing. Of Ninja's "[n/m]", Make's "[n%]" and ctest's
#                                              "n/m Test" it says on stderr how far the command is: in one line on a
#                                              terminal, else after 20 seconds and then ever more seldom
#   minutes_row COMMAND LEVELS SECONDS CPU     prints the row of tests/minutes.csv that this run is
#   cpu_seconds [SHELL]                        CPU time of all its processes that have ended so far

checkout=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

# A build is configured from nothing if packages were installed since, because CMake does not look for them again, and
# if a preset has changed, because CMake forgets other options when a compiler changes. cmake --fresh would throw the
# objects away.
configure_build() {
  local folder=$checkout/build/$1 preset=$1 option launcher wanted options_in_order
  local -A options=()
  shift
  mkdir -p "$folder"
  while IFS= read -r option; do
    if [[ -n $option ]]; then options[${option%%=*}]=$option; fi
  done < <(cat "$folder/options" 2>/dev/null || true; printf '%s\n' "$@")
  # The compiler's launcher is a part of each command: it stays too.
  launcher=${options[-DCMAKE_CXX_COMPILER_LAUNCHER]-}
  launcher=${launcher#*=}
  if [[ ! -f $folder/options ]]; then launcher=${CMAKE_CXX_COMPILER_LAUNCHER-ccache}; fi
  if ! type -P "$launcher" >/dev/null; then launcher=; fi
  for option in C CXX; do
    options[-DCMAKE_${option}_COMPILER_LAUNCHER]=-DCMAKE_${option}_COMPILER_LAUNCHER=$launcher
  done
  mapfile -t options_in_order < <(printf '%s\n' "${options[@]}" | sort)
  wanted=$({ echo "${CMAKE_GENERATOR-}"; cat "$checkout/CMakePresets.json"; dpkg-query -W 2>/dev/null || true; } | cksum)
  if [[ ! -f $folder/CMakeCache.txt || $(cat "$folder/configured-with" 2>/dev/null) != "$wanted" ]]; then
    rm -rf "$folder"/CMakeCache.txt "$folder"/CMakeFiles/[0-9]*
    cmake --preset "$preset" -S "$checkout" "${options_in_order[@]}" || return 1
  elif [[ $(printf '%s\n' "${options_in_order[@]}") != "$(cat "$folder/options")" ]]; then
    cmake -S "$checkout" -B "$folder" "${options_in_order[@]}" || return 1
  fi
  printf '%s\n' "${options_in_order[@]}" >"$folder/options"
  echo "$wanted" >"$folder/configured-with"
}

counted() {
  local what=$1 log=$2
  shift 2
  "$@" 2>&1 </dev/null | progress "$what" >>"$log"
}

progress() {
  local line wide=0 begin=$SECONDS next=20 percent='^\[ *([0-9]+)%\] ' count='^(\[| *)([0-9]+)/([0-9]+)(\]| Test ) *'
  while IFS= read -r line; do
    if [[ $line =~ $count ]]; then
      show_progress "$1: ${BASH_REMATCH[2]} of ${BASH_REMATCH[3]}"
    elif [[ $line =~ $percent ]]; then
      show_progress "$1: ${BASH_REMATCH[1]} %"
    else
      hide_progress
    fi
    echo "$line"
  done
  hide_progress
}
show_progress() {
  if [[ -t 2 ]]; then
    printf '\r%-*s' "$wide" "$1" >&2
    wide=${#1}
  elif ((SECONDS - begin >= next)); then
    echo "$1 after $((SECONDS - begin)) s" >&2
    next=$((next + next / 3 + 10))
  fi
}
hide_progress() {
  if ((wide)); then printf '\r%*s\r' "$wide" "" >&2; fi
  wide=0
}

cpu_seconds() { awk -v tick="$(getconf CLK_TCK)" '{ print int(($16 + $17) / tick) }' "/proc/${1-$$}/stat"; }

minutes_row() {
  local cpu commit
  cpu=$(sed -nE 's/^model name[[:space:]]*: *//p' /proc/cpuinfo 2>/dev/null | head -n 1)
  cpu="${cpu:-$(uname -m)}$(sed -nE 's/^(cpu )?(family|model)[[:space:]]*: */ \2 /p' /proc/cpuinfo | head -n 2 | tr -d '\n')"
  commit=$(git -C "$checkout" rev-parse --short=8 HEAD 2>/dev/null || echo unknown)
  awk -v text="$1|$cpu|$(nproc)|$2" -v commit="$commit" -v wall="$3" -v cpu_time="$4" 'BEGIN {
    gsub(/,/, "", text)
    gsub(/\|/, ",", text)
    printf "A row for tests/minutes.csv, without the installation of packages:\n"
    printf "%s,%.1f,%.1f,%s\n", text, wall / 60, cpu_time / 60, commit
  }'
}
