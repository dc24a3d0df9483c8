#!/usr/bin/env bash
# Programs of other projects that use rapt: installed, as a part of their build, and under flags that would change its
# results. It also checks the messages of a configuration that lacks something.
#
# run.sh [--full] SOURCE_DIR WORK_DIR CMAKE GENERATOR CC CXX [STATIC_BUILD]
# STATIC_BUILD is a finished build of librapt.a by the same compilers, which is installed as it is. --full: instead of
# all this, the hostile flags one by one, and in combinations. The builds in WORK_DIR are kept for a second run.
set -euo pipefail

full=false
if [[ $1 == --full ]]; then
  full=true
  shift
fi
source_dir=$1 work_dir=$2 cmake=$3 generator=$4 cc=$5 cxx=$6 static_build=${7:-}
consumer_dir=$source_dir/tests/consumer
mkdir -p "$work_dir"
compilers=("-DCMAKE_C_COMPILER=$cc" "-DCMAKE_CXX_COMPILER=$cxx")
processor=$(uname -m)
vector_level=avx2 best_level=avx512
if [[ $processor == aarch64 ]]; then vector_level=neon best_level=neon; fi

fail() {
  echo "FAILED: $*" >&2
  exit 1
}

# quietly LOG COMMAND...: the log is shown where the command fails.
quietly() {
  local log=$1
  shift
  "$@" >"$log" 2>&1 || { cat "$log"; return 1; }
}

# configure SOURCE BUILD [CMAKE_ARGUMENT...], once.
configure() {
  local source=$1 build=$2
  shift 2
  if [[ -f $build/configured ]]; then return 0; fi
  quietly "$build.log" "$cmake" -S "$source" -B "$build" -G "$generator" -DCMAKE_BUILD_TYPE=Release "${compilers[@]}" "$@"
  touch "$build/configured"
}

build_in() { # BUILD [ARGUMENT...]
  quietly "$1.log" "$cmake" --build "$@"
}

programs=0
run_program() {
  echo "-- $1"
  shift
  "$@" || fail "$*"
  programs=$((programs + 1))
}

# ---- under hostile flags ----

# build_hostile NAME LEVELS FLAGS OPTIONS TARGETS [CMAKE_ARGUMENT...]: a project with FLAGS for all that it compiles and
# links, and OPTIONS, a list, for rapt, which it adds with these levels.
build_hostile() {
  local name=$1 levels=$2 flags=$3 options=$4 targets
  read -ra targets <<<"$5"
  shift 5
  configure "$consumer_dir/add_subdirectory" "$work_dir/$name" "-DRAPT_SOURCE_DIR=$source_dir" -DRAPT_BUILD_VALIDATE=ON \
    "-DRAPT_LEVELS=$levels" -DCMAKE_BUILD_TYPE=None "-DCMAKE_C_FLAGS=$flags" "-DCMAKE_CXX_FLAGS=$flags" \
    "-DUSER_OPTIONS=$options" "$@"
  build_in "$work_dir/$name" --target "${targets[@]}"
}

# run_hostile NAME VALIDATE: checks the bits, the published hashes, and that no level has an instruction beyond its own.
run_hostile() {
  local build=$work_dir/$1
  run_program "$1: bits" "$build/bits_program"
  run_program "$1: published hashes" quietly "$build.validate.log" "$2" --quick
  tail -n 1 "$build.validate.log"
  run_program "$1: instructions" quietly "$build.audit.log" "$source_dir/tests/audit/audit.sh" archive "$build/rapt/librapt.a"
}

native=-march=native more_isa="-mno-fma;-mavx512f" any_isa="-mavx512f -mfma -mbmi2"
if [[ $processor == aarch64 ]]; then native=-mcpu=native more_isa=-march=armv8.2-a+sve any_isa=-march=armv8.2-a+sve; fi
finite="-fassociative-math;-freciprocal-math;-fno-signed-zeros;-fno-trapping-math;-ffinite-math-only;-fno-math-errno"

code_of() { objdump -d --no-show-raw-insn "$1" | tail -n +4; }

test_one_by_one() {
  # Under each single flag, a level's code must be the same, instruction by instruction.
  local flag name flags=(-ffast-math -Ofast -ffp-contract=fast -fassociative-math -freciprocal-math -fno-signed-zeros
    -ffinite-math-only -fno-math-errno -fno-trapping-math -funsafe-math-optimizations -frounding-math "$native" -flto "$any_isa")
  if [[ $processor == x86_64 ]]; then flags+=(-mrecip -mfpmath=387 -mtune=native -mavx512f -mavx -mfma4 -msse4.2); fi
  if "$cxx" --version | grep -q clang; then
    flags+=(-ffp-model=fast -fdenormal-fp-math=preserve-sign -fapprox-func -fno-honor-nans)
  else
    flags+=(-fsingle-precision-constant -fcx-fortran-rules)
  fi
  for flag in "" "${flags[@]}"; do
    name=flag${flag//[^a-z0-9]/_}
    configure "$source_dir" "$work_dir/$name" -DRAPT_BUILD_VALIDATE=OFF -DRAPT_LEVELS=scalar "-DCMAKE_CXX_FLAGS=$flag" \
      "-DCMAKE_C_FLAGS=$flag"
    build_in "$work_dir/$name" --target rapt
    code_of "$work_dir/$name/rapt_scalar.o" >"$work_dir/$name.code"
    cmp "$work_dir/flag.code" "$work_dir/$name.code" || fail "$flag changes the code of the level scalar"
    quietly "$work_dir/$name.log" "$source_dir/tests/audit/audit.sh" archive "$work_dir/$name/librapt.a"
    echo "-- ${flag:-no flag}: the same code"
    programs=$((programs + 1))
  done
}

if $full; then
  test_one_by_one
  own=rapt/tests/validate/rapt-validate
  build_hostile fast $best_level "-Ofast $native -ffp-contract=fast" "$more_isa" "bits_program rapt-validate"
  run_hostile fast "$work_dir/fast/$own"
  build_hostile finite $vector_level "-O3 -frounding-math" "$finite" "bits_program rapt-validate" \
    -DCMAKE_INTERPROCEDURAL_OPTIMIZATION=ON -DCMAKE_UNITY_BUILD=ON
  run_hostile finite "$work_dir/finite/$own"
  echo "$programs programs ran"
  exit 0
fi

# A repeated option: CMake drops repetitions, but must not drop rapt's own -ffp-contract=off. The vector level has one
# operation, because all its files get their flags from the same line; --full compiles all. A finished build judges it.
hostile_options="-ffp-contract=off;-ffp-contract=fast;$more_isa"
judge=$static_build/tests
if [[ -f $judge/validate/librapt_validation.a ]]; then
  build_hostile hostile $vector_level "-O1 -ffast-math $native" "$hostile_options" bits_program "-DRAPT_ONLY=softmax;f32"
  "$cxx" "$judge/validate/CMakeFiles/rapt-validate.dir/main.cpp.o" "$judge/validate/librapt_validation.a" \
    "$judge/validate/librapt_seeded_models.a" "$judge/examples/decoder/librapt_decoder.a" \
    "$judge/support/librapt_test_support.a" "$judge/support/librapt_guarded_memory.a" "$work_dir/hostile/rapt/librapt.a" \
    -pthread -lm -o "$work_dir/hostile-validate"
  run_hostile hostile "$work_dir/hostile-validate"
else
  build_hostile hostile $vector_level "-O1 -ffast-math $native" "$hostile_options" "bits_program rapt-validate"
  run_hostile hostile "$work_dir/hostile/rapt/tests/validate/rapt-validate"
fi

# ---- installed ----

version=$(sed -n 's/^#define RAPT_VERSION_M[A-Z]* //p' "$source_dir/include/rapt/rapt.h" | paste -sd .)

# test_installed KIND PREFIX: find_package, and the README's lines for CMake and a compiler.
test_installed() {
  local kind=$1 prefix=$2
  awk -v block=1 -v language=cmake -f "$source_dir/tests/examples/extract.awk" "$source_dir/README.md" >"$work_dir/readme.cmake"
  configure "$consumer_dir/find_package" "$work_dir/$kind-find_package" "-DCMAKE_PREFIX_PATH=$prefix" "-DRAPT_VERSION=$version" \
    "-DRAPT_README_LINES=$work_dir/readme.cmake"
  build_in "$work_dir/$kind-find_package"
  run_program "$kind, find_package, C" "$work_dir/$kind-find_package/c_program"
  run_program "$kind, find_package, C++" "$work_dir/$kind-find_package/cpp_program"
  run_program "$kind, README's lines for CMake" "$work_dir/$kind-find_package/app"
  run_program "$kind, find_package, bits" "$work_dir/$kind-find_package/bits_program" subnormals
  [[ -f $prefix/share/doc/rapt/LICENSE ]] || fail "$kind: no LICENSE is installed"

  test_pkg_config "$kind" "$prefix/lib"
}

# test_pkg_config KIND LIBDIR: the README's command line, which links an archive as well as a shared library, with and
# without
# --static.
test_pkg_config() {
  local kind=$1 libdir=$2 folder=$work_dir/$1-pkg_config line libs levels listed
  if ! command -v pkg-config >/dev/null; then
    echo "skipped: $kind, pkg-config: there is no pkg-config"
    return 0
  fi
  export PKG_CONFIG_PATH=$libdir/pkgconfig
  line=$(grep -m 1 "^cc app.c " "$source_dir/README.md") || fail "README.md has no command line for a compiler"
  rm -rf "$folder"
  mkdir -p "$folder"
  cp "$consumer_dir/program/main.c" "$folder/app.c"
  for libs in --libs "--libs --static"; do
    (
      cd "$folder"
      cc() { "$cc" "$@"; }
      line=${line% && ./app}
      eval "${line/--libs/$libs}"
    )
    run_program "$kind, pkg-config $libs" env "LD_LIBRARY_PATH=$libdir" "$folder/app"
  done
  listed=$(pkg-config --variable=levels rapt)
  levels=$(sed 's/ .*//; /^#/d' "$([[ $kind == static ]] && echo "$static_build" || echo "$work_dir/shared")/rapt_levels.txt" | paste -sd ' ')
  [[ $listed == "$levels" ]] || fail "$kind, pkg-config: the levels are '$listed', not '$levels'"
  if [[ $kind =~ ^(shared|absolute)$ && $(pkg-config --libs rapt) == *-lm* ]]; then fail "pkg-config: a user of librapt.so does not need libm"; fi
}

# Installs in one place and moves the tree to another: nothing in an installed tree may name the first place. The tree
# is replaced only if it has changed, so that its users need not be built again.
install_moved() { # BUILD KIND
  local staging=$work_dir/$2-staging prefix=$work_dir/$2-prefix
  rm -rf "$staging"
  quietly "$work_dir/$2-install.log" "$cmake" --install "$1" --prefix "$staging"
  if ! diff -qr "$staging" "$prefix" >/dev/null 2>&1; then
    rm -rf "$prefix" "$work_dir/$2-find_package"
    mv "$staging" "$prefix"
  fi
}

if [[ -z $static_build ]]; then
  static_build=$work_dir/static
  configure "$source_dir" "$static_build" -DCMAKE_INSTALL_LIBDIR=lib -DRAPT_BUILD_VALIDATE=OFF -DRAPT_LEVELS=$vector_level
  build_in "$static_build"
fi
install_moved "$static_build" static
test_installed static "$work_dir/static-prefix"

prefix=$work_dir/static-prefix
"$cc" -std=c99 -Wall -Wextra -Wpedantic -Werror "$consumer_dir/program/main.c" -I"$prefix/include" \
  "$prefix/lib/librapt.a" -lm -o "$work_dir/plain_c"
run_program "librapt.a and libm alone, C99" "$work_dir/plain_c"
if needed=$(readelf -d "$work_dir/plain_c" 2>/dev/null) && grep -E 'NEEDED.*(stdc\+\+|pthread|gcc_s)' <<<"$needed"; then
  fail "librapt.a made a C program need more than libc and libm"
fi

if command -v ld.lld >/dev/null; then
  "$cc" "$consumer_dir/program/main.c" -I"$prefix/include" "$prefix/lib/librapt.a" -lm -fuse-ld=lld -o "$work_dir/plain_c_lld"
  run_program "librapt.a linked by lld" "$work_dir/plain_c_lld"
else
  echo "skipped: lld: there is no ld.lld"
fi

# Only rapt is built, so that there is no rapt-validate to install. With -ffast-math on its link line a shared library
# would flush subnormals to zero in every process that loads it. Here the compiler keeps the levels apart, as it does
# where GNU ld is missing.
configure "$source_dir" "$work_dir/shared" -DBUILD_SHARED_LIBS=ON -DCMAKE_INSTALL_LIBDIR=lib -DRAPT_LEVELS=scalar \
  -DRAPT_CLOSE=compiler \
  "-DCMAKE_C_FLAGS=-Ofast -ffast-math" "-DCMAKE_CXX_FLAGS=-Ofast -ffast-math"
build_in "$work_dir/shared" --target rapt
install_moved "$work_dir/shared" shared
test_installed shared "$work_dir/shared-prefix"

# Both in one prefix: a component chooses, or BUILD_SHARED_LIBS of the project that asks.
# finds TEXT PREFIX [CMAKE_ARGUMENT...]
finds() {
  local text=$1 prefix=$2 build=$work_dir/components
  shift 2
  rm -rf "$build"
  quietly "$build.log" "$cmake" -S "$consumer_dir/components" -B "$build" -G "$generator" "${compilers[@]}" "-DCMAKE_PREFIX_PATH=$prefix" "$@"
  grep -qF -- "-- $text" < <(tr -s ' \n' ' ' <"$build.log") || { cat "$build.log"; fail "find_package with $* did not say: $text"; }
  echo "-- find_package $*: $text"
}
rm -rf "$work_dir/both-prefix"
for build in "$static_build" "$work_dir/shared"; do
  quietly "$work_dir/both-install.log" "$cmake" --install "$build" --prefix "$work_dir/both-prefix"
done
finds "found: STATIC_LIBRARY" "$work_dir/both-prefix"
finds "found: SHARED_LIBRARY" "$work_dir/both-prefix" -DBUILD_SHARED_LIBS=ON
finds "found: STATIC_LIBRARY" "$work_dir/both-prefix" -DRAPT_COMPONENTS=static -DBUILD_SHARED_LIBS=ON
finds "found: SHARED_LIBRARY" "$work_dir/both-prefix" -DRAPT_COMPONENTS=shared
finds "not found: rapt::rapt is one library: ask for the component static or for shared" "$work_dir/both-prefix" \
  "-DRAPT_COMPONENTS=static;shared"
finds "not found: rapt has no component python: static and shared are the components" "$work_dir/both-prefix" -DRAPT_COMPONENTS=python
finds "found: STATIC_LIBRARY" "$work_dir/static-prefix" -DBUILD_SHARED_LIBS=ON
finds "found: SHARED_LIBRARY" "$work_dir/shared-prefix"
finds "not found: $work_dir/static-prefix/lib/cmake/rapt belongs to no shared library of rapt" "$work_dir/static-prefix" -DRAPT_COMPONENTS=shared

# The same build with absolute folders, which distributions choose. It then goes back to what install_moved expects.
# CMake refuses headers below the sources, where tests/run has its builds.
temporary=$(mktemp -d)
trap 'rm -rf "$temporary"' EXIT
absolute=$temporary/absolute-folders
install_to() { # LIBDIR INCLUDEDIR PREFIX
  quietly "$work_dir/shared.log" "$cmake" "$work_dir/shared" "-DCMAKE_INSTALL_LIBDIR=$1" "-DCMAKE_INSTALL_INCLUDEDIR=$2" \
    "-DCMAKE_INSTALL_PREFIX=$3"
  build_in "$work_dir/shared" --target rapt
}
rm -rf "$absolute"
for folders in "$absolute/lib64 $absolute/headers" "$absolute/lib32 include" "lib $absolute/headers"; do
  read -r lib include <<<"$folders"
  install_to "$lib" "$include" "$absolute/prefix"
  quietly "$work_dir/shared-install.log" "$cmake" --install "$work_dir/shared"
  if [[ $lib != /* ]]; then lib=$absolute/prefix/$lib; fi
  test_pkg_config absolute "$lib"
  if command -v pkg-config >/dev/null; then
    [[ $(pkg-config --variable=libdir rapt) -ef $lib ]] || fail "rapt.pc has libdir $(pkg-config --variable=libdir rapt), not $lib"
  fi
  rm -rf "$absolute"
done
install_to lib include "$work_dir/nowhere"

# ---- a part of another project, which exports a library too ----

build=$work_dir/add_subdirectory
configure "$consumer_dir/add_subdirectory" "$build" "-DRAPT_SOURCE_DIR=$source_dir" -DCMAKE_INSTALL_LIBDIR=lib -DRAPT_LEVELS=scalar \
  -DCMAKE_UNITY_BUILD=ON
build_in "$build"
run_program "add_subdirectory, C" "$build/c_program"
# The project's own names, CMake's and rapt's, and no option for all libraries of the project.
foreign=$(sed -nE 's/^([A-Za-z][A-Za-z0-9_]*):.*/\1/p' "$build/CMakeCache.txt" | grep -vE '^(CMAKE|RAPT|rapt|user)_' || true)
[[ -z $foreign ]] || fail "a project that adds rapt finds in its cache: $foreign"
run_program "add_subdirectory, C++" "$build/cpp_program"

configure "$consumer_dir/find_user" "$work_dir/user-of-build" "-DCMAKE_PREFIX_PATH=$build;$build/rapt"
build_in "$work_dir/user-of-build"
run_program "a project's library, in its build" "$work_dir/user-of-build/program"

rm -rf "$work_dir/user-prefix"
quietly "$build.log" "$cmake" --install "$build" --prefix "$work_dir/user-prefix"
[[ ! -e $work_dir/user-prefix/include/rapt ]] || fail "a project installed rapt, which nothing asked for"
quietly "$build.log" "$cmake" --install "$build" --prefix "$work_dir/user-prefix" --component rapt
configure "$consumer_dir/find_user" "$work_dir/user-of-prefix" "-DCMAKE_PREFIX_PATH=$work_dir/user-prefix"
build_in "$work_dir/user-of-prefix"
run_program "a project's library, installed" "$work_dir/user-of-prefix/program"

# ---- two configurations in one tree; a compiler that is a command with an argument, as CXX="ccache g++"; checks of the C++
# library turned on, as in packages of Fedora and Arch, which a C program cannot link ----

checks="-D_GLIBCXX_DEBUG -Wp,-D_GLIBCXX_ASSERTIONS -D_LIBCPP_HARDENING_MODE=_LIBCPP_HARDENING_MODE_DEBUG"
if command -v ninja >/dev/null; then
  build=$work_dir/configurations
  if [[ ! -f $build/configured ]]; then
    CXX="env $cxx" quietly "$build.log" "$cmake" -S "$source_dir" -B "$build" -G "Ninja Multi-Config" \
      "-DCMAKE_C_COMPILER=$cc" "-DCMAKE_CXX_FLAGS=$checks" -DCMAKE_DEBUG_POSTFIX=-debug -DCMAKE_INSTALL_LIBDIR=lib \
      -DRAPT_LEVELS=scalar -DRAPT_BUILD_VALIDATE=OFF
    touch "$build/configured"
  fi
  rm -rf "$work_dir/multi-prefix"
  for config in Debug Release; do
    build_in "$build" --config $config
    quietly "$build.log" "$cmake" --install "$build" --config $config --prefix "$work_dir/multi-prefix"
    test_pkg_config "multi-$config" "$work_dir/multi-prefix/lib"  # which names the configuration that was installed last
  done
  for config in Debug Release; do
    configure "$consumer_dir/find_package" "$work_dir/multi-$config" "-DCMAKE_PREFIX_PATH=$work_dir/multi-prefix" \
      -DCMAKE_BUILD_TYPE=$config
    build_in "$work_dir/multi-$config"
    run_program "Ninja Multi-Config, $config" "$work_dir/multi-$config/c_program"
    archive=$work_dir/multi-prefix/lib/librapt.a
    if [[ $config == Debug ]]; then archive=${archive%.a}-debug.a; fi
    "$cc" "$consumer_dir/program/main.c" -I"$source_dir/include" "$archive" -lm -o "$work_dir/checks-$config" ||
      fail "a C program does not link librapt.a built with $checks, $config"
    run_program "checks of the C++ library, $config, C program" "$work_dir/checks-$config"
  done
else
  echo "skipped: Ninja Multi-Config: there is no ninja"
fi

# ---- messages of the configuration ----

# says TEXT [CMAKE_ARGUMENT...]: configuring rapt must print TEXT. Each call has a separate build folder.
says() {
  local text=$1 build=$work_dir/says
  shift
  rm -rf "$build"
  "$cmake" -S "$source_dir" -B "$build" -G "$generator" -DRAPT_BUILD_VALIDATE=OFF "${compilers[@]}" "$@" >"$build.log" 2>&1 || true
  grep -qF -- "$text" < <(tr -s ' \n' ' ' <"$build.log") || { cat "$build.log"; fail "configuring with $* did not say: $text"; }
  echo "-- configuring says: $text"
}

# levels_for PROCESSOR-REGEX: the names in the rows of cmake/isa.cmake.
levels_for() { sed -nE "s/^  \"([a-z0-9_]+)\|($1)\|.*/\1/p" "$source_dir/cmake/isa.cmake" | paste -sd ' '; }

if [[ $processor == x86_64 ]]; then
  vector_levels=$(levels_for x86)
  says "rapt: levels: scalar $vector_levels"
  says "CPU-minutes of gcc 12 on a Zen 5; 2 CPU-minutes with RAPT_LEVELS=avx2"
  says "rapt: levels: scalar avx2; left out by RAPT_LEVELS: ${vector_levels#avx2 }" -DRAPT_LEVELS=avx2
  says "rapt: levels: scalar avx512 avx512_vnni; left out by" -DRAPT_LEVELS=avx512_vnni
  says "rapt: levels: scalar avx2; left out by RAPT_LEVELS: ${vector_levels#avx2 }" -DRAPT_LEVELS=native -DRAPT_NATIVE_FLAGS=-march=haswell
  says "rapt: levels: scalar avx2 avx512; left out by" -DRAPT_LEVELS=native -DRAPT_NATIVE_FLAGS=-march=skylake-avx512
  says "RAPT_LEVELS names 'neon', a level of another processor. This processor's levels are: scalar $vector_levels" "-DRAPT_LEVELS=avx2;neon"
  says "rapt needs a processor with 64-bit addresses" -DCMAKE_C_FLAGS=-m32 -DCMAKE_CXX_FLAGS=-m32 \
    -DCMAKE_TRY_COMPILE_TARGET_TYPE=STATIC_LIBRARY
fi
says "rapt: levels: scalar; left out by RAPT_LEVELS: $vector_level" -DRAPT_LEVELS=scalar
says "files to compile: 14 CPU-seconds of gcc 12 on a Zen 5" -DRAPT_LEVELS=scalar
says "RAPT_LEVELS names 'avx3'. rapt's levels are: $(levels_for '[a-z0-9]+')" "-DRAPT_LEVELS=avx2;avx3"
says "RAPT_LEVELS chooses the levels that are compiled" -DRAPT_ISAS=scalar
says "install libxsimd-dev (Debian, Ubuntu)" -DCMAKE_IGNORE_PATH=/usr/include
says "the compiler keeps the levels apart: the linker's way needs objcopy (Debian, Ubuntu: binutils" -DCMAKE_OBJCOPY=
says "RAPT_CLOSE=linker needs objcopy" -DCMAKE_OBJCOPY= -DRAPT_CLOSE=linker
says "RAPT_CLOSE is 'nothing', but must be linker, compiler or empty" -DRAPT_CLOSE=nothing
says "rapt needs nm (Debian, Ubuntu: binutils or llvm)" -DCMAKE_NM= -DRAPT_CLOSE=compiler
says "the compile flag -D__FAST_MATH__ would change" "-DCMAKE_CXX_FLAGS=-O2 -D__FAST_MATH__"
cat >"$work_dir/without_bfd" <<WRAPPER
#!/bin/sh
case "\$*" in *-fuse-ld=bfd*) echo "cannot find 'ld'" >&2; exit 1 ;; esac
exec $cxx "\$@"
WRAPPER
chmod +x "$work_dir/without_bfd"
says "the compiler keeps the levels apart: the linker's way needs GNU ld, as ld.bfd (Debian, Ubuntu: binutils" "-DCMAKE_CXX_COMPILER=$work_dir/without_bfd"

# A path may have brackets, which are patterns to CMake.
rm -f "$work_dir/a [b]"
ln -s "$source_dir" "$work_dir/a [b]"
(source_dir="$work_dir/a [b]" && says "Build files have been written to" -DRAPT_LEVELS=scalar)

# A surrounding project names the levels by a variable.
mkdir -p "$work_dir/fetched"
cat >"$work_dir/fetched/CMakeLists.txt" <<PROJECT
cmake_minimum_required(VERSION 3.14)
project(fetched C CXX)
include(FetchContent)
set(RAPT_LEVELS scalar)
FetchContent_Declare(rapt SOURCE_DIR "$source_dir")
FetchContent_MakeAvailable(rapt)
PROJECT
(source_dir=$work_dir/fetched && says "rapt: levels: scalar; left out by RAPT_LEVELS: $vector_level")

# The compiler tells the processor, because a toolchain file need not name it.
if command -v aarch64-linux-gnu-g++ >/dev/null; then
  says "rapt: levels: scalar $(levels_for arm64)" -DCMAKE_SYSTEM_NAME=Linux -DCMAKE_C_COMPILER=aarch64-linux-gnu-gcc \
    -DCMAKE_CXX_COMPILER=aarch64-linux-gnu-g++
  says "rapt needs little-endian AArch64" -DCMAKE_SYSTEM_NAME=Linux -DCMAKE_C_COMPILER=aarch64-linux-gnu-gcc \
    -DCMAKE_CXX_COMPILER=aarch64-linux-gnu-g++ -DCMAKE_C_FLAGS=-mbig-endian -DCMAKE_CXX_FLAGS=-mbig-endian \
    -DCMAKE_TRY_COMPILE_TARGET_TYPE=STATIC_LIBRARY
else
  echo "skipped: cross compiling: there is no aarch64-linux-gnu-g++"
fi

# Sources must stop what CMake does not see.
for flag in -D__AARCH64EB__ -m32; do
  if [[ $flag == -m32 && $processor != x86_64 ]]; then continue; fi
  if "$cxx" -std=c++20 -fsyntax-only "$flag" -x c++ - <<<"#include \"$source_dir/src/contract/processor.hpp\"" 2>/dev/null; then
    fail "the sources compile with $flag"
  fi
done
configure "$consumer_dir/add_subdirectory" "$work_dir/guard" "-DRAPT_SOURCE_DIR=$source_dir" -DRAPT_LEVELS=scalar \
  "-DUSER_OPTIONS=\$<1:-D__FAST_MATH__>"
if "$cmake" --build "$work_dir/guard" --target rapt -- -k 0 >"$work_dir/guard.log" 2>&1; then fail "the sources compile under -ffast-math"; fi
for file in src/api/softmax.cpp src/dispatch/dispatch.cpp src/isa/scalar/kernels.cpp; do
  [[ ! -f $work_dir/guard/rapt/CMakeFiles/rapt_baseline.dir/$file.o && ! -f $work_dir/guard/rapt/CMakeFiles/rapt_isa_scalar.dir/$file.o ]] ||
    fail "$file compiles under -ffast-math"
done
echo "-- the sources do not compile under -ffast-math"

echo "$programs programs ran"
