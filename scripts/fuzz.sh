#!/usr/bin/env bash
# Runs one libFuzzer target for some seconds: scripts/fuzz.sh build/fuzz/tests/fuzz/fuzz_npy 20
#
# Starts from tests/fuzz/corpus/NAME where it exists. New inputs are kept in build/fuzz-corpus/NAME and used next time.
# A crash leaves its input in build/fuzz-crashes and prints the line that replays it. The seed is FUZZ_SEED, 1 when unset:
# a change is tried on the inputs that the last one passed, not on a throw of the dice. FUZZ_SEED=0 throws the dice.
set -euo pipefail
cd "$(dirname "$0")/.."

target=${1:?usage: scripts/fuzz.sh TARGET SECONDS}
seconds=${2:?usage: scripts/fuzz.sh TARGET SECONDS}
name=$(basename "$target")
found=build/fuzz-corpus/$name
crashes=build/fuzz-crashes/$name-
mkdir -p "$found" build/fuzz-crashes

corpora=("$found")
[ -d "tests/fuzz/corpus/$name" ] && corpora+=("tests/fuzz/corpus/$name")

log=$(mktemp)
trap 'rm -f "$log"' EXIT
echo "-- $name, $seconds s"
if ! "$target" -seed="${FUZZ_SEED:-1}" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 \
    -artifact_prefix="$crashes" "${corpora[@]}" </dev/null >"$log" 2>&1; then
    tail -n 60 "$log"
    input=$(sed -n 's/.*Test unit written to //p' "$log" | tail -n 1)
    echo "replay: $target ${input:-"(no input was written)"}"
    exit 1
fi
sed -n 's/^stat::number_of_executed_units: */   inputs run: /p' "$log"
