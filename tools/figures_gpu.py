"""The tables of docs/gpu.md, for tools/figures.py: they are made of all records that tools/gpu-check.sh wrote and that
bench/results keeps (gpu-*.json), in the order of their dates and, on one day, of the number at the end of their names.
"""
import json
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
sys.dont_write_bytecode = True
from figures_text import KIB, MIB, ratio_text, size_text, table, us_text, wrapped  # noqa: E402
from gpu_report import FLOOR_WANTED, KERNELS_WANTED, LARGE, LATENCY_WANTED, large_kernels, wrong_in  # noqa: E402

SIZES = (4, 16 * KIB, 256 * KIB, 4 * MIB, 16 * MIB, LARGE, 256 * MIB)  # where fours and sixteens of them were measured
SHARES_FROM = 4 * MIB  # what less takes has little to do with the card's memory
RESULTS = ("passed", "failed", "hung", "skipped")
MANY_STEPS = 512
STEPS = {"copies": "a step that copies 8 bytes", "relays": "a step that receives 8 bytes, stores them and sends them on"}


def number_or_word(part):
    return (0, int(part), "") if part.isdigit() else (1, 0, part)


def records_of(root):
    """(name of the file, record), the earliest first."""
    folder = pathlib.Path(root) / "bench/results"
    records = [(path.name, json.loads(path.read_text(encoding="utf-8"))) for path in folder.glob("gpu-*.json")]
    return sorted(records, key=lambda one: (one[1]["date"], [number_or_word(part) for part in re.split(r"(\d+)", one[0])]))


def median_of(direction):
    """The median of single operations, in us; the mean where the record has no median."""
    return direction["us"] if direction.get("p50_us") is None else direction["p50_us"]


def share_of(direction):
    """The floor's time over the median; None where the floor is not known."""
    return direction["floor_us"] / median_of(direction) if direction.get("floor_us") else None


def cell_of(direction, with_share=True):
    share = share_of(direction) if with_share else None
    return us_text(median_of(direction)) + ("" if share is None else f" ({ratio_text(share)})")


def all_reduces(record):
    """{(ranks, what they are): {size: out of place}}. Of a size that several runs have, the first counts."""
    found = {}
    for run in record["ranks"]:
        name = re.fullmatch(r"(ranks|processes)-\d+(-mps|-sizes|-connections-8)?", run["run"])
        if not name:
            continue
        title = run["ranks_are"] + (", MPS" if name[2] == "-mps" else "")
        for row in run["rows"]:
            if row["collective"] == "all_reduce":
                found.setdefault((run["ranks"], title), {}).setdefault(row["size"], row["out_of_place"])
    return found


def kernels_text(record):
    """The slowest reduction of 64 MiB with two sources, and of how many it is that."""
    parts = [(part, f"{operation} of {kind}") for kind, values in large_kernels(record["kernels"]).items() for part, operation in values]
    return f"{min(parts)[0]:.3f} ({min(parts)[1]}; {len(parts)} kernels)" if parts else ""


def floor_text(record, ranks):
    direction = all_reduces(record).get((ranks, "threads"), {}).get(LARGE)
    share = share_of(direction) if direction else None
    return "" if share is None else ratio_text(share)


def latency_texts(record, mode):
    """A text for each of 2, 4 and 8 ranks; all empty if none was measured."""
    times = {run["ranks"]: us_text(median_of(run["rows"][0]["out_of_place"]))
             for run in record["latency"] if run["run"].endswith("-" + mode) and run["rows"]}
    return "; ".join(times.get(ranks, "-") for ranks in (2, 4, 8)) if times else ""


def start_text(record, key, unit=1):
    return "; ".join(f"{one[key] / unit:.0f}" for one in (record["start"] or {}).get("communicators", ()))


def step_text(record, kind):
    """What a step adds to a schedule of at most 64."""
    line = record["steps"].get(kind, {}).get("parameters")
    return us_text(line["ns_per_step"] / 1000) if line else ""


def long_text(record, kind):
    points = record["steps"].get(kind, {}).get("table", {}).get("points", ())
    return "".join(us_text(point["us"] / MANY_STEPS) for point in points if point["steps"] == MANY_STEPS)


def wrong_text(record):
    counts = [count for count in map(wrong_in, record["ranks"] + record["latency"]) if count is not None]
    return str(sum(counts)) if counts else ""


def goal_rows():
    """(what, goal, function of a record)."""
    yield "the card's own copy, GB/s read and written", "", lambda record: us_text(record["kernels"]["device_copy_GB/s"])
    yield "slowest reduction of 64 MiB, two sources, share of the copy's rate", f"{KERNELS_WANTED}", kernels_text
    for ranks in (2, 4, 8):
        yield f"all_reduce of 64 MiB, {ranks} threads, share of the floor", f"{FLOOR_WANTED}", lambda record, of=ranks: floor_text(record, of)
    for mode, title in (("stream", "on a stream"), ("graph", "in a graph"), ("blocking", "blocking")):
        goal = f"{LATENCY_WANTED[mode]} (4 ranks)" if mode in LATENCY_WANTED else ""
        yield f"all_reduce of 8 bytes, 2; 4; 8 threads, {title}, us", goal, lambda record, mode=mode: latency_texts(record, mode)
    for kind, what in STEPS.items():
        yield f"{what}, in a schedule of 2 to 64 steps, us", "", lambda record, kind=kind: step_text(record, kind)
        yield f"the same in a schedule of {MANY_STEPS} steps, us", "", lambda record, kind=kind: long_text(record, kind)
    for key, title in (("stream_us", "on a stream"), ("graph_us", "in a graph")):
        yield f"a launch, {title}, us", "", lambda record, key=key: us_text(record["steps"].get("launch", {}).get(key))
    yield "a join, 1; 2; 4; 8 threads, ms", "", lambda record: start_text(record, "join_ms")
    yield "device memory of a rank, 1; 2; 4; 8 threads, MiB", "", lambda record: start_text(record, "device_bytes_per_rank", MIB)
    yield "wrong elements", "0", wrong_text


class GpuFigures:
    """Each method named in GPU_NAMED makes the lines of one mark, with columns or rows for each of self.records."""
    GPU_NAMED = ("gpu_records", "gpu_goals", "gpu_all_reduce", "gpu_collectives", "gpu_nccl", "gpu_checks")

    def commits(self):
        return [record["commit"] for _, record in self.records]

    def gpu_records(self):
        for name, record in self.records:
            results = [check["result"] for check in record["checks"]]
            counts = [f"{results.count(result)} {result}" for result in RESULTS if result in results]
            counts += [f"{len(record['not_reached'])} not reached"] if record.get("not_reached") else []
            yield from wrapped(f"* [{record['commit']}](../bench/results/{name}): {record['card']}, {record['date']}, checks: "
                               f"{', '.join(counts)}", "  ")

    def gpu_goals(self):
        rows = [[what, goal] + [make(record) for _, record in self.records] for what, goal, make in goal_rows()]
        yield from table(["", "goal", *self.commits()], [row for row in rows if any(row[2:])])

    def gpu_all_reduce(self):
        found = [(record["commit"], all_reduces(record)) for _, record in self.records]
        sizes = [size for size in SIZES if any(size in cells for _, kinds in found for cells in kinds.values())]
        rows = []
        kinds_of_all = {kind for _, kinds in found for kind in kinds}
        for ranks, title in sorted(kinds_of_all, key=lambda kind: (kind[1] != "threads", kind[1], kind[0])):
            for commit, kinds in found:
                cells = kinds.get((ranks, title), {})
                if cells:
                    texts = [cell_of(cells[size], size >= SHARES_FROM) if size in cells else "" for size in sizes]
                    rows.append([f"{ranks} {title}", commit, *texts])
        yield from table(["ranks", "commit"] + [size_text(size) for size in sizes], rows)

    def gpu_collectives(self):
        """The rows of 16 MiB; collectives whose counts differ by the rank are measured with a few bytes less."""
        found = []
        for _, record in self.records:
            rows = [row for run in record["ranks"] if run["run"].startswith("ranks-4-") for row in run["rows"]]
            found.append({row["collective"]: cell_of(row["out_of_place"]) for row in rows
                          if row["collective"] != "all_reduce" and abs(row["size"] - 16 * MIB) < KIB})
        names = sorted({name for cells in found for name in cells})
        yield from table(["", *self.commits()], [[name] + [cells.get(name, "") for cells in found] for name in names])

    def gpu_nccl(self):
        found = []
        for _, record in self.records:
            found.append({(race["mps"], race["ranks"], row["size"]):
                          [us_text(row["tutti_us"]), us_text(row["nccl_us"]), ratio_text(row["ratio"])]
                          for race in record["nccl"] for row in race["rows"] if "tutti_us" in row})
        rows = []
        for mps, ranks, size in sorted({key for cells in found for key in cells}):
            row = [f"{ranks} processes" + (", MPS" if mps else ""), size_text(size)]
            rows.append(row + [text for cells in found for text in cells.get((mps, ranks, size), ["", "", ""])])
        heads = [f"{record['commit']}: {what}" for _, record in self.records
                 for what in ("Tutti, us", " ".join(["NCCL", *{race["nccl"]: 0 for race in record["nccl"]}]) + ", us", "ratio")]
        yield from table(["ranks", "bytes", *heads], rows)

    def gpu_checks(self):
        """All that did not pass; reasons as the programs wrote them."""
        rows = []
        for _, record in self.records:
            for check in record["checks"]:
                if check["result"] != "passed":
                    reason = check["reason"].strip().replace("|", r"\|")
                    rows.append([record["commit"], f"`{check['name']}`", check["result"], f"`{reason}`" if reason else ""])
            if record.get("not_reached"):
                rows.append([record["commit"], ", ".join(f"`{name}`" for name in record["not_reached"]), "not reached", ""])
        yield from table(["commit", "check", "result", "reason"], rows)
