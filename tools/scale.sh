#!/usr/bin/env bash
# Renews the study of all_reduce at scale in docs/simulation.md, a quarter of an hour on one core:
#   tools/scale.sh [SIMULATOR]     default: build/release/tools/tutti-sim, which is built first
# docs/study/all_reduce.csv, the pictures of it, and the same on a fat tree.
set -euo pipefail
cd "$(dirname "$0")/.."
simulator=${1:-build/release/tools/tutti-sim}
if [ $# -eq 0 ]; then
  tools/setup.sh
  cmake --preset release > /dev/null
  cmake --build build/release --target tutti-sim
fi
names=recursive_doubling,halving_doubling,ring,hierarchical,hierarchical_leaders
names+=,recursive_exchange,scatter_exchange_1,scatter_exchange_2,scatter_exchange_3
folder=$(mktemp -d)
tools/setup.sh --figures
trap 'rm -rf "$folder"' EXIT
# simulate FILE RANKS SIZES ALGORITHMS OPTION...
simulate() {
  local file=$1 ranks=$2 sizes=$3 algorithms=$4
  shift 4
  "$simulator" all_reduce --ranks "$ranks" --bytes "$sizes" --algo "$algorithms" --per-host 8 \
    --costs docs/study/cluster.costs --csv "$folder/$file" "$@"
}
# join FILE...: one table.
join() { head -n 1 "$folder/$1"; for file in "$@"; do tail -n +2 "$folder/$file"; done; }
sizes=8,1K,32K,256K,1M,8M,32M,256M
simulate some.csv 64,256,1024,8192 $sizes "$names"
simulate most.csv 131072 $sizes auto
join some.csv most.csv > docs/study/all_reduce.csv
simulate tree.csv 512,4096,32768 1K,1M,8M "$names" --hosts-per-leaf 32 --oversubscription 4
simulate flat.csv 512,4096,32768 1K,1M,8M "$names"
join tree.csv > docs/study/all_reduce_tree.csv
python3 -B tools/plot.py factors docs/study/all_reduce_factors.svg docs/study/cluster.costs docs/study/all_reduce.csv
python3 -B tools/plot.py times docs/study/all_reduce_times.svg 1024,1048576,33554432 docs/study/all_reduce.csv
python3 -B tools/plot.py ratio docs/study/all_reduce_tree.svg "$folder/flat.csv" docs/study/all_reduce_tree.csv
