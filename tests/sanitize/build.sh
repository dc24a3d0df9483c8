# shellcheck shell=bash
# Sourced: builds of the library and its tests with sanitizers. Needs $root.

# -O1 and line numbers, of the levels' own files too (cmake/isa.cmake).
sanitizer_base="-O1 -g1 -fno-omit-frame-pointer -fno-sanitize-recover=all"

# sanitizer_build NAME DIR TARGET...: NAME is address, memory or thread. The library is built with the sanitizer too.
sanitizer_build() {
  local name=$1 dir=$2 flags cc=clang cxx=clang++ engine=
  shift 2
  case $name in
    # One build for the tests and for libFuzzer's harnesses.
    address) flags="-fsanitize=fuzzer-no-link,address,undefined" engine=-fsanitize=fuzzer ;;
    memory) flags="-fsanitize=memory" ;;
    thread) flags="-fsanitize=thread" cc=gcc cxx=g++ ;;
  esac
  if [[ ! -f $dir/build.ninja ]]; then
    cmake -S "$root" -B "$dir" -G Ninja -DCMAKE_BUILD_TYPE=Sanitizer -DCMAKE_C_COMPILER=$cc -DCMAKE_CXX_COMPILER=$cxx \
      "-DCMAKE_CXX_FLAGS=$sanitizer_base $flags" "-DRAPT_FUZZ_ENGINE=$engine" -DRAPT_BUILD_TESTS=ON -DRAPT_INSTALL=OFF \
      -DRAPT_WERROR=ON || return 1
  fi
  cmake --build "$dir" --target "$@"
}

# sanitizer_runs FLAGS COMPILER: a program built with it starts here.
sanitizer_runs() {
  local program status=0
  program=$(mktemp)
  echo 'int main() {}' | "$2" -x c++ "-fsanitize=$1" - -o "$program" 2>/dev/null && "${fixed_addresses[@]}" "$program" || status=1
  rm -f "$program"
  return $status
}

# Memory and thread sanitizers of these versions give up where the kernel spreads addresses more than they expect.
fixed_addresses=()
if setarch -R true 2>/dev/null; then fixed_addresses=(setarch -R); fi

# Packages of clang's sanitizers; false if they cannot be had.
need_clang_sanitizers() {
  need_packages cmake ninja-build binutils doctest-dev libmpfr-dev libxsimd-dev clang || return 1
  need_packages "libclang-rt-$(clang -dumpversion | cut -d . -f 1)-dev"
}
