#!/usr/bin/env bash
# Runs the commands of the `sh` blocks of README.md and the manual, each once, in a copy of the checkout. Those of the
# README's section on installing come first: other commands need them. Every line is run, or named here with the reason
# why not; a line that is neither fails, and so does a name here that they have no more.
#
# readme_commands.sh [--full] SOURCE_DIR WORK_DIR VALIDATE_DIR DECODER: the library has only the scalar level, which is
# installed in WORK_DIR instead of /usr/local. VALIDATE_DIR holds a rapt-validate of all levels, and DECODER is the
# decoder of all levels. --full: what takes minutes, with all levels.
set -euo pipefail
full=false
if [[ $1 == --full ]]; then
  full=true
  shift
fi
source_dir=$1 work=$2 validate_dir=$3 decoder=$4
checkout=$work/checkout prefix=$work/usr/local

# What a command needs of this machine: `run`, `minutes` (run by --full), or a reason to leave it out.
wheel="tests/python/run.sh does the same, and tests the result"
declare -A how=(
  ['./bench/run']="minutes on an idle machine; the commands with --filter run it"
  ['./tests/run']="runs this test"
  ['apt-get install cmake make g++ binutils pkg-config libxsimd-dev libcli11-dev nlohmann-json3-dev libfmt-dev']=packages
  ['cmake --preset release && cmake --build --preset release -j $(nproc)']=run
  ['cmake --preset release -DRAPT_GGML=../llama.cpp && cmake --build --preset release -j $(nproc)']="needs a llama.cpp tree; the tests with the label ggml do the same"
  ['GGML_BACKEND_PATH=$PWD/build/release/libggml-rapt.so llama-cli -m model.gguf -fa on --temp 0']="needs a model and llama.cpp"
  ['GGML_BACKEND_PATH=$PWD/build/release/libggml-rapt.so llama-cli -m model.gguf -fa on']="needs a model and llama.cpp"
  ['tests/ggml/table model.gguf build/release/libggml-rapt.so']="needs a model and npm"
  ['cmake --install build/release --prefix /usr/local']=run
  ['cc app.c $(pkg-config --cflags --libs rapt) -o app && ./app']=output
  ['build/release/decoder --isa scalar']=decoder
  ['build/release/decoder --threads 2']=decoder
  ['apt-get install python3-pip python3-venv python3-setuptools python3-wheel python3-numpy']=packages
  ['pip install . && pip install torch --index-url https://download.pytorch.org/whl/cpu']="$wheel, without a network"
  ['python3 -m venv environment && . environment/bin/activate']="$wheel"
  ['/usr/bin/python3 -m venv --system-site-packages environment && . environment/bin/activate']="$wheel"
  ['pip wheel . --no-build-isolation --no-deps && pip install --no-deps rapt-*.whl']="$wheel"
  ['cc app.c $(pkg-config --cflags --libs rapt) -o app']=shared
  ['python -m rapt.torch --strict --report program.py its arguments']="any program; tests/python/test_torch_enable.py does the same"
  ['python -m rapt.torch --demo']="tests/python/test_torch_enable.py does the same"
  ['python -m rapt.torch --build']="tests/python/with_torch.sh does the same"
  ['ldconfig']="tests/packages/deb_test.sh runs it after such an installation"
  ['LD_LIBRARY_PATH=/usr/local/lib ./app']=run
  ['./tests/see_why']=minutes
  ['./bench/run --peers']="as ./bench/run"
  ['./bench/run --peer numkong=DIR']="a library that this system does not package"
  ['./bench/run --peer ggml=DIR']="a library that this system does not package"
  ['./bench/run --peer onednn=DIR']="a version that this system does not package"
  ['./bench/ggml/run']="needs npm, and minutes on an idle machine"
  ["./bench/run --peers --filter '^exp_f32/.*/L1\$'"]=bench
  ["./bench/run --filter '^attention.*/llama-3-8b'"]="as ./bench/run"
  ["./bench/run --filter '^linear_f32/'"]="as ./bench/run"
  ['cc -ffp-contract=off program.c']="any program"
  ['./bench/compare_runs old.json new.json']=compare
  ['rapt-validate']=minutes
  ['rapt-validate --quick']=run
  ['rapt-validate --exhaustive']="the test exp_exhaustive computes the same"
)

fail() {
  echo "FAILED: $*" >&2
  exit 1
}

rm -rf "$checkout" "$prefix"
mkdir -p "$checkout" "$prefix"
tar -C "$source_dir" --exclude=./build --exclude=./.git -cf - . | tar -C "$checkout" -xf -
cd "$checkout"
awk -v block=1 -v language=c -f tests/examples/extract.awk README.md >app.c
export PATH=$prefix/bin:$validate_dir:$PATH PKG_CONFIG_PATH=$prefix/lib/pkgconfig
small=
if ! $full; then small=" -DRAPT_LEVELS=scalar -DRAPT_BUILD_VALIDATE=OFF"; fi

# execute COMMAND: as the page has it, except for the place of the installation and the levels.
execute() {
  local command=${1//\/usr\/local/$prefix}
  command=${command/--preset release/--preset release -DCMAKE_INSTALL_LIBDIR=lib$small}
  echo "-- $command"
  bash -euo pipefail -c "$command" >"$work/command.log" 2>&1 || { tail -n 40 "$work/command.log" >&2; fail "$1"; }
}

ran=0
declare -A seen=()
while IFS= read -r line; do
  command=$(sed 's/ *#.*//' <<<"$line")
  if [[ -z $command ]]; then continue; fi
  action=${how[$command]-}
  if [[ -n ${seen[$command]-} ]]; then continue; fi
  seen[$command]=1
  if [[ $action =~ ^(minutes|bench|compare)$ ]] && ! $full; then continue; fi
  case $action in
    '') fail "README.md or the manual has a command that no test runs: $command" ;;
    run | minutes) execute "$command" ;;
    packages) # each is one of this system
      if command -v dpkg-query >/dev/null; then
        for package in ${command#apt-get install }; do
          dpkg-query -W "$package" >/dev/null 2>&1 || apt-cache show "$package" >/dev/null || fail "$command: $package"
        done
      fi ;;
    output)
      execute "$command"
      diff <(awk -v block=1 -v language=text -f tests/examples/extract.awk README.md) "$work/command.log" || fail "$command" ;;
    decoder) # its hashes are those of the manual's recording
      if [[ ! -e build/release/decoder ]]; then install -D "$decoder" build/release/decoder; fi
      execute "$command"
      hashes=$(grep '^hash ' "$work/command.log")
      awk -v block=1 -v language=console -f tests/examples/extract.awk src/manual/decoder.md | grep -A 2 -F "\$ $command" | grep -qxF "$hashes" ||
        fail "$command: $hashes" ;;
    shared) # BUILD_SHARED_LIBS, as the sentence before it says
      rm -r "$prefix"
      execute "cmake --preset release -DBUILD_SHARED_LIBS=ON && cmake --build --preset release"
      execute "cmake --install build/release --prefix /usr/local"
      execute "$command"
      [[ $(LD_LIBRARY_PATH=$prefix/lib ldd app) == *librapt.so*" => $prefix/lib/"* ]] ||
        fail "$command: app is not linked with librapt.so" ;;
    bench)
      execute "$command --quick"
      cp build/bench/results-filtered.json old.json
      cp old.json new.json ;;
    compare) execute "$command" ;;
    *) continue ;;
  esac
  ran=$((ran + 1))
done < <({ sed -n '/^## Install/,/^## Guarantees/p' README.md; cat README.md bench/README.md src/manual/*.md; } |
  awk '/^```sh$/ { inside = 1; next } /^```$/ { inside = 0 } inside')
for command in "${!how[@]}"; do
  if [[ -z ${seen[$command]-} ]]; then fail "README.md and the manual no longer have: $command"; fi
done
echo "README.md and the manual: $ran of ${#how[@]} commands ran"
