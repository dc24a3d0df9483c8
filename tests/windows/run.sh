#!/usr/bin/env bash
# run.sh BUILD_DIR [CMAKE_ARGUMENT...]: rapt on x86-64 Windows, built by mingw-w64 and run by Wine. The published hashes
# hold on every level of this CPU, and so do the tests with the label `windows`. Other projects' programs use the
# installed static library and the installed DLL.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
source_dir=$(cd "$here/../.." && pwd)
source "$source_dir/cmake/packages.sh"
if [[ $(uname -m) != x86_64 ]]; then echo "skipped: Windows: this host is $(uname -m), not x86_64"; exit 0; fi
if ! need_packages g++-mingw-w64-x86-64-posix wine64; then
  echo "skipped: Windows: mingw-w64 or Wine could not be installed"
  exit 0
fi
prefer_ninja
work=$(mkdir -p "$1" && cd "$1" && pwd)
shift
export WINEPREFIX=$work/wine
if [[ ! -d $WINEPREFIX ]]; then "$here/wine.sh" wineboot -i; fi
jobs=$(nproc)

# build NAME TARGET [CMAKE_ARGUMENT...]: with the preset, and installs it.
build() {
  local name=$1 target=$2
  shift 2
  cmake --preset tests-windows -S "$source_dir" -B "$work/$name" "$@"
  cmake --build "$work/$name" --parallel "$jobs" --target "$target" rapt
  cmake --install "$work/$name" --prefix "$work/$name-prefix" --component rapt
}

programs=0
run_program() { # PROGRAM [ARGUMENT...]
  "$here/wine.sh" "$@"
  programs=$((programs + 1))
}

# use NAME: builds programs that use what is installed. They are next to the DLL.
use() {
  local name=$1 folder=$work/$1-consumer version
  version=$(sed -n 's/^CMAKE_PROJECT_VERSION:STATIC=//p' "$work/$name/CMakeCache.txt")
  cmake -S "$source_dir/tests/consumer/find_package" -B "$folder" -DCMAKE_BUILD_TYPE=Release \
    -DCMAKE_SYSTEM_NAME=Windows -DCMAKE_C_COMPILER=x86_64-w64-mingw32-gcc-posix \
    -DCMAKE_CXX_COMPILER=x86_64-w64-mingw32-g++-posix -DCMAKE_EXE_LINKER_FLAGS=-static \
    "-DCMAKE_RUNTIME_OUTPUT_DIRECTORY=$work/$name-prefix/bin" "-DCMAKE_PREFIX_PATH=$work/$name-prefix" "-DRAPT_VERSION=$version"
  cmake --build "$folder"
  run_program "$work/$name-prefix/bin/c_program.exe"
  run_program "$work/$name-prefix/bin/cpp_program.exe"
  run_program "$work/$name-prefix/bin/bits_program.exe" subnormals
}

build static rapt_windows_tests "$@"
levels=$("$source_dir/tests/levels" "$work/static" -march=native)
if [[ $levels != scalar ]]; then "$source_dir/tests/audit/windows.py" x86_64-w64-mingw32-objdump "$work/static/librapt.a"; fi
ctest --test-dir "$work/static" -L '^windows$' --output-on-failure --no-tests=error -j "$jobs" --output-junit "$work/static/tests.xml"
use static
# One vector level is enough to show what a DLL changes.
build dll rapt-validate -DBUILD_SHARED_LIBS=ON -DRAPT_LEVELS=avx2 "$@"
use dll
run_program "$work/dll-prefix/bin/rapt-validate.exe" --quick

tests=$(sed -n 's/.*[[:space:]]tests="\([0-9]*\)".*/\1/p' "$work/static/tests.xml" | head -n 1)
echo "Windows: $tests tests and $programs programs of librapt.a and librapt.dll, on $levels"
