#!/usr/bin/env bash
# How near all_reduce over loopback TCP is to what the sockets allow: beside it, in turn, as many bytes by plain sockets, and
# an all_reduce by plain sockets, which also adds.
#   bench/sockets.sh [RANKS...]      2 and 4 ranks without arguments; 4 minutes
# Each column `x` is Tutti's time by theirs, from the left. Of 2 ranks it should be at most 1.35 at 8 B by as many bytes, and
# 1.2 from 256 KiB on by the all_reduce. Nothing else should run.
set -euo pipefail
cd "$(dirname "$0")/.."
[ $# -gt 0 ] || set -- 2 4
for ranks; do [[ $ranks =~ ^[1-9][0-9]*$ ]] || { sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p}' "$0" >&2; exit 2; }; done
perf=${PERF_PROGRAM:-build/release/tools/tutti-perf}
if [ ! -x "$perf" ]; then
  tools/setup.sh
  cmake --preset release > /dev/null
  cmake --build build/release --target tutti-perf contestant_tutti contestant_sockets contestant_sockets_all_reduce
fi
for ranks; do
  TUTTI_TRANSPORT=tcp "$perf" all_reduce --compare sockets,sockets_all_reduce --ranks "$ranks" -b 8 -e 128K -f 16 --rounds 4
  TUTTI_TRANSPORT=tcp "$perf" all_reduce --compare sockets,sockets_all_reduce --ranks "$ranks" -b 256K -e 64M -f 4 --rounds 4
done
