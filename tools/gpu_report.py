#!/usr/bin/env python3
"""gpu_report.py RESULTS CARD ORDER: what tools/gpu-check.sh found, as RESULTS/gpu-CARD-DATE.json and as the table that it prints
and leaves in RESULTS/report.txt.

RESULTS holds checks.tsv (the commit, then name, result, seconds and reason; the last line of a name counts) and numbers.jsonl:
{"check": NAME, "found": JSON} of tutti-perf, nccl_race, device_kernels_bench (bandwidth*), device_steps_bench (steps-*) and
device_start_bench (start), {"check": NAME, "facts": LINES} of gpu_facts. ORDER names all checks, a line each, those that have not
been reached among them. What cannot be read or shown is named and costs nothing else. The exit code is 1 if that happened, if a
check failed or hung. Without a card no record is written.
"""
import datetime
import json
import pathlib
import re
import sys

KERNELS_WANTED = 0.9  # of the card's own copy, from 64 MiB up
FLOOR_WANTED = 0.8  # of the floor's rate: all_reduce of 64 MiB
LATENCY_WANTED = {"stream": 12, "graph": 5}  # us: 8 bytes on 4 ranks
LARGE = 64 << 20


def read_lines(path):
    return path.read_text(encoding="utf-8", errors="replace").splitlines() if path.exists() else []


def read_checks(results):
    """(commit, {name: {name, result, seconds, reason}})."""
    lines = read_lines(results / "checks.tsv")
    commits = [line.removeprefix("# commit ") for line in lines if line.startswith("# commit ")]
    rows = [dict(zip(("name", "result", "seconds", "reason"), line.split("\t"))) for line in lines if line and not line.startswith("#")]
    return commits[0] if commits else "unknown", {row["name"]: row for row in rows}


def mended(text):
    """What is whole of a JSON of Google Benchmark that ends in the middle of its list; None if that is nothing."""
    at = len(text)
    for _ in range(20):
        at = text.rfind("}", 0, at)
        if at < 0:
            return None
        try:
            return json.loads(text[:at + 1] + "]}")
        except ValueError:
            continue
    return None


def read_numbers(results, bad):
    """{name of a check: what it measured}; the last of a name counts. What cannot be read goes to `bad`."""
    numbers = {}
    for line in read_lines(results / "numbers.jsonl"):
        parts = re.match(r'\{"check": "([\w-]+)", "(?:found|facts)": (.*)\}$', line)
        if not parts:
            bad.append(f"a line of numbers.jsonl: {line[:60]}")
            continue
        try:
            found = json.loads(parts[2])
        except ValueError as error:
            found = mended(parts[2])
            if found is None or not parts[1].startswith("bandwidth"):
                bad.append(f"the numbers of {parts[1]}: {error}")
                continue
        numbers[parts[1]] = found
    return numbers


def facts_of(numbers):
    """{connections: {kind: {name: value}}}."""
    facts = {}
    for check, lines in numbers.items():
        if not check.startswith("facts-"):
            continue
        kinds = facts.setdefault(check.removeprefix("facts-"), {})
        for line in lines:
            if line.count("\t") == 2:
                kind, name, value = line.split("\t")
                kinds.setdefault(kind, {})[name] = value
    return facts


def kernels_of(runs):
    """{device_copy_GB/s, rows: [{name, GB/s, of_copy, median_us}]} of all runs, the later ones' rows before earlier ones'."""
    rows, copies = {}, None
    for found in runs:
        copies = float(found["context"]["device_copy_GB/s"])
        for bench in found["benchmarks"]:
            name = re.sub(r"/(iterations:\d+|manual_time)", "", bench["name"])
            rows[name] = {"name": name, **{key: bench.get(key) for key in ("GB/s", "of_copy", "median_us")},
                          **({"error": bench["error_message"]} if bench.get("error_occurred") else {})}
    return {"device_copy_GB/s": copies, "rows": list(rows.values())}


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
            "incomplete": found.get("incomplete", False), "rows": rows}


def guarded(name, bad, make, default):
    """make(), or the default if what was measured has another form than expected."""
    try:
        return make()
    except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
        bad.append(f"{name}: {type(error).__name__} {error}")
        return default


def runs_of(numbers, begins, bad):
    """Runs of tutti-perf of the checks whose names begin so, by the number of ranks."""
    chosen = sorted((name for name in numbers if name.startswith(begins)),
                    key=lambda name: [int(word) if word.isdigit() else word for word in re.split(r"(\d+)", name)])
    runs = [guarded(f"the numbers of {name}", bad, lambda name=name: run_of(name, numbers[name]), None) for name in chosen]
    return [run for run in runs if run]


def read_all(results):
    """(the report without card and date; what could not be read)."""
    bad = []
    commit, checks = read_checks(results)
    numbers = read_numbers(results, bad)
    steps = {}
    for name in sorted(numbers):
        if name.startswith("steps-"):
            steps.update(numbers[name])
    bandwidths = [numbers[name] for name in ("bandwidth-first", "bandwidth") if name in numbers]
    report = {"commit": commit, "checks": list(checks.values()),
              "facts": guarded("facts", bad, lambda: facts_of(numbers), {}),
              "kernels": guarded("bandwidth", bad, lambda: kernels_of(bandwidths), {"device_copy_GB/s": None, "rows": []}),
              "ranks": runs_of(numbers, ("ranks-", "types", "processes-"), bad),
              "latency": runs_of(numbers, ("latency-",), bad),
              "nccl": [numbers[name] for name in sorted(numbers) if name.startswith("nccl-")],
              "steps": steps, "start": numbers.get("start")}
    return report, bad


def check_lines(report, order):
    """A line for each check: passed, failed, hung, skipped or not reached, its seconds and why."""
    done = {check["name"]: check for check in report["checks"]}
    names = order + [name for name in done if name not in order]
    counts = dict.fromkeys(("passed", "failed", "hung", "skipped", "not reached"), 0)
    for name in names:
        check = done.get(name, {"result": "not reached"})
        counts[check["result"]] = counts.get(check["result"], 0) + 1
        yield f"{name:28} {check['result']:12} {check.get('seconds', ''):>4}  {check.get('reason', '')}".rstrip()
    yield ", ".join(f"{count} {result}" for result, count in counts.items())
    if counts["not reached"]:
        yield "What has not been reached runs in the next call."


def fact_lines(facts):
    """What the driver does, a column for each CUDA_DEVICE_MAX_CONNECTIONS. Of the calls beside a kernel only those that wait."""
    if not facts:
        return
    columns = list(facts)
    yield "the driver, with CUDA_DEVICE_MAX_CONNECTIONS " + " | ".join(columns)
    names = {(kind, name): None for kinds in facts.values() for kind, values in kinds.items() for name in values}
    for kind, name in names:
        values = [facts[column].get(kind, {}).get(name, "not found") for column in columns]
        if kind == "beside":
            values = [value.split(",")[0] for value in values]
            if all(value == "returns" for value in values):
                continue
        yield f"  {kind:7} {name}: " + (values[0] if len(set(values)) == 1 else " | ".join(values))
    returning = {name for kind, name in names if kind == "beside"
                 and all(kinds.get(kind, {}).get(name, "").startswith("returns") for kinds in facts.values())}
    yield f"  beside  {len(returning)} other calls return while a kernel spins"


def large_kernels(kernels):
    """{type: [(part of the copy's rate, operation)]} at 64 MiB with two sources."""
    types = {}
    for row in kernels["rows"]:
        found = re.fullmatch(r"(\w+)/(\w+)/67108864/k2", row["name"])
        if found and row["of_copy"]:
            types.setdefault(found[2], []).append((row["of_copy"], found[1]))
    return types


def kernel_lines(kernels):
    """A line a type: the slowest and the fastest operation at 64 MiB, two sources."""
    if not kernels["rows"]:
        return
    yield f"kernels: the card copies at {kernels['device_copy_GB/s']:.0f} GB/s (read and written); 64 MiB, 2 sources, part of that rate"
    for row in kernels["rows"]:
        if "error" in row:
            yield f"  {row['name']}: {row['error']}"
    for name, values in large_kernels(kernels).items():
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


def cell_of(row):
    one = row["out_of_place"]
    part = f" ({one['floor_us'] / one['us']:.2f})" if one["floor_us"] else ""
    return f"{size_text(row['size'])} {one['us']:.4g}{part}"


def rank_lines(runs):
    """Of all_reduce a line of times over the floor; of others whether they were exact, and their largest size."""
    if not runs:
        return
    yield "ranks on the card: us out of place (part of the floor's rate: reads and writes of all ranks at the card's copy)"
    for run in runs:
        collectives = " ".join(sorted({row["collective"] for row in run["rows"]}))
        types = {row["type"] for row in run["rows"]}
        name = f"{run['ranks']} {run['ranks_are']}"
        if run["incomplete"]:
            name += ", cut short"
        if len(types) > 1:
            yield f"  {name:12} {collectives}: {len(run['rows'])} pairs of type and operation, {wrong_text(run)}"
            continue
        shown = run["rows"] if len(run["rows"]) <= 4 else [run["rows"][0], *run["rows"][3::3]]
        if run["rows"] and run["rows"][-1] not in shown:
            shown.append(run["rows"][-1])
        yield f"  {name:12} {collectives}, {wrong_text(run)}: " + ", ".join(cell_of(row) for row in shown)


def latency_lines(runs):
    if not runs:
        return
    yield "8 bytes, all_reduce, us an operation (median of single ones)"
    for run in runs:
        for row in run["rows"][:1]:
            one = row["out_of_place"]
            yield f"  {run['ranks']} ranks, {run['run'].rsplit('-', 1)[1]:9} {one['us']:8.2f} ({one['p50_us']:.2f})  {run['times_by']}"


def goal_of(name, better, numbers, wanted):
    """A line for a goal: met, missed or not measured; `numbers` are pairs of a name and a number."""
    if not numbers:
        return f"  not measured  {name}"
    bad = [f"{what} {number:.3g}" for what, number in numbers if not better(number, wanted)]
    shown = bad or [f"{what} {number:.3g}" for what, number in numbers[:4]]
    return f"  {'missed' if bad else 'met':13} {name}: " + ", ".join(shown[:8]) + (f" and {len(shown) - 8} more" if len(shown) > 8 else "")


def goal_lines(report):
    yield "goals"
    at_least, at_most = (lambda number, wanted: number >= wanted), (lambda number, wanted: number <= wanted)
    kernels = [(f"{kind} {operation}", part) for kind, values in large_kernels(report["kernels"]).items() for part, operation in values]
    yield goal_of(f"kernels at 64 MiB, part of the card's copy, at least {KERNELS_WANTED}", at_least, kernels, KERNELS_WANTED)
    floors = {f"{run['ranks']} ranks": row["out_of_place"]["floor_us"] / row["out_of_place"]["us"]
              for run in report["ranks"] for row in run["rows"]
              if row["collective"] == "all_reduce" and row["size"] == LARGE and row["out_of_place"]["floor_us"] and run["ranks_are"] == "threads"}
    yield goal_of(f"all_reduce of 64 MiB, part of the floor's rate, at least {FLOOR_WANTED}", at_least, list(floors.items()), FLOOR_WANTED)
    for mode, wanted in LATENCY_WANTED.items():
        times = [(mode, row["out_of_place"]["us"]) for run in report["latency"] for row in run["rows"][:1]
                 if run["ranks"] == 4 and run["run"].endswith("-" + mode)]
        yield goal_of(f"8 bytes on 4 ranks, {mode}, us, at most {wanted}", at_most, times, wanted)
    wrong = [(run["run"], wrong_in(run)) for run in report["ranks"] + report["latency"] if wrong_in(run) is not None]
    yield goal_of("wrong elements, none", at_most, wrong, 0)


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
    if "launch" in steps:
        launch = steps["launch"]
        yield f"launch: {launch['stream_us']:.2f} us one after the other on a stream, {launch['graph_us']:.2f} us in a graph"
    for kind, meaning in (("copies", "a copy of 8 bytes"), ("relays", "8 bytes received, stored and sent on")):
        if kind in steps:
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


SECTIONS = (("facts", fact_lines), ("kernels", kernel_lines), ("ranks", rank_lines), ("latency", latency_lines), ("nccl", nccl_lines),
            ("steps", step_lines), ("start", start_lines))


def lines_of(report, order, bad):
    """The table: checks, what was measured, the goals. A section that cannot be shown goes to `bad`."""
    lines = guarded("the table of checks", bad, lambda: list(check_lines(report, order)), [])
    for name, show in SECTIONS:
        lines += guarded(f"the section {name}", bad, lambda name=name, show=show: list(show(report[name])), [])
    return lines + guarded("the goals", bad, lambda: list(goal_lines(report)), [])


def write_record(results, card, report):
    today = datetime.date.today().isoformat()
    name = re.sub(r"[^a-z0-9]+", "-", card.lower().replace("nvidia", "")).strip("-")
    for earlier in results.glob("gpu-*.json"):
        earlier.unlink()
    page = results / f"gpu-{name}-{today}.json"
    page.write_text(json.dumps({"card": card, "date": today, **report}, indent=1) + "\n", encoding="utf-8")
    return page


def main():
    results, card, order = pathlib.Path(sys.argv[1]), sys.argv[2], pathlib.Path(sys.argv[3])
    report, bad = read_all(results)
    names, done = [line.split("\t")[0] for line in read_lines(order)], {check["name"] for check in report["checks"]}
    report["not_reached"] = [name for name in names if name not in done]
    lines = lines_of(report, names, bad)
    lines += [f"cannot read {line}" for line in bad]
    print("\n".join(lines))
    (results / "report.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    if card:
        print(f"written: {write_record(results, card, report)}")
    return 1 if bad or any(check["result"] in ("failed", "hung") for check in report["checks"]) else 0


if __name__ == "__main__":
    sys.exit(main())
