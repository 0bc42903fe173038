#!/usr/bin/env python3
"""gpu_report.py RESULTS CARD: what tools/gpu-check.sh found as bench/results/gpu-CARD-DATE.json, and as a short table.

RESULTS holds checks.tsv (name, result, seconds, reason) and, if it was measured, kernels.json of device_kernels_bench.
Without a card nothing is written to bench/results.
"""
import datetime
import json
import pathlib
import re
import subprocess
import sys

WANTED = 0.9  # of the card's own copy, from 64 MiB up


def read_checks(results):
    lines = (results / "checks.tsv").read_text(encoding="utf-8").splitlines() if (results / "checks.tsv").exists() else []
    return [dict(zip(("name", "result", "seconds", "reason"), line.split("\t"))) for line in lines]


def read_kernels(results):
    """(card's copy in GB/s, [{name, GB/s, of_copy, median_us}])."""
    if not (results / "kernels.json").exists():
        return None, []
    found = json.loads((results / "kernels.json").read_text(encoding="utf-8"))
    rows = [{"name": re.sub(r"/(iterations:\d+|manual_time)", "", bench["name"]),
             **{key: bench.get(key) for key in ("GB/s", "of_copy", "median_us")},
             **({"error": bench["error_message"]} if bench.get("error_occurred") else {})}
            for bench in found["benchmarks"]]
    return float(found["context"]["device_copy_GB/s"]), rows


def print_kernels(copy_rate, rows):
    """A line a type: the slowest and the fastest operation at 64 MiB, two sources."""
    print(f"kernels: the card copies at {copy_rate:.0f} GB/s (read and written); 64 MiB, 2 sources, part of that rate")
    types = {}
    for row in rows:
        found = re.fullmatch(r"(\w+)/(\w+)/67108864/k2", row["name"])
        if found and row["of_copy"]:
            types.setdefault(found[2], []).append((row["of_copy"], found[1]))
    for name, values in types.items():
        (low, slow), (high, fast) = min(values), max(values)
        mark = "" if low >= WANTED else f"  below {WANTED}"
        print(f"  {name:12} {low:.3f} ({slow}) to {high:.3f} ({fast}){mark}")


def main():
    results, card = pathlib.Path(sys.argv[1]), sys.argv[2]
    checks = read_checks(results)
    copy_rate, rows = read_kernels(results)
    if rows:
        print_kernels(copy_rate, rows)
    if not card:
        return 0
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True).stdout.strip()
    today = datetime.date.today().isoformat()
    name = re.sub(r"[^a-z0-9]+", "-", card.lower().replace("nvidia", "")).strip("-")
    page = pathlib.Path("bench/results") / f"gpu-{name}-{today}.json"
    page.parent.mkdir(exist_ok=True)
    report = {"card": card, "date": today, "commit": commit, "checks": checks,
              "kernels": {"device_copy_GB/s": copy_rate, "rows": rows}}
    page.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    print(f"written: {page}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
