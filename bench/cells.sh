#!/usr/bin/env bash
# Which cells are behind: every collective against Open MPI, and from 64 KiB on against the memory alone, in shared memory.
#   bench/cells.sh [RANKS...]      2, 4 and 8 ranks without arguments; 10 minutes
# The goal: Tutti's time is at most Open MPI's, and from 64 KiB on at most 0.9 of it or 1.1 of the memory's alone. Cells that
# miss it are listed with both ratios, near (a cache line crosses between the cores in less than 120 ns) and far; then how
# many there are of all. Cells of fewer than two pairs do not count. Nothing else should run.
set -euo pipefail
cd "$(dirname "$0")/.."
[ $# -gt 0 ] || set -- 2 4 8
for ranks; do [[ $ranks =~ ^[1-9][0-9]*$ ]] || { sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p}' "$0" >&2; exit 2; }; done
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
for ranks; do
  for name in all_reduce all_gather broadcast reduce reduce_scatter all_to_all gather scatter barrier; do
    echo "cells: $name, $ranks ranks" >&2
    bench/race.sh "$ranks" -c "$name" -b 8 -e 32K -f 8 --rounds 3 --pairs 4 -J "$folder/$ranks.$name.small.json" > /dev/null
    [ "$name" != barrier ] || continue
    bench/race.sh "$ranks" -c "$name" -b 64K -e 16M -f 4 --rounds 3 --pairs 4 -J "$folder/$ranks.$name.large.json" > /dev/null
    bench/race.sh "$ranks" -c "$name" -b 64K -e 16M -f 4 --rounds 3 --pairs 4 --against floor -J "$folder/$ranks.$name.floor.json" > /dev/null
  done
done
python3 - "$folder" <<'PYTHON'
import json
import pathlib
import sys

FROM, RATIO, OF_FLOOR = 64 << 10, 0.9, 1.1
cells, floors = {}, {}
for path in sorted(pathlib.Path(sys.argv[1]).glob("*.json")):
    report = json.loads(path.read_text())
    for row in report["results"]:
        if row["pairs"] >= 2:
            cell = (report["ranks"], report["collective"], row["size"], row["state"])
            (floors if path.name.endswith(".floor.json") else cells)[cell] = row["ratio"]
missed = 0
print("ranks  collective           bytes  state  by Open MPI  by the memory")
for cell, ratio in sorted(cells.items()):
    ranks, collective, size, state = cell
    floor = floors.get(cell)
    if ratio <= (RATIO if size >= FROM else 1) or (floor is not None and size >= FROM and floor <= OF_FLOOR and ratio <= 1):
        continue
    missed += 1
    print(f"{ranks:5}  {collective:15} {size:10}  {state:5}  {ratio:11.2f}  {'-' if floor is None else format(floor, '.2f'):>13}")
print(f"{missed} of {len(cells)} cells miss the goal")
PYTHON
