#!/usr/bin/env bash
# Ours and PyTorch by turns, in rounds, on one machine in one state; then one table and one plot.
#
#   bench/run.sh [ATTN [SHAPES [FOLDER]]]     build/release/tools/attn bench/shapes/cpu.txt build/bench
#
# Environment: ROUNDS (3), THREADS (all processors), SERIES (all), SAMPLES (7), SECONDS_PER_CASE (1),
# PYTHON (python3, needs torch; without torch only ours is measured). Files of a round stay in FOLDER.
set -euo pipefail
cd "$(dirname "$0")/.."

attn=${1:-build/release/tools/attn}
shapes=${2:-bench/shapes/cpu.txt}
folder=${3:-build/bench}
rounds=${ROUNDS:-3}
threads=${THREADS:-$(nproc)}
python=${PYTHON:-python3}
common=(--samples "${SAMPLES:-7}" --warmup 2 --max-seconds "${SECONDS_PER_CASE:-1}" --threads "$threads")
[ -z "${SERIES:-}" ] || common+=(--series "$SERIES")
name=$(basename "$shapes" .txt)

mkdir -p "$folder"
has_peer=yes
"$python" -c 'import torch' 2>/dev/null || has_peer=no
[ "$has_peer" = yes ] || echo "run.sh: $python has no torch: measuring ours alone" >&2

ours=()
peers=()
for ((round = 1; round <= rounds; round++)); do
    echo "round $round of $rounds" >&2
    # The result is checked once; the later rounds run the same code.
    check=()
    [ "$round" -eq 1 ] || check=(--no-check)
    "$attn" bench "$shapes" "${common[@]}" "${check[@]}" --json "$folder/$name-ours-$round.json" >/dev/null
    ours+=("$folder/$name-ours-$round.json")
    if [ "$has_peer" = yes ]; then
        "$python" bench/peers/torch_cpu.py "$shapes" "${common[@]}" --json "$folder/$name-torch-$round.json" 2>/dev/null
        peers+=("$folder/$name-torch-$round.json")
    fi
done

join() { local IFS=,; echo "$*"; }
report=(--from "$(join "${ours[@]}")")
[ "${#peers[@]}" -eq 0 ] || report+=(--peers "$(join "${peers[@]}")")
"$attn" bench "${report[@]}" --json "$folder/$name.json" | tee "$folder/$name.table.txt"

# One plot for each series, with the peer beside ours.
for kind in $(awk '!/^#/ && NF { print $1 }' "$shapes"); do
    [ -z "${SERIES:-}" ] || [[ ",$SERIES," == *",$kind,"* ]] || continue
    "$attn" bench "${report[@]}" --series "$kind" --svg "$folder/$name-$kind.svg" >/dev/null
done
echo "samples, table and plots are in $folder"
