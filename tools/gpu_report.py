#!/usr/bin/env python3
"""gpu_report.py RESULTS CARD: what tools/gpu-check.sh found as bench/results/gpu-CARD-DATE.json, and as a short table.

RESULTS holds checks.tsv (name, result, seconds, reason) and, as far as it was measured: kernels.json of
device_kernels_bench; ranks-*.json, processes-*.json and latency-*.json of tutti-perf; nccl-*.json of nccl_race; steps.json
and start.json of the benches of these names. What cannot be read is named, and the exit code is 1. Without a card nothing is written to
bench/results.
"""
import datetime
import json
import pathlib
import re
import subprocess
import sys

KERNELS_WANTED = 0.9  # of the card's own copy, from 64 MiB up
FLOOR_WANTED = 0.8  # of the floor's rate: all_reduce of 64 MiB
LATENCY_WANTED = {"stream": 12, "graph": 5}  # us: 8 bytes on 4 ranks
LARGE = 64 << 20


def read_checks(results):
    lines = (results / "checks.tsv").read_text(encoding="utf-8").splitlines() if (results / "checks.tsv").exists() else []
    return [dict(zip(("name", "result", "seconds", "reason"), line.split("\t"))) for line in lines]


def read_json(path, bad):
    """Nothing if there is no such file; a file that is cut short goes to `bad`."""
    if not path.exists():
        return None
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        bad.append(f"{path.name}: {error}")
        return None


def kernels_of(found):
    """{device_copy_GB/s, rows: [{name, GB/s, of_copy, median_us}]}."""
    if found is None:
        return {"device_copy_GB/s": None, "rows": []}
    rows = [{"name": re.sub(r"/(iterations:\d+|manual_time)", "", bench["name"]),
             **{key: bench.get(key) for key in ("GB/s", "of_copy", "median_us")},
             **({"error": bench["error_message"]} if bench.get("error_occurred") else {})}
            for bench in found["benchmarks"]]
    return {"device_copy_GB/s": float(found["context"]["device_copy_GB/s"]), "rows": rows}


def direction_of(result, name):
    """One direction of a row of tutti-perf, short."""
    found = result[name]
    if found is None:
        return None
    times = found["time_us"]
    return {"us": times["avg"], "p50_us": times["p50"], "p99_us": times["p99"], "floor_us": found.get("floor_us"),
            "nwrong": found["nwrong"]}


def run_of(name, found):
    """A run of tutti-perf -g, short."""
    rows = [{"collective": result["collective"], "size": result["size"], "type": result["type"], "redop": result["redop"],
             "algorithm": result["algorithm"], "out_of_place": direction_of(result, "out_of_place"),
             "in_place": direction_of(result, "in_place")} for result in found["results"]]
    return {"run": name, "ranks": found["config"]["ranks"], "ranks_are": found["config"]["ranks_are"],
            "times_by": found["config"]["times_by"], "copy_GB/s": [device["copy_GB/s"] for device in found["devices"]],
            "rows": rows}


def read_runs(results, pattern, bad):
    names = sorted(results.glob(pattern), key=lambda path: [int(word) if word.isdigit() else word
                                                            for word in re.split(r"(\d+)", path.stem)])
    found = [(path.stem, read_json(path, bad)) for path in names]
    return [run_of(name, run) for name, run in found if run is not None]


def read_all(results):
    """(the report without card, date and commit; what could not be read)."""
    bad = []
    report = {"checks": read_checks(results),
              "kernels": kernels_of(read_json(results / "kernels.json", bad)),
              "ranks": read_runs(results, "ranks-*.json", bad) + read_runs(results, "processes-*.json", bad),
              "latency": read_runs(results, "latency-*.json", bad),
              "nccl": [race for race in (read_json(path, bad) for path in sorted(results.glob("nccl-*.json"))) if race],
              "steps": read_json(results / "steps.json", bad),
              "start": read_json(results / "start.json", bad)}
    return report, bad


def kernel_lines(kernels):
    """A line a type: the slowest and the fastest operation at 64 MiB, two sources."""
    if not kernels["rows"]:
        return
    yield f"kernels: the card copies at {kernels['device_copy_GB/s']:.0f} GB/s (read and written); 64 MiB, 2 sources, part of that rate"
    types = {}
    for row in kernels["rows"]:
        found = re.fullmatch(r"(\w+)/(\w+)/67108864/k2", row["name"])
        if found and row["of_copy"]:
            types.setdefault(found[2], []).append((row["of_copy"], found[1]))
    for row in kernels["rows"]:
        if "error" in row:
            yield f"  {row['name']}: {row['error']}"
    for name, values in types.items():
        (low, slow), (high, fast) = min(values), max(values)
        mark = "" if low >= KERNELS_WANTED else f"  below {KERNELS_WANTED}"
        yield f"  {name:12} {low:.3f} ({slow}) to {high:.3f} ({fast}){mark}"


def wrong_in(run):
    """Wrong elements; None: of no row they were counted."""
    counts = [row[way]["nwrong"] for row in run["rows"] for way in ("out_of_place", "in_place") if row[way]]
    counted = [count for count in counts if count is not None]
    return sum(counted) if counted else None


def wrong_text(run):
    wrong = wrong_in(run)
    return "not checked" if wrong is None else "exact" if wrong == 0 else f"{wrong} WRONG elements"


def size_text(size):
    for unit, name in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if size >= unit:
            return f"{size / unit:g} {name}"
    return f"{size} B"


def rank_lines(runs):
    """Of all_reduce a line of times over the floor; of others whether they were exact, and their largest size."""
    if not runs:
        return
    yield "ranks on the card: us out of place (part of the floor's rate: reads and writes of all ranks at the card's copy)"
    for run in runs:
        collectives = sorted({row["collective"] for row in run["rows"]})
        types = {row["type"] for row in run["rows"]}
        name = f"{run['ranks']} {run['ranks_are']}"
        if len(types) > 1:
            yield f"  {name:12} {' '.join(collectives)}: {len(run['rows'])} pairs of type and operation, {wrong_text(run)}"
            continue
        shown = run["rows"] if len(run["rows"]) <= 4 else [run["rows"][0], *run["rows"][3::3]]
        if run["rows"] and run["rows"][-1] not in shown:
            shown.append(run["rows"][-1])
        cells = []
        for row in shown:
            one = row["out_of_place"]
            part = f" ({one['floor_us'] / one['us']:.2f})" if one["floor_us"] else ""
            cells.append(f"{size_text(row['size'])} {one['us']:.4g}{part}")
        yield f"  {name:12} {' '.join(collectives)}, {wrong_text(run)}: " + ", ".join(cells)
        for row in run["rows"]:
            one = row["out_of_place"]
            if row["collective"] == "all_reduce" and row["size"] == LARGE and one["floor_us"] and run["ranks_are"] == "threads":
                if one["floor_us"] / one["us"] < FLOOR_WANTED:
                    yield f"    64 MiB: below {FLOOR_WANTED}"


def latency_lines(runs):
    if not runs:
        return
    yield "8 bytes, all_reduce, us an operation (median of single ones)"
    for run in runs:
        mode = run["run"].rsplit("-", 1)[1]
        one = run["rows"][0]["out_of_place"]
        wanted = LATENCY_WANTED.get(mode) if run["ranks"] == 4 else None
        mark = f"  above {wanted}" if wanted and one["us"] > wanted else ""
        yield f"  {run['ranks']} ranks, {mode:9} {one['us']:8.2f} ({one['p50_us']:.2f}){mark}  {run['times_by']}"


def nccl_lines(races):
    for race in races:
        mps = ", MPS" if race["mps"] else ""
        yield (f"NCCL {race['nccl']} ({race['nccl_transport']}) and Tutti ({race['tutti_transport']}), {race['ranks']} "
               f"{race['ranks_are']}{mps}, {race['collective']}: us of Tutti, of NCCL, ratio")
        if "tutti_left_out" in race:
            yield f"  without Tutti: {race['tutti_left_out']}"
        for row in race["rows"]:
            wrong = "".join(f"  {count} WRONG elements of {name}" for name, count in row["nwrong"].items() if count)
            if "tutti_us" in row:
                yield f"  {size_text(row['size']):8} {row['tutti_us']:10.2f} {row['nccl_us']:10.2f} {row['ratio']:7.3f}{wrong}"
            else:
                yield f"  {size_text(row['size']):8} {'-':>10} {row['nccl_us']:10.2f}{wrong}"


def step_lines(steps):
    if not steps:
        return
    launch = steps["launch"]
    yield f"launch: {launch['stream_us']:.2f} us one after the other on a stream, {launch['graph_us']:.2f} us in a graph"
    for kind, meaning in (("copies", "a copy of 8 bytes"), ("relays", "8 bytes received, stored and sent on")):
        lines = steps[kind]
        yield (f"step: {meaning}: {lines['parameters']['ns_per_step']:.0f} ns (schedule in parameters), "
               f"{lines['table']['ns_per_step']:.0f} ns (in a table)")


def start_lines(start):
    if not start:
        return
    yield f"start: driver {start['driver_ms']:.0f} ms, context {start['context_ms']:.0f} ms"
    for one in start["communicators"]:
        yield (f"  {one['ranks']} ranks: join {one['join_ms']:.1f} ms, first call {one['first_call_ms']:.2f} ms, second "
               f"{one['second_call_ms']:.3f} ms, {one['device_bytes_per_rank'] / (1 << 20):.0f} MiB a rank, leave {one['leave_ms']:.1f} ms")


def lines_of(report):
    """The short table."""
    yield from kernel_lines(report["kernels"])
    yield from rank_lines(report["ranks"])
    yield from latency_lines(report["latency"])
    yield from nccl_lines(report["nccl"])
    yield from step_lines(report["steps"])
    yield from start_lines(report["start"])


def main():
    results, card = pathlib.Path(sys.argv[1]), sys.argv[2]
    report, bad = read_all(results)
    for line in lines_of(report):
        print(line)
    for line in bad:
        print(f"cannot read {line}")
    if not card:
        return 1 if bad else 0
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True).stdout.strip()
    today = datetime.date.today().isoformat()
    name = re.sub(r"[^a-z0-9]+", "-", card.lower().replace("nvidia", "")).strip("-")
    page = pathlib.Path("bench/results") / f"gpu-{name}-{today}.json"
    page.parent.mkdir(exist_ok=True)
    page.write_text(json.dumps({"card": card, "date": today, "commit": commit, **report}, indent=1) + "\n", encoding="utf-8")
    print(f"written: {page}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
