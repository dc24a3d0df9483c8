#!/usr/bin/env bash
# Installs rapt, static and shared, and builds and runs the programs of other projects that use it:
# find_package, pkg-config, the plain C compiler with librapt.a and libm alone, and add_subdirectory.
#
# run.sh SOURCE_DIR WORK_DIR CMAKE GENERATOR CC CXX [STATIC_BUILD]
# The builds in WORK_DIR are kept, so that a second run compiles only what has changed. STATIC_BUILD is a finished
# build of librapt.a by the same compilers: it is installed as it is.
set -euo pipefail

source_dir=$1 work_dir=$2 cmake=$3 generator=$4 cc=$5 cxx=$6 static_build=${7:-}
consumer_dir=$source_dir/tests/consumer
mkdir -p "$work_dir"
compilers=("-DCMAKE_C_COMPILER=$cc" "-DCMAKE_CXX_COMPILER=$cxx")

# configure_and_build SOURCE BUILD [CMAKE_ARGUMENT...]
configure_and_build() {
  local source=$1 build=$2
  shift 2
  if [[ ! -f $build/configured ]]; then
    "$cmake" -S "$source" -B "$build" -G "$generator" -DCMAKE_BUILD_TYPE=Release "${compilers[@]}" "$@" >"$build.log" 2>&1 ||
      { cat "$build.log"; return 1; }
    touch "$build/configured"
  fi
  "$cmake" --build "$build" >"$build.log" 2>&1 || { cat "$build.log"; return 1; }
}

programs=0
run_program() {
  echo "-- $1"
  shift
  "$@"
  programs=$((programs + 1))
}

for kind in static shared; do
  shared=OFF
  if [[ $kind == shared ]]; then shared=ON; fi
  build=$work_dir/$kind
  if [[ $kind == static && -n $static_build ]]; then
    build=$static_build
  else
    configure_and_build "$source_dir" "$build" -DBUILD_SHARED_LIBS=$shared -DCMAKE_INSTALL_LIBDIR=lib -DRAPT_BUILD_VALIDATE=OFF
  fi

  # Installed in one place and moved to another: nothing in an installed tree may name the place. The tree is
  # replaced only when it has changed, so that its users need not be built again.
  rm -rf "$work_dir/$kind-staging"
  "$cmake" --install "$build" --prefix "$work_dir/$kind-staging" >/dev/null
  prefix=$work_dir/$kind-prefix
  if ! diff -qr "$work_dir/$kind-staging" "$prefix" >/dev/null 2>&1; then
    rm -rf "$prefix" "$work_dir/$kind-find_package"
    mv "$work_dir/$kind-staging" "$prefix"
  fi

  configure_and_build "$consumer_dir/find_package" "$work_dir/$kind-find_package" "-DCMAKE_PREFIX_PATH=$prefix"
  run_program "$kind, find_package, C" "$work_dir/$kind-find_package/c_program"
  run_program "$kind, find_package, C++" "$work_dir/$kind-find_package/cpp_program"

  if command -v pkg-config >/dev/null; then
    export PKG_CONFIG_PATH=$prefix/lib/pkgconfig
    read -ra flags <<<"$(pkg-config --cflags --libs rapt)"
    "$cc" "$consumer_dir/program/main.c" "${flags[@]}" -o "$work_dir/$kind-pkg_config"
    run_program "$kind, pkg-config, C" env "LD_LIBRARY_PATH=$prefix/lib" "$work_dir/$kind-pkg_config"
  else
    echo "skipped: $kind, pkg-config: there is no pkg-config"
  fi
done

prefix=$work_dir/static-prefix
"$cc" -std=c99 -Wall -Wextra -Wpedantic -Werror "$consumer_dir/program/main.c" -I"$prefix/include" \
  "$prefix/lib/librapt.a" -lm -o "$work_dir/plain_c"
run_program "librapt.a and libm alone, C99" "$work_dir/plain_c"
if needed=$(readelf -d "$work_dir/plain_c" 2>/dev/null) && grep -E 'NEEDED.*(stdc\+\+|pthread|gcc_s)' <<<"$needed"; then
  echo "librapt.a made a C program need more than libc and libm" >&2
  exit 1
fi

configure_and_build "$consumer_dir/add_subdirectory" "$work_dir/add_subdirectory" "-DRAPT_SOURCE_DIR=$source_dir"
run_program "add_subdirectory, C" "$work_dir/add_subdirectory/c_program"
run_program "add_subdirectory, C++" "$work_dir/add_subdirectory/cpp_program"
echo "$programs programs ran"
