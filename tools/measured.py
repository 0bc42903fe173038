#!/usr/bin/env python3
"""What was measured: docs/measured has a file for each question, and in it a run for each command.

measured.py join OUT COMMAND FILE [COMMAND FILE]...: makes such a file of what the commands wrote as JSON.

A file is {"date", "machine", "commit", "runs": [{"command", and what the program wrote}]}, with a line for each row, so that
changes can be read. Programs write host names and fifteen digits, which are left out.
"""
import dataclasses
import datetime
import json
import pathlib
import platform
import statistics
import subprocess
import sys

FLOOR = "floor"  # the memory alone, which is no library
FEW_PAIRS = 4  # a median of fewer pairs says little


@dataclasses.dataclass(frozen=True)
class Cell:
    """What was compared, at one size and with the cores in one state. A barrier has no size."""
    where: str  # memory, tcp (both on one host) or hosts
    collective: str
    ranks: int
    against: str  # openmpi, mpich, ucc, gloo, gloo_batch, floor
    size: int
    state: str = ""  # of the cores: near, far; "": not told
    hosts: int = 1
    gigabits: float = 0  # what a link between hosts is limited to; 0: nothing


@dataclasses.dataclass(frozen=True)
class Sample:
    """What one run measured of a cell. The ratio is Tutti's time over the other's."""
    ratio: float
    tutti_us: float = None
    other_us: float = None
    pairs: int = None  # None: not told


def load(path):
    """The runs of a file; none where there is no such file."""
    return json.loads(path.read_text(encoding="utf-8"))["runs"] if path.is_file() else []


def samples_of(run):
    """(cell, sample) of each comparison of a run of tutti-perf --compare, bench/race.sh or bench/hosts_race.sh."""
    for row in run.get("results", ()):
        if "comparison" in run:
            for name, peer in row.get("peers", {}).items():
                cell = Cell("memory", run["comparison"], run["ranks"], name, row["size"], row["state"])
                yield cell, Sample(peer["ratio"], row["time_us"], peer["time_us"], peer["pairs"])
        elif "hosts" in run:
            for name, peer in row.get("peers", {}).items():
                collective = "all_reduce" if row["size"] else "barrier"
                cell = Cell("hosts", collective, run["ranks"], name, row["size"], "", run["hosts"], run["raw_gigabits"])
                yield cell, Sample(peer["ratio"], row.get("tutti_us"), peer.get("time_us"))
        elif "other" in run and row["state"] not in ("mixed", "disturbed"):
            against = FLOOR if run["other"] == "the memory alone" else "openmpi"
            where = "tcp" if run.get("transport") == "tcp" else "memory"
            size = 0 if run["collective"] == "barrier" else row["size"]
            name = run["collective"] + (" in place" if run["in_place"] else "") + (" isolated" if run.get("isolated") else "")
            cell = Cell(where, name, run["ranks"], against, size, row["state"])
            yield cell, Sample(row["ratio"], row.get("tutti_us"), row.get("other_us"), row.get("pairs"))


def is_of_few(sample):
    return sample.pairs is not None and sample.pairs < FEW_PAIRS


def that_count(samples):
    """Those that rest on enough pairs; if there are none, all."""
    return [sample for sample in samples if not is_of_few(sample)] or samples


def cells_of(runs):
    """{cell: samples that count} of all runs."""
    found = {}
    for run in runs:
        for cell, sample in samples_of(run):
            found.setdefault(cell, []).append(sample)
    for cell, samples in found.items():
        found[cell] = that_count(samples)
    return found


def middle(samples):
    return statistics.median(sample.ratio for sample in samples)


def rounded(value):
    """Four digits are more than any of it is worth."""
    if isinstance(value, dict):
        return {key: rounded(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [rounded(inner) for inner in value]
    return float(f"{value:.4g}") if isinstance(value, float) else value


def text_of(report):
    """JSON with a line for each row of a run."""
    lines = ["{"] + [f' {json.dumps(key)}: {json.dumps(value)},' for key, value in report.items() if key != "runs"]
    runs = []
    for run in report["runs"]:
        parts = []
        for key, value in run.items():
            rows = isinstance(value, list) and value and isinstance(value[0], dict)
            inner = "[\n" + ",\n".join("   " + json.dumps(row) for row in value) + "\n  ]" if rows else json.dumps(value)
            parts.append(f"  {json.dumps(key)}: {inner}")
        runs.append(" {\n" + ",\n".join(parts) + "\n }")
    return "\n".join(lines) + '\n "runs": [\n' + ",\n".join(runs) + "\n ]\n}\n"


def machine():
    processor = platform.machine()
    for line in pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            processor = line.split(": ", 1)[1]
            break
    cores = subprocess.run(["nproc"], capture_output=True, text=True, check=True).stdout.strip()
    release = ".".join(platform.release().split(".")[:2])
    return f"{processor}, {cores} cores, {platform.system()} {release}"


def commit():
    root = pathlib.Path(__file__).resolve().parent.parent
    words = ["git", "-C", str(root), "describe", "--always", "--dirty", "--exclude=*"]
    return subprocess.run(words, capture_output=True, text=True).stdout.strip() or "unknown"


def join(out, *pairs):
    runs = []
    for command, path in zip(pairs[::2], pairs[1::2]):
        report = json.loads(pathlib.Path(path).read_text(encoding="utf-8"))
        for own in ("machine", "context", "command"):  # of which the first two name the host
            report.pop(own, None)
        runs.append({"command": command, **rounded(report)})
    today = datetime.datetime.now(datetime.timezone.utc).date().isoformat()
    pathlib.Path(out).write_text(text_of({"date": today, "machine": machine(), "commit": commit(), "runs": runs}), encoding="utf-8")


if __name__ == "__main__":
    if len(sys.argv) < 5 or len(sys.argv) % 2 == 0 or sys.argv[1] != "join":
        sys.exit(__doc__)
    join(*sys.argv[2:])
