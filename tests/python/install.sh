#!/usr/bin/env bash
# install.sh SDIST WORK_DIR: the ways to build and install that run.sh leaves out. Two builds at once are as good as
# one; a deleted module is gone from the next wheel; a wheel without its library is an error; CMAKE_ARGS are not
# remembered; pip's settings choose the levels, and nothing else does; cmake/wheel takes nothing of its caller; an
# editable install runs, and is editable. All is built at the scalar level.
set -euo pipefail
archive=$1 work_dir=$2
tests=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
export PYTHONDONTWRITEBYTECODE=1 PIP_NO_INDEX=1 PIP_DISABLE_PIP_VERSION_CHECK=1
unset PYTHONPATH RAPT_LIBRARY RAPT_ISA
python=/usr/bin/python3
quick="-DRAPT_LEVELS=scalar"
rm -rf "$work_dir"
mkdir -p "$work_dir/checkout"
work_dir=$(cd "$work_dir" && pwd)
tree=$work_dir/checkout  # the same place each time, for ccache; `rapt` would be importable from next to it
tar -C "$tree" --strip-components 1 -xf "$archive"

fail() {
  echo "FAILED: $*" >&2
  exit 1
}

# build_wheel NAME [CMAKE_ARGUMENT]: into the folder NAME, with a log next to it.
build_wheel() {
  (cd "$tree" && CMAKE_ARGS="$quick ${2-}" "$python" -m pip wheel . --no-build-isolation --no-deps --no-cache-dir \
    -w "$work_dir/$1") >"$work_dir/$1.log" 2>&1
}
# record_of NAME: the wheel's files with their hashes. A pipe into grep -q would end sort by a signal at times, which
# pipefail reports.
record_of() {
  "$python" -c "
import sys, zipfile
wheel = zipfile.ZipFile(sys.argv[1])
print(wheel.read(next(name for name in wheel.namelist() if name.endswith('/RECORD'))).decode())" "$work_dir/$1"/rapt-*.whl | sort
}

build_wheel first &
first=$!
build_wheel second &
second=$!
wait $first || { cat "$work_dir/first.log"; fail "the first of two builds at once"; }
wait $second || { cat "$work_dir/second.log"; fail "the second of two builds at once"; }
[[ $(record_of first) == "$(record_of second)" ]] || fail "two builds at once differ"
grep -q '^rapt/lib/librapt\.so\.' < <(record_of first) || fail "a wheel lacks its library: $(record_of first)"
if compgen -G "$tree/*.egg-info" >/dev/null || [[ -e $tree/src/python/rapt/lib ]]; then fail "a build wrote next to the sources"; fi
echo "-- two builds at once"

# Only the next wheel may tell that the module is gone.
touch "$tree/src/python/rapt/_gone.py"
build_wheel with_module
rm "$tree/src/python/rapt/_gone.py"
build_wheel without_module
grep -q '^rapt/_gone.py' < <(record_of with_module) || fail "a new module is not in the wheel"
if record_of without_module | grep '^rapt/_gone.py'; then fail "a deleted module is in the wheel"; fi
echo "-- a deleted module"

if build_wheel no_library -DBUILD_SHARED_LIBS=OFF; then fail "a wheel without its library is no error"; fi
grep -q 'error: CMake installed no lib/librapt\.so\.' "$work_dir/no_library.log" ||
  { cat "$work_dir/no_library.log"; fail "no message says that the library is missing"; }
if compgen -G "$work_dir/no_library/*.whl"; then fail "there is a wheel without its library"; fi
echo "-- a wheel without its library is an error"

# CMake would remember the option, which is wrong, for the next wheel.
if build_wheel wrong_option -DRAPT_CLOSE=nothing; then fail "a wrong option is no error"; fi
grep -q 'error: CMake ended with status 1, and says above why' "$work_dir/wrong_option.log" && ! grep -q Traceback "$work_dir/wrong_option.log" ||
  { cat "$work_dir/wrong_option.log"; fail "no sentence says that CMake failed"; }
build_wheel after_wrong_option || { cat "$work_dir/after_wrong_option.log"; fail "a wheel has the CMAKE_ARGS of the one before"; }
[[ $(record_of after_wrong_option) == "$(record_of first)" ]] || fail "a wheel has the CMAKE_ARGS of the one before"
echo "-- CMAKE_ARGS of one wheel only"

# pip's setting, in place of CMAKE_ARGS. What is compiled, and how long that takes, is said before the first file.
(cd "$tree" && "$python" -m pip wheel -v . --no-build-isolation --no-deps --no-cache-dir -w "$work_dir/setting" \
  --config-settings=RAPT_LEVELS=scalar) >"$work_dir/setting.log" 2>&1 || { cat "$work_dir/setting.log"; fail "--config-settings"; }
[[ $(record_of setting) == "$(record_of first)" ]] || fail "--config-settings makes another wheel than CMAKE_ARGS"
said=$(sed -n 's/^ *//; /^running build_library/,+2p' "$work_dir/setting.log" | paste -sd ' ')
[[ $said == "running build_library rapt: levels: scalar; left out by"*" rapt: "+([0-9])" files to compile: 14 CPU-seconds"* ]] ||
  fail "pip wheel -v does not begin with what it compiles: $said"
echo 'set(RAPT_LEVELS scalar)' >"$work_dir/fewer.cmake"
if quick='' build_wheel fewer "-DCMAKE_TOOLCHAIN_FILE=$work_dir/fewer.cmake"; then fail "a wheel lacks levels, and nobody asked for fewer"; fi
grep -q 'error: this library would lack the levels [a-z]' "$work_dir/fewer.log" || { cat "$work_dir/fewer.log"; fail "no sentence names the levels"; }
echo "-- levels of pip's settings only"

# Whoever makes a release may have anything in the environment.
CC=false CXX=false CXXFLAGS=-fno-such-flag CMAKE_CXX_COMPILER_LAUNCHER=false CMAKE_ARGS=-DRAPT_LEVELS=none PYTHONPATH=/nowhere \
  "$tree/cmake/wheel" --levels scalar "$work_dir/release" >"$work_dir/release.log" 2>&1 ||
  { cat "$work_dir/release.log"; fail "cmake/wheel"; }
[[ $(record_of release) == "$(record_of first)" ]] || fail "cmake/wheel makes another wheel than pip"
wheel=$(echo "$work_dir"/release/rapt-*.whl)
"$python" -m zipfile -e "$wheel" "$work_dir/unpacked"
(cd "$tests" && RAPT_WHEEL=$wheel PYTHONPATH=$work_dir/unpacked "$python" -m pytest -q -p no:cacheprovider -k "tag or files" test_wheel.py)
echo "-- cmake/wheel"

"$python" -m venv --system-site-packages "$work_dir/environment"
editable() {
  (cd "$tree" && CMAKE_ARGS="$quick ${1-}" "$work_dir/environment/bin/pip" install -e . --no-build-isolation --no-deps) \
    >"$work_dir/editable.log" 2>&1
}
cd "$work_dir"
if editable -DBUILD_SHARED_LIBS=OFF; then fail "an editable install without its library is no error"; fi
editable || { cat editable.log; fail "pip install -e"; }
says=$(environment/bin/python -c "
import numpy, rapt
x = numpy.array([[1, 2, 3, 4]], numpy.float32)
print(list(rapt.isas()), rapt.softmax(x).sum(), rapt.__file__)")
[[ $says == "['scalar'] 1.0 $tree/src/python/rapt/__init__.py" ]] || fail "the editable install: $says"
grep -q '^rapt ' < <(environment/bin/rapt-attention --version) || fail "the editable install has no rapt-attention"
echo "answer = 42" >>"$tree/src/python/rapt/_isa.py"
[[ $(environment/bin/python -c "import rapt._isa; print(rapt._isa.answer)") == 42 ]] || fail "an edit does not show"
editable || { cat editable.log; fail "pip install -e, again"; }
environment/bin/pip uninstall -y rapt >/dev/null
if environment/bin/python -c "import rapt" 2>/dev/null; then fail "rapt is still there when it is uninstalled"; fi
echo "-- an editable install"
