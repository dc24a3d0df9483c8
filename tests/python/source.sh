#!/usr/bin/env bash
# source.sh LIBRARY [PYTEST_ARGUMENT...]: the tests of Python over the package's sources and a shared library, in
# seconds.
set -euo pipefail
tests=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
export RAPT_LIBRARY=$1 PYTHONPATH=$tests/../../src/python PYTHONDONTWRITEBYTECODE=1
shift
for python in python3 /usr/bin/python3; do  # the second has Debian's packages
  if "$python" -c 'import numpy, pytest' 2>/dev/null; then
    cd "$tests"
    exec "$python" -m pytest -p no:cacheprovider -q -rs --tb=short --ignore test_wheel.py "$@" .
  fi
done
echo "skipped: Python's tests need numpy and pytest (Debian: python3-numpy, python3-pytest)"
