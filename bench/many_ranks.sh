#!/usr/bin/env bash
# How steady small calls of many ranks on few cores are: tutti-perf all_reduce of 8 bytes, again and again in new processes.
#   bench/many_ranks.sh [RUNS [RANKS...]]      20 runs each of 16, 24, 32, 64, 128, 256 and 512 ranks without arguments
# A line for each number of ranks: the medians of the runs in us, the smallest, the middle one and the largest; the largest
# by the smallest; the middle one of what the runs' p99 are by their medians. Each run is followed by one in which calls and
# plain hand-overs of the cores take turns (tutti-perf --compare handover): the hand-over's largest median by its smallest
# says how steady the machine is, and the call's time by the hand-over's in the same run, from the smallest to the largest,
# how much of that is Tutti's. Nothing else should run. `bench/measure.sh many_ranks` compares with Open MPI.
set -euo pipefail
cd "$(dirname "$0")/.."
runs=${1:-20}
[[ $runs =~ ^[1-9][0-9]*$ ]] || { sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p}' "$0" >&2; exit 2; }
shift $(($# > 0))
[ $# -gt 0 ] || set -- 16 24 32 64 128 256 512
perf=${PERF_PROGRAM:-build/release/tools/tutti-perf}
if [ ! -x "$perf" ]; then
  tools/setup.sh
  cmake --preset release > /dev/null
  cmake --build build/release --target tutti-perf contestant_tutti contestant_handover
fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
echo "ranks  smallest    middle   largest  largest/smallest  p99/median  the hand-over's  call/hand-over"
for ranks; do
  rm -f "$folder"/*.json
  for ((i = 0; i < runs; ++i)); do
    "$perf" all_reduce --ranks "$ranks" -b 8 -e 8 -w 20 -n 100 -J "$folder/$i.json" > /dev/null
    "$perf" all_reduce --compare handover --ranks "$ranks" -b 8 -e 8 --rounds 1 -J "$folder/$i.handover.json" > /dev/null
  done
  python3 - "$ranks" "$folder" <<'PYTHON'
import json
import pathlib
import statistics
import sys

runs, beside = [], []
for path in pathlib.Path(sys.argv[2]).glob("*.json"):
    rows = json.loads(path.read_text())["results"]
    if path.name.endswith(".handover.json"):
        beside += [row["peers"]["handover"] for row in rows if "handover" in row["peers"]]
    else:
        runs.append(rows[0]["out_of_place"]["time_us"])
medians = sorted(run["p50"] for run in runs)
tail = statistics.median(run["p99"] / run["p50"] for run in runs)
hand_overs, ratios = sorted(run["time_us"] for run in beside), sorted(run["ratio"] for run in beside)
steady = f"{hand_overs[-1] / hand_overs[0]:15.2f}  {ratios[0]:.2f}-{ratios[-1]:.2f}" if beside else "              -  -"
print(f"{sys.argv[1]:>5} {medians[0]:9.1f} {statistics.median(medians):9.1f} {medians[-1]:9.1f} {medians[-1] / medians[0]:17.2f} {tail:11.2f} {steady:>16}")
PYTHON
done
