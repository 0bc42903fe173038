#!/usr/bin/env python3
"""The simulator against measurement: the same calls by tutti-perf and by tutti-sim, and how far they are apart.

  sim_check.py shm   [--ranks 2,4,8]            ranks of this machine over shared memory
  sim_check.py tcp   [--ranks 2,4]              over loopback
  sim_check.py sweep FILE...                    what tutti-perf --sweep -J FILE wrote, of any transport on one machine
  sim_check.py hosts [--hosts 2,3,4,8] [--rate 1gbit]    network namespaces with limited links (needs root)

Each line: measured and predicted time of a call in a loop, and predicted / measured. At the end the median of the
errors |ratio - 1|, and how many are within 15 and 30 %. Nothing else should run: with other load give
--prefix "chrt -r 20".
"""
import argparse
import csv
import json
import os
import pathlib
import re
import shlex
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
ALGORITHMS = {
    "all_reduce": ("all_pairs", "all_pairs_two_shot", "recursive_doubling", "ring", "halving_doubling"),
    "reduce_scatter": ("all_pairs", "ring", "pairwise", "recursive_halving"),
    "all_gather": ("all_pairs", "ring", "bruck"),
    "all_to_all": ("all_pairs", "pairwise", "bruck"),
}
TCP_SHARE = 0.956  # of a link's raw rate: headers of TCP, IP and Ethernet with packets of 1500 bytes
BURST = "70kb"  # a limited link that was idle carries so much at once; the simulator's links save up nothing


def block_of(collective, size, ranks):
    """tutti-perf counts all blocks of a rank's larger buffer, tutti-sim one."""
    return size if collective == "all_reduce" else size // ranks


def measure(options, collective, algorithm, ranks):
    """{bytes of a block: seconds}; the median of several runs' medians."""
    times = {}
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "perf.json")
        command = [options.perf, collective, "--algo", algorithm, "-b", options.least, "-e", options.most, "-f", "8", "-c", "0",
                   "-n", str(options.iterations), "-J", str(path)]
        if options.where == "hosts":
            command = [sys.executable, str(ROOT / "tools" / "hosts.py"), "run", "-H", str(ranks), "-n", "1", "-r", options.rate, "--burst", BURST, "--"] + command
        else:
            command += ["--ranks", str(ranks), "--transport", options.where]
        for _ in range(options.runs):
            path.unlink(missing_ok=True)
            run = subprocess.run(shlex.split(options.prefix) + command, capture_output=True, text=True, timeout=300,
                                 env={**os.environ, "TUTTI_LOG": "error"})
            if run.returncode != 0:
                raise SystemExit(f"{shlex.join(command)}: {run.stderr}")
            for row in json.loads(path.read_text())["results"]:
                if row["algorithm"] != algorithm:
                    continue  # not offered for this number of ranks
                block = block_of(collective, row["size"], ranks)
                times.setdefault(block, []).append(row["out_of_place"]["time_us"][options.statistic] * 1e-6)
    return {block: statistics.median(values) for block, values in times.items()}


def predict(options, collective, algorithm, ranks, blocks):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "sim.csv")
        command = [options.sim, collective, "--ranks", str(ranks), "--algo", algorithm, "--loop", "--csv", str(path),
                   "--bytes", ",".join(str(block) for block in blocks)]
        if options.where == "hosts":
            number, unit = re.fullmatch(r"([\d.]+)(\w+)", options.rate).groups()
            command += ["--per-host", "1", "--one-kernel", "--bandwidth", f"{float(number) * TCP_SHARE:g}{unit}"]
        else:
            command += ["--transport", options.where]
        if options.costs:
            command += ["--costs", options.costs]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        with path.open(encoding="utf-8") as file:
            return {int(row["bytes"]): int(row["time_ps"]) * 1e-12 for row in csv.DictReader(file)}


def text_of(seconds):
    return f"{seconds * 1e6:.4g}"


def predict_cell(options, cell, ranks, folder):
    """{algorithm: seconds} of one row of a sweep."""
    path = pathlib.Path(folder, "sim.csv")
    block = 0 if cell["collective"] == "barrier" else cell["count"] * cell["element_bytes"]
    command = [options.sim, cell["collective"], "--ranks", str(ranks), "--loop", "--csv", str(path), "--bytes", str(block),
               "--transport", cell["transport"], "--root", str(max(cell["root"], 0))]
    subprocess.run(command + (["--costs", options.costs] if options.costs else []), check=True, stdout=subprocess.DEVNULL)
    with path.open(encoding="utf-8") as file:
        return block, {row["algorithm"]: int(row["time_ps"]) * 1e-12 for row in csv.DictReader(file)}


def check_sweeps(options):
    errors = []
    with tempfile.TemporaryDirectory() as folder:
        for name in options.files:
            sweep = json.loads(pathlib.Path(name).read_text(encoding="utf-8"))
            ranks = sweep["config"]["ranks"]
            for cell in sweep["sweep"]:
                if cell["collective"].endswith("_v"):
                    continue
                block, predicted = predict_cell(options, cell, ranks, folder)
                for algorithm, measured in cell["time_us"].items():
                    if measured > 0 and algorithm in predicted:
                        errors.append((abs(predicted[algorithm] / measured * 1e6 - 1), ranks, block))
    return errors


def check(options):
    errors = []
    print(f"{'collective':<15} {'algorithm':<19} {'ranks':>5} {'bytes':>9} {'measured us':>12} {'predicted us':>13} {'ratio':>6}")
    for collective in options.collectives.split(","):
        for algorithm in ALGORITHMS[collective]:
            for ranks in (int(word) for word in options.ranks.split(",")):
                measured = measure(options, collective, algorithm, ranks)
                if not measured:
                    continue
                predicted = predict(options, collective, algorithm, ranks, sorted(measured))
                for block in sorted(measured):
                    ratio = predicted[block] / measured[block]
                    errors.append((abs(ratio - 1), ranks, block))
                    print(f"{collective:<15} {algorithm:<19} {ranks:>5} {block:>9} {text_of(measured[block]):>12} "
                          f"{text_of(predicted[block]):>13} {ratio:>6.2f}", flush=True)
    return errors


def tell(name, errors):
    if errors:
        within = [100 * sum(error <= limit for error in errors) // len(errors) for limit in (0.15, 0.30)]
        print(f"{name}: {len(errors)} calls, median error {100 * statistics.median(errors):.1f} %, "
              f"{within[0]} % within 15 %, {within[1]} % within 30 %")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("where", choices=("shm", "tcp", "hosts", "sweep"))
    parser.add_argument("files", nargs="*", help="of sweep")
    parser.add_argument("--ranks", "--hosts", dest="ranks", default="")
    parser.add_argument("--rate", default="1gbit", help="of a link, each way (default 1gbit)")
    parser.add_argument("--collectives", default="all_reduce", help=f"a list of {', '.join(ALGORITHMS)} (default all_reduce)")
    parser.add_argument("-b", dest="least", default="", help="smallest size")
    parser.add_argument("-e", dest="most", default="16M", help="largest size (default 16M)")
    parser.add_argument("--iterations", type=int, default=0, help="calls a size (default: what fits 0.1 s, at least 5)")
    parser.add_argument("--runs", type=int, default=3, help="runs, of which the median counts (default 3)")
    parser.add_argument("--statistic", default="p50", choices=("p50", "avg", "min"), help="of a run's calls (default p50)")
    parser.add_argument("--prefix", default="", help="a command in front of tutti-perf")
    parser.add_argument("--costs", default="", help="file of costs for tutti-sim (default: the built-in ones)")
    parser.add_argument("--perf", default=str(ROOT / "build/release/tools/tutti-perf"))
    parser.add_argument("--sim", default=str(ROOT / "build/release/tools/tutti-sim"))
    options = parser.parse_args()
    options.ranks = options.ranks or ("2,3,4,8" if options.where == "hosts" else "2,4,8")
    options.least = options.least or ("4K" if options.where == "hosts" else "8")
    errors = check_sweeps(options) if options.where == "sweep" else check(options)
    for ranks in sorted({ranks for _, ranks, _ in errors}):
        tell(f"{ranks} {'hosts' if options.where == 'hosts' else 'ranks'}", [e for e, n, _ in errors if n == ranks])
    for low, high, name in ((0, 32 << 10, "below 32 KiB"), (32 << 10, 1 << 60, "from 32 KiB up")):
        tell(name, [e for e, _, block in errors if low <= block < high])
    tell("all", [e for e, _, _ in errors])


if __name__ == "__main__":
    main()
