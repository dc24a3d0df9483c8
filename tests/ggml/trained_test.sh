#!/usr/bin/env bash
# A trained model, which RAPT_TEST_GGUF names: every level of the plugin has one hash of all logits, and one text.
#
# trained_test.sh PLUGIN HOST
set -euo pipefail
if [[ -z ${RAPT_TEST_GGUF-} ]]; then
  echo "skipped: a trained model: RAPT_TEST_GGUF names no GGUF file"
  exit 77
fi
answers=$("$(dirname "${BASH_SOURCE[0]}")/table" "$RAPT_TEST_GGUF" "$1" "$2")
echo "$answers"
grep -q '^rapt: .* 1 distinct hash of all logits, 1 distinct text' <<<"$answers"
