# shellcheck shell=bash
# Sourced by `table`, `likelihood` and bench/ggml/run, which need a host, and a program that is linked to it.
#
#   host_folder [FOLDER]                prints FOLDER, or that of llama.cpp 0.4.0, which is fetched if it is not there
#   build_program NAME HOST [FILE...]   compiles NAME.cpp, and files that it needs, against this host, and prints the program

tests_ggml=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$tests_ggml/../.." && pwd)

host_folder() {
  if [[ -n ${1-} ]]; then
    (cd "$1" && pwd)
  else
    "$tests_ggml/fetch" "$root/build/ggml-hosts" >&2 || exit
    echo "$root/build/ggml-hosts/0.4.0"
  fi
}

build_program() {
  local name=$1 host=$2 program libraries
  program=$root/build/ggml-programs/${name##*/}-$(basename "$host")
  libraries=("$host"/lib/libllama.*so "$host"/lib/libggml.*so "$host/lib/libggml-base.so")
  local sources=("$tests_ggml/$name.cpp" "$tests_ggml/llama_calls.cpp" "${@:3}") file
  mkdir -p "$(dirname "$program")"
  for file in "${sources[@]}" "$tests_ggml"/*.hpp; do
    if [[ $file -nt $program ]]; then
      "${CXX:-g++}" -std=c++20 -O1 -isystem "$host/include" -isystem "$host/ggml/include" -I "$tests_ggml" "${sources[@]}" -o "$program" \
        "${libraries[@]}" "-Wl,-rpath,$host/lib" -lfmt -ldl -pthread >&2
      break
    fi
  done
  echo "$program"
}
