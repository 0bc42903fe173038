#!/usr/bin/env bash
# Tutti against every peer of tutti-perf --compare that is installed, and pictures of it where matplotlib is:
#   bench/compare.sh FOLDER [COLLECTIVE [RANKS...]]     (all_reduce; 2 4 8: about 15 minutes on 2 cores)
# FOLDER gets COLLECTIVE_RANKS_{small,large}.json and .txt, and COLLECTIVE_RANKS.svg and .png. COMPARE_OPTIONS: more
# options of tutti-perf. COMPARE_PROGRAM: another build's. COMPARE_WITH: a command in front, as `chrt -r 20`.
# tools/setup.sh --peers installs the peers.
set -euo pipefail
cd "$(dirname "$0")/.."
[ $# -gt 0 ] || { sed -n '2,6s/^# \?//p' "$0" >&2; exit 2; }
folder=$1 collective=${2:-all_reduce}
shift $(($# < 2 ? $# : 2))
[ $# -gt 0 ] || set -- 2 4 8
program=${COMPARE_PROGRAM:-build/release/tools/tutti-perf}
if [ ! -x "$program" ]; then
  tools/setup.sh
  cmake --preset release > /dev/null
  cmake --build build/release
fi
read -ra more <<< "${COMPARE_OPTIONS:-}"
read -ra before <<< "${COMPARE_WITH:-}"
mkdir -p "$folder"
for ranks; do
  for part in "small 8 32K" "large 64K 64M"; do
    read -r name least most <<< "$part"
    out=$folder/${collective}_${ranks}_$name
    "${before[@]}" "$program" "$collective" --compare all --ranks "$ranks" -b "$least" -e "$most" --rounds 4 --pairs 4 \
      -J "$out.json" "${more[@]}" > "$out.txt"
    cat "$out.txt"
  done
  for kind in svg png; do
    python3 tools/plot.py race "$folder/${collective}_$ranks.$kind" "$folder/${collective}_${ranks}"_{small,large}.json ||
      echo "compare: no picture (it needs python3-matplotlib)" >&2
  done
done
