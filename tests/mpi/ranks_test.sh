#!/usr/bin/env bash
# ranks_test.sh MPIEXEC PROGRAM: 1 to 4 ranks print the same bits, with ragged shards, an empty one, and fewer chunks
# than ranks.
set -euo pipefail
mpiexec=$1 program=$2
# Open MPI asks for more slots than a small machine has, and for permission to run as root in a container.
export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
for tokens in 1 512 3000; do
  expected=$("$mpiexec" -n 1 "$program" "$tokens")
  [[ $expected == prefill* ]]
  for ranks in 2 3 4; do
    diff <(echo "$expected") <("$mpiexec" -n "$ranks" "$program" "$tokens") ||
      { echo "$ranks ranks and $tokens tokens: other bits than one rank" >&2; exit 1; }
  done
  echo "$tokens tokens: $expected on 1, 2, 3 and 4 ranks" | paste -sd ' '
done
