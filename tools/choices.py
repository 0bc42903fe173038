#!/usr/bin/env python3
"""How near to the best algorithm the chosen one is between hosts, by the simulator:
  tools/choices.py [--simulator PROGRAM] [--wide] [--rates RATE,...] [--above RATIO] [--most RATIO] [--yardstick [--ranks N,...]]
                   [COLLECTIVE...]
Takes 70 seconds without arguments.
Networks of 1, 10, 100 and 400 Gbit/s (--rates: others, such as 10gbit) with the other costs of docs/study/cluster.costs, 2 to 72 ranks on 2 to 16 hosts, 8 bytes
to 64 MiB (4 MiB where there is a block a rank), with rank 0 and the last rank as roots. A line for each collective: cells, the share of them in which the chosen
algorithm takes at most 1.1 and 1.3 times as long as the best one, and the worst. --wide: other layouts, up to 192 ranks on 2 to 100 hosts, and sizes
between those; takes 140 seconds. --above: names the cells that are worse.
--most: exit code 1 if there is one that is worse.
--yardstick: the chosen algorithms' times on hosts of 8 ranks by T = log2(hosts) x 10 us + the longer of what a host's link and
what its memory take (docs/simulation.md), for the numbers of ranks of --ranks; a line each."""
import argparse
import csv
import itertools
import math
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
RATES = ["1gbit", "10gbit", "100gbit", "400gbit"]
PASSES = "1024"  # all tiles: those under way at the end have the processors to themselves, so the last of a few tell too short a pace
YARDSTICK_PASSES = "64"  # as in the tables of docs/simulation.md
LAYOUTS = [(hosts, each, 8) for hosts, each in [(2, 1), (3, 1), (4, 1), (8, 1), (16, 1), (2, 2), (2, 8), (3, 4), (4, 8), (8, 4), (3, 6), (4, 9), (9, 2),
                                               (9, 8)]]  # hosts, ranks of each, cores of each
# Hosts, ranks of each, cores of each: what was looked at neither while the closed forms were first made nor in the layouts above.
WIDE_LAYOUTS = [(2, 16, 8), (3, 2, 8), (5, 1, 8), (5, 3, 8), (5, 32, 32), (6, 8, 8), (7, 4, 4), (12, 1, 8), (12, 16, 8), (16, 4, 8), (33, 3, 8),
                (48, 1, 8), (100, 1, 8)]
WHOLE = ["all_reduce", "broadcast", "reduce", "barrier"]
ROOTED = ["broadcast", "reduce", "gather", "scatter"]
BLOCKS = ["all_gather", "reduce_scatter", "all_to_all", "gather", "scatter"]
SIZES = {"barrier": "8", **dict.fromkeys(WHOLE[:3], "8,1K,16K,128K,1M,8M,64M"), **dict.fromkeys(BLOCKS, "8,1K,16K,128K,1M,4M")}

WIDE_SIZES = {"barrier": "8", **dict.fromkeys(WHOLE[:3], "64,4K,64K,512K,2M,16M"), **dict.fromkeys(BLOCKS, "64,512,4K,64K,512K,2M")}


def simulate(simulator, collective, layout, sizes, rate, root, path):
    """Ratios of the chosen one's time to the best one's: by size, the two names and the ratio."""
    hosts, each, cores = layout
    subprocess.run([simulator, collective, "--ranks", str(hosts * each), "--per-host", str(each), "--cores", str(cores), "--bytes", sizes,
                    "--algo", "all", "--passes", PASSES, "--costs", ROOT / "docs/study/cluster.costs", "--bandwidth", rate, "--root", str(root), "--csv", path],
                   stdout=subprocess.DEVNULL, check=True)
    times, chosen = {}, {}
    for row in csv.DictReader(pathlib.Path(path).open()):
        if not row["time_ps"]:
            continue
        times.setdefault(int(row["bytes"]), {})[row["algorithm"]] = int(row["time_ps"])
        if row["auto"] == "1":
            chosen[int(row["bytes"])] = row["algorithm"]
    for size, of in times.items():
        best = min(of, key=of.get)
        yield size, chosen[size], best, of[chosen[size]] / of[best]


YARDSTICK = {"barrier": "8", **dict.fromkeys(WHOLE[:3], "8,1K,32K,256K,1M,8M,32M,256M"), **dict.fromkeys(BLOCKS, "8,256,1K,8K,64K,256K")}
EACH = 8  # ranks of a host


def yardstick(collective, ranks, size):
    """T in picoseconds: few hops and few bytes at once. Memory counts where the buffers of a host exceed its caches."""
    costs = dict(line.split() for line in (ROOT / "docs/study/cluster.costs").read_text().splitlines() if line[:1] not in ("#", ""))
    hosts = ranks // EACH
    far = ranks - EACH
    buffers, link, touched = {
        "barrier": (0, 0, 0),
        **dict.fromkeys(["broadcast", "reduce"], (EACH + 1, 1, EACH + 1)),
        "all_reduce": (2 * EACH, 2 * (hosts - 1) / hosts, 2 * EACH),
        **dict.fromkeys(["all_gather", "reduce_scatter"], (ranks * EACH, far, ranks * EACH)),
        **dict.fromkeys(["gather", "scatter"], (0, far, 0)),
        "all_to_all": (2 * ranks * EACH, EACH * far, 2 * ranks * EACH),
    }[collective]
    memory = touched * int(costs["memory_kib"]) if size * buffers > int(costs["cache_bytes"]) else 0
    return math.log2(hosts) * int(costs["tcp.latency"]) + size / 1024 * max(link * int(costs["tcp.wire_kib"]), memory)


def print_by_yardstick(simulator, collective, ranks, path):
    subprocess.run([simulator, collective, "--ranks", str(ranks), "--per-host", str(EACH), "--bytes", YARDSTICK[collective], "--algo",
                    "auto", "--passes", YARDSTICK_PASSES, "--costs", ROOT / "docs/study/cluster.costs", "--csv", path],
                   stdout=subprocess.DEVNULL, check=True)
    print(f"{collective:15} {ranks:6} ranks", end="")
    for row in csv.DictReader(pathlib.Path(path).open()):
        size = int(row["bytes"])
        by = f"{int(row['time_ps']) / yardstick(collective, ranks, size):.2f}" if row["time_ps"] else "-"
        print(f"  {size}: {by} {row['algorithm']}", end="")
    print(flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--simulator", default=ROOT / "build/release/tools/tutti-sim")
    parser.add_argument("--wide", action="store_true")
    parser.add_argument("--rates", default=",".join(RATES), metavar="RATE,...")
    parser.add_argument("--above", type=float, metavar="RATIO")
    parser.add_argument("--most", type=float, metavar="RATIO")
    parser.add_argument("--yardstick", action="store_true")
    parser.add_argument("--ranks", default="64,1024", metavar="N,...")
    parser.add_argument("collectives", nargs="*", metavar="COLLECTIVE")
    options = parser.parse_args()
    if not set(options.collectives) <= set(SIZES):
        parser.error(f"the collectives are {', '.join(SIZES)}")
    worst = 0
    with tempfile.TemporaryDirectory() as folder:
        for collective in options.collectives or SIZES:
            if options.yardstick:
                for ranks in options.ranks.split(","):
                    print_by_yardstick(options.simulator, collective, int(ranks), f"{folder}/x.csv")
                continue
            ratios = []
            layouts, sizes = (WIDE_LAYOUTS, WIDE_SIZES) if options.wide else (LAYOUTS, SIZES)
            for hosts, each, cores in layouts:
                roots = [0, hosts * each - 1] if collective in ROOTED else [0]  # a host's first rank, and one that is not
                for rate, root in itertools.product(options.rates.split(","), roots):
                    cells = simulate(options.simulator, collective, (hosts, each, cores), sizes[collective], rate, root, f"{folder}/x.csv")
                    for size, chosen, best, ratio in cells:
                        ratios.append(ratio)
                        if options.above and ratio > options.above:
                            print(f"  {collective}, {hosts} hosts x {each}, {rate}, root {root}, {size} bytes: {chosen}, {ratio:.2f} of {best}")
            within = [sum(ratio <= most for ratio in ratios) / len(ratios) for most in (1.1, 1.3)]
            print(f"{collective:15} {len(ratios):4} cells, {within[0]:6.1%} within 1.1, {within[1]:6.1%} within 1.3, worst {max(ratios):.2f}")
            sys.stdout.flush()
            worst = max(worst, *ratios)
    if options.most and worst > options.most:
        sys.exit(f"choices: {worst:.2f} is more than {options.most}")


if __name__ == "__main__":
    main()
