#!/usr/bin/env bash
# run.sh BUILD_DIR [CMAKE_ARGUMENTS]: builds the wheel as the README says, installs it into a fresh virtual environment, and
# runs the tests of Python against it.
set -euo pipefail
source_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
work_dir=$1
export PYTHONDONTWRITEBYTECODE=1
rm -rf "$work_dir/wheel" "$work_dir/environment"
mkdir -p "$work_dir"
python=/usr/bin/python3  # Debian's, which has Debian's packages
(cd "$source_dir" && CMAKE_ARGS=${2-} "$python" -m pip wheel . --no-build-isolation --no-deps -w "$work_dir/wheel")
"$python" -m venv --system-site-packages "$work_dir/environment"
"$work_dir/environment/bin/pip" install --no-index --no-deps "$work_dir"/wheel/rapt-*.whl
cd "$source_dir/tests/python"
PATH=$work_dir/environment/bin:$PATH "$work_dir/environment/bin/python" -m pytest -p no:cacheprovider -rs .
