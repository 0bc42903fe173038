#!/usr/bin/env bash
# Renews the study of scale in docs/simulation.md, 35 minutes on one core:
#   tools/scale.sh [SIMULATOR]     default: build/release/tools/tutti-sim, which is built first
# all_reduce, also on a fat tree and where hosts or links are slow, all_to_all, and broadcast, barrier, all_gather and reduce_scatter: docs/study/*.csv and the pictures.
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
# simulate FILE COLLECTIVE RANKS SIZES ALGORITHMS OPTION...
simulate() {
  local file=$1 collective=$2 ranks=$3 sizes=$4 algorithms=$5
  shift 5
  "$simulator" "$collective" --ranks "$ranks" --bytes "$sizes" --algo "$algorithms" --per-host 8 \
    --costs docs/study/cluster.costs --csv "$folder/$file" "$@"
}
# join FILE...: one table.
join() { head -n 1 "$folder/$1"; for file in "$@"; do tail -n +2 "$folder/$file"; done; }
sizes=8,1K,32K,256K,1M,8M,32M,256M
simulate some.csv all_reduce 64,256,1024,8192 $sizes "$names"
simulate most.csv all_reduce 131072 $sizes auto
join some.csv most.csv > docs/study/all_reduce.csv
exchanges=all_pairs,bruck,hierarchical,hierarchical_2,hierarchical_3
simulate exchanges.csv all_to_all 64,256,1024,8192,32768 8,64,256,1K,4K,32K,256K,8M,256M $exchanges
join exchanges.csv > docs/study/all_to_all.csv
leaves=(--hosts-per-leaf 32 --oversubscription 4)
simulate tree.csv all_reduce 512,4096,32768 1K,1M,8M "$names" "${leaves[@]}"
simulate flat.csv all_reduce 512,4096,32768 1K,1M,8M "$names"
join tree.csv > docs/study/all_reduce_tree.csv
# Where all are not alike: host 3 takes twice as long, or its link carries a quarter; leaves with a narrow way up, whose
# hosts have neighbouring ranks or not.
# Rings of all ranks, which have no symmetry here, would take most of the time and are left out.
uneven() {
  local file=$1
  shift
  simulate large.csv all_reduce 512 1K,32K,256K,1M,8M,32M "${names/,ring,/,}" "$@"
  simulate many.csv all_reduce 4096 1K,32K,256K,1M "${names/,ring,/,}" "$@"
  join large.csv many.csv > "docs/study/uneven_$file.csv"
}
uneven none
uneven slow_host --slow-host 3:2
uneven slow_link --slow-link 3:4
uneven leaves "${leaves[@]}"
uneven leaves_dealt "${leaves[@]}" --hosts-on-leaves dealt
uneven leaves_shuffled "${leaves[@]}" --hosts-on-leaves shuffled
panels=()
for collective in broadcast barrier all_gather reduce_scatter; do
  case $collective in
    broadcast | barrier) simulate 1.csv $collective 8,64,512,4096,32768 8,1K,32K,1M all; files=1.csv ;;
    *)
      simulate 1.csv $collective 8,64,512,4096 8,1K,32K,1M all
      simulate 2.csv $collective 32768 8,1K all
      files="1.csv 2.csv"
      ;;
  esac
  # shellcheck disable=SC2086
  join $files > docs/study/$collective.csv
  panels+=("$collective=docs/study/$collective.csv")
done
python3 -B tools/plot.py winners docs/study/others_winners.svg "${panels[@]}"
python3 -B tools/plot.py factors docs/study/all_reduce_factors.svg docs/study/cluster.costs docs/study/all_reduce.csv
python3 -B tools/plot.py factors docs/study/all_to_all_factors.svg docs/study/cluster.costs docs/study/all_to_all.csv
python3 -B tools/plot.py times docs/study/all_reduce_times.svg 1024,1048576,33554432 docs/study/all_reduce.csv
python3 -B tools/plot.py ratio docs/study/all_reduce_tree.svg "$folder/flat.csv" docs/study/all_reduce_tree.csv
python3 -B tools/plot.py uneven docs/study/uneven.svg docs/study/uneven_none.csv \
  "a host takes twice as long=docs/study/uneven_slow_host.csv" "a link carries a quarter=docs/study/uneven_slow_link.csv" \
  "leaves, in order=docs/study/uneven_leaves.csv" "leaves, dealt out=docs/study/uneven_leaves_dealt.csv" \
  "leaves, at random=docs/study/uneven_leaves_shuffled.csv"
