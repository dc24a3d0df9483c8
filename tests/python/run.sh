#!/usr/bin/env bash
# run.sh [--full] WORK_DIR [CMAKE_ARGUMENTS]: makes a source distribution, builds the wheel from it alone, installs it
# into a fresh virtual environment, and runs tests of Python against it: those that see the package, or all of them by
# --full. (source.sh runs all over the sources.) install.sh has the other ways to install.
set -euo pipefail
tests=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
files=(test_attention.py test_command.py test_library.py test_linear.py test_messages.py test_readme.py test_torch.py
  test_types.py test_wheel.py)
if [[ $1 == --full ]]; then
  files=(.)
  shift
fi
work_dir=$(mkdir -p "$1" && cd "$1" && pwd)
export PYTHONDONTWRITEBYTECODE=1 PIP_NO_INDEX=1 PIP_DISABLE_PIP_VERSION_CHECK=1
unset PYTHONPATH RAPT_LIBRARY RAPT_ISA
python=/usr/bin/python3  # Debian's, which has Debian's packages
rm -rf "$work_dir"/{sdist,wheel,environment}

# A frontend such as `python3 -m build` makes the same call of the backend.
(cd "$tests/../.." && PYTHONPATH=src/python "$python" -c "import wheel_backend; wheel_backend.build_sdist('$work_dir/sdist')")
archive=$(echo "$work_dir"/sdist/rapt-*.tar.gz)
# The unpacked tree keeps its place and its times, so that a second run compiles changes only.
rm -rf "$work_dir"/rapt-new
mkdir "$work_dir"/rapt-new
tar -C "$work_dir/rapt-new" --strip-components 1 -xf "$archive"
if [[ -d $work_dir/rapt/build ]]; then mv "$work_dir/rapt/build" "$work_dir/rapt-new"; fi
rm -rf "$work_dir/rapt"
mv "$work_dir/rapt-new" "$work_dir/rapt"

(cd "$work_dir/rapt" && CMAKE_ARGS=${2-} "$python" -m pip wheel . --no-build-isolation --no-deps -w "$work_dir/wheel")
"$python" -m venv --system-site-packages "$work_dir/environment"
"$work_dir/environment/bin/pip" install --no-deps "$work_dir"/wheel/rapt-*.whl
cd "$tests"
RAPT_WHEEL=$(echo "$work_dir"/wheel/rapt-*.whl) PATH=$work_dir/environment/bin:$PATH \
  "$work_dir/environment/bin/python" -m pytest -p no:cacheprovider -rs "${files[@]}"
"$tests/install.sh" "$archive" "$work_dir/install"
