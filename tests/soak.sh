#!/bin/sh
# soak.sh - the long counts: random kills, long fuzzing, a repeated test suite.
# Seeded (SEED, 1) and resumable: what is done is noted in $O/soak/done and not run again;
# remove that file, or change SEED, to begin anew.  COUNT (200) kills a part,
# SLURM_COUNT (50) kills of each kind under Slurm, FUZZ_SECONDS (600) a fuzz target.
set -u
cd "$(dirname "$0")/.." || exit 4
O=${O:-build} SEED=${SEED:-1} COUNT=${COUNT:-200}
export O
mkdir -p "$O/soak"
ledger=$O/soak/done
touch "$ledger"
bad=0 parts=0

# part NAME COMMAND...
part()
{
    name=$1
    shift
    parts=$((parts + 1))
    if grep -qxF "$name" "$ledger"; then
        echo "--- $name: done before"
        return
    fi
    echo "--- $name: $*"
    if "$@"; then
        echo "$name" >>"$ledger"
    else
        bad=$((bad + 1))
        echo "not ok - $name"
    fi
}

part "launch kills $COUNT seed $SEED" bash tests/soak/launch_kill.sh "$COUNT" "$SEED"
part "training kills $COUNT seed $SEED" bash tests/soak/train_kill.sh "$COUNT" "$SEED"
part "SSH kills ${SSH_COUNT:-50} seed $SEED" bash tests/soak/agent_kill.sh "${SSH_COUNT:-50}" "$SEED"
part "Slurm kills ${SLURM_COUNT:-50} seed $SEED" bash tests/soak/slurm_kill.sh "${SLURM_COUNT:-50}" "$SEED"
if command -v clang >/dev/null; then
    part "fuzz ${FUZZ_SECONDS:-600} s a target" make --no-print-directory CUDA=0 FUZZ_SECONDS="${FUZZ_SECONDS:-600}" fuzz
else
    echo '--- fuzz: skipped, there is no clang (apt-get install clang)'
fi
for n in 1 2 3; do
    part "tests, round $n" sh tests/run.sh
done
echo "$((parts - bad)) passed, $bad failed"
[ "$bad" -eq 0 ]
