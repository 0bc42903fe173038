#!/usr/bin/env python3
"""How near to the best algorithm the chosen one is between hosts, by the simulator:
  tools/choices.py [--simulator PROGRAM] [--above RATIO] [--most RATIO] [COLLECTIVE...]      a minute, without arguments
Networks of 1, 10, 100 and 400 Gbit/s with the other costs of docs/study/cluster.costs, 2 to 32 ranks on 2 to 16 hosts, 8 bytes
to 64 MiB (4 MiB where there is a block a rank). A line for each collective: cells, the share of them in which the chosen
algorithm takes at most 1.1 and 1.3 times as long as the best one, and the worst. --above: names the cells that are worse.
--most: exit code 1 if there is one that is worse."""
import argparse
import csv
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
RATES = ["1gbit", "10gbit", "100gbit", "400gbit"]
LAYOUTS = [(2, 1), (3, 1), (4, 1), (8, 1), (16, 1), (2, 2), (2, 8), (3, 4), (4, 8), (8, 4)]  # hosts, ranks of each
WHOLE = ["all_reduce", "broadcast", "reduce", "barrier"]
BLOCKS = ["all_gather", "reduce_scatter", "all_to_all", "gather", "scatter"]
SIZES = {"barrier": "8", **dict.fromkeys(WHOLE[:3], "8,1K,16K,128K,1M,8M,64M"), **dict.fromkeys(BLOCKS, "8,1K,16K,128K,1M,4M")}


def simulate(simulator, collective, hosts, each, rate, path):
    """Ratios of the chosen one's time to the best one's: by size, the two names and the ratio."""
    subprocess.run([simulator, collective, "--ranks", str(hosts * each), "--per-host", str(each), "--bytes", SIZES[collective],
                    "--algo", "all", "--costs", ROOT / "docs/study/cluster.costs", "--bandwidth", rate, "--csv", path],
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


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--simulator", default=ROOT / "build/release/tools/tutti-sim")
    parser.add_argument("--above", type=float, metavar="RATIO")
    parser.add_argument("--most", type=float, metavar="RATIO")
    parser.add_argument("collectives", nargs="*", metavar="COLLECTIVE")
    options = parser.parse_args()
    if not set(options.collectives) <= set(SIZES):
        parser.error(f"the collectives are {', '.join(SIZES)}")
    worst = 0
    with tempfile.TemporaryDirectory() as folder:
        for collective in options.collectives or SIZES:
            ratios = []
            for hosts, each in LAYOUTS:
                for rate in RATES:
                    for size, chosen, best, ratio in simulate(options.simulator, collective, hosts, each, rate, f"{folder}/x.csv"):
                        ratios.append(ratio)
                        if options.above and ratio > options.above:
                            print(f"  {collective}, {hosts} hosts x {each}, {rate}, {size} bytes: {chosen}, {ratio:.2f} of {best}")
            within = [sum(ratio <= most for ratio in ratios) / len(ratios) for most in (1.1, 1.3)]
            print(f"{collective:15} {len(ratios):4} cells, {within[0]:6.1%} within 1.1, {within[1]:6.1%} within 1.3, worst {max(ratios):.2f}")
            sys.stdout.flush()
            worst = max(worst, *ratios)
    if options.most and worst > options.most:
        sys.exit(f"choices: {worst:.2f} is more than {options.most}")


if __name__ == "__main__":
    main()
