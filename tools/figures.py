#!/usr/bin/env python3
"""The tables in docs that are made of docs/measured and, in docs/gpu.md, of bench/results: what stands there between
<!-- figures: NAME --> and <!-- end -->.

figures.py write   puts them in anew
figures.py check   exit code 1 and a line for each that is not what the measurements say
"""
import collections
import dataclasses
import json
import pathlib
import re
import statistics
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
sys.dont_write_bytecode = True
from figures_gpu import GpuFigures, records_of  # noqa: E402
from figures_text import KIB, MIB, between, ratio_text, size_text, table, us_text, wrapped  # noqa: E402
from measured import FLOOR, cells_of, is_of_few, middle, that_count  # noqa: E402

MARKED = re.compile(r"(<!-- figures: (\w+) -->\n)(.*?)(<!-- end -->)", re.S)
NAMES = {"openmpi": "Open MPI", "mpich": "MPICH", "ucc": "UCC", "gloo": "Gloo", "gloo_batch": "Gloo, BATCH", FLOOR: "the memory alone"}
BENCHMARKS = {"c_function": "a call of a communicator of one rank"}
OPTIONS = {"registered": "`-R 1`", "wire": "`--wire {}`", "deterministic": "`--deterministic`"}
TORCH_STEPS = {
    "nothing": "a hook that moves nothing: the bound", "meet": "a hook that only has the ranks meet",
    "memory": "a hook that has them meet, and adds and copies from memory of its own", "tutti": "Tutti",
    "views": "Tutti, `gradient_as_bucket_view`", "whole": "Tutti, one bucket", "both": "Tutti, both",
    "both, nothing": "both, and the hook that moves nothing", "alone": "without DistributedDataParallel", "gloo": "Gloo",
}
SHOWN = [8, KIB, 32 * KIB, MIB, 64 * MIB]  # where all powers of two were measured


def spread(samples, may_be_above=False):
    """From the least to the largest ratio; bold if Tutti was slower, with a star if it rests on few pairs."""
    if not samples:
        return ""
    ratios = sorted(sample.ratio for sample in samples)
    text = between(ratio_text(ratios[0]), ratio_text(ratios[-1]))
    if any(map(is_of_few, samples)):
        text += r"\*"
    return f"**{text}**" if ratios[-1] > 1 and not may_be_above else text


def typical(samples, may_be_above=False):
    """The median; bold if Tutti was slower in any. Samples of few pairs count if there are no others."""
    if not samples:
        return ""
    samples = that_count(samples)
    text = ratio_text(middle(samples)) + (r"\*" if any(map(is_of_few, samples)) else "")
    return f"**{text}**" if max(sample.ratio for sample in samples) > 1 and not may_be_above else text


def pick(cells, **wanted):
    """The samples of all cells that are as wanted."""
    return [sample for cell, samples in cells.items()
            if all(getattr(cell, key) == value for key, value in wanted.items()) for sample in samples]


def median_us(samples, of="tutti_us"):
    times = [getattr(sample, of) for sample in samples if getattr(sample, of) is not None]
    return statistics.median(times) if times else None


def times_of(run):
    """Mean us by size, of a run of tutti-perf."""
    return {row["size"]: row["out_of_place"]["time_us"]["avg"] for row in run["results"]}


class Figures(GpuFigures):
    """Each method named in NAMED makes the lines of one mark."""
    NAMED = ("measured", "answers", "behind", "peers", "collectives", "isolated", "floor", "hosts", "line_rate", "tcp", "sockets",
             "registered", "wire_types", "send_recv", "overlap", "many_ranks", "costs", "kernels", "python", "torch", "torch_step", "programs", *GpuFigures.GPU_NAMED)

    def __init__(self, root):
        folder = pathlib.Path(root) / "docs/measured"
        self.files = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.json"))}
        self.records = records_of(root)

    def runs(self, question):
        return self.files.get(question, {}).get("runs", [])

    def of(self, *questions):
        """The cells of several files; what two of them have counts together."""
        return cells_of([run for question in questions for run in self.runs(question)])

    def measured(self):
        groups = collections.OrderedDict()
        for name, file in self.files.items():
            groups.setdefault(f"{file['machine']}, {file['date']}, commit {file['commit']}", []).append(f"[{name}](measured/{name}.json)")
        for title, names in groups.items():
            yield from wrapped(f"* {title}: {', '.join(names)}", "  ")
        for name, file in self.files.items():
            if "note" in file:
                yield from wrapped(f"* {name}: {file['note']}", "  ")

    def compared(self):
        """(against, where, cells) as the answers group them."""
        def libraries(cells):
            return {cell: samples for cell, samples in cells.items() if cell.against != FLOOR}
        # floor.json has the other collectives, too.
        memory = {cell: samples for cell, samples in self.of("peers", "race", "floor").items()
                  if cell.against != FLOOR or cell.collective == "all_reduce"}
        for name in NAMES:
            yield name, "all_reduce in shared memory, 2, 4, 8 ranks", {c: s for c, s in memory.items() if c.against == name}
        yield "openmpi", "the other collectives in shared memory, 2, 4, 8 ranks", libraries(self.of("collectives"))
        yield "openmpi", "calls with a root that all ranks begin together", self.of("isolated")
        yield "openmpi", "all_reduce in shared memory, 16 to 128 ranks on 2 cores", {
            cell: samples for cell, samples in self.of("many_ranks").items() if cell.against == "openmpi"}
        yield "openmpi", "all_reduce over TCP on one host, 2, 4 ranks", self.of("tcp")
        hosts = self.of("hosts")
        for name in ("openmpi", "gloo"):
            yield name, "all_reduce and barrier between hosts", {c: s for c, s in hosts.items() if c.against == name}

    def answers(self):
        rows = []
        for name, where, cells in self.compared():
            if name == FLOOR:
                cells = {cell: samples for cell, samples in cells.items() if cell.size >= MIB}
                where = "all_reduce in shared memory, from 1 MiB"
            if not cells:
                continue
            behind = sum(any(sample.ratio > 1 for sample in samples) for samples in cells.values())
            median = statistics.median(middle(samples) for samples in cells.values())
            every = [sample for samples in cells.values() for sample in samples]
            rows.append([NAMES[name], where, ratio_text(median), spread(every, True).rstrip("\\*"),
                         f"{behind} of {len(cells)}"])
        yield from table(["Tutti's time over that of", "where", "median", "from, to", "cells above 1"], rows)

    def behind(self):
        groups = collections.OrderedDict()
        for name, _, cells in self.compared():
            for cell, samples in sorted(cells.items(), key=lambda item: (item[0].ranks, item[0].hosts, item[0].size, item[0].state)):
                if name == FLOOR or max(sample.ratio for sample in samples) <= 1:
                    continue
                place = {"memory": "shared memory", "tcp": "TCP on one host", "hosts": f"{cell.hosts} hosts"}[cell.where]
                rates = f", {cell.gigabits:g} Gbit/s" if cell.gigabits else ""
                title = f"{NAMES[name]}, {cell.collective if cell.size else 'barrier'}, {place}{rates}, {cell.ranks} ranks"
                text = " ".join(filter(None, [size_text(cell.size) if cell.size else "", cell.state]))
                groups.setdefault(title, []).append(f"{text} {spread(samples, True)}".strip())
        for title, texts in groups.items():
            yield from wrapped(f"* {title}: {'; '.join(texts)}", "  ")
        if not groups:
            yield "Nowhere."

    def peers(self):
        cells, of_processes = self.of("peers", "race"), self.of("peers")
        names = [name for name in NAMES if name != FLOOR and pick(cells, against=name)]
        rows = []
        for ranks in sorted({cell.ranks for cell in cells}):
            for size in SHOWN:
                times = [us_text(median_us(pick(of_processes, ranks=ranks, size=size, state=state))) for state in ("near", "far")]
                here = [spread(pick(cells, collective="all_reduce", ranks=ranks, size=size, against=name)) for name in names]
                if any(here):
                    rows.append([str(ranks), size_text(size)] + times + here)
        yield from table(["ranks", "bytes", "near, us", "far, us"] + [NAMES[name] for name in names], rows)

    def by_size(self, cells, rows, may_be_above=False):
        """A row of (title, what its cells are); a column a size. Of several kinds of cells, the median of each."""
        sizes = sorted({cell.size for cell in cells})
        lines = []
        for title, *kinds in rows:
            line, text = [], spread if len(kinds) == 1 else typical
            for size in sizes:
                texts = [text(pick(cells, size=size, **kind), may_be_above) for kind in kinds]
                line.append("; ".join(one or "-" for one in texts) if any(texts) else "")
            if any(line):
                lines.append([title] + line)
        yield from table([""] + [size_text(size) for size in sizes], lines)

    def by_ranks(self, cells):
        """Rows for by_size: a collective each, with its figures for each number of ranks."""
        names, ranks = sorted({cell.collective for cell in cells}), sorted({cell.ranks for cell in cells})
        return [(name, *({"collective": name, "ranks": of} for of in ranks)) for name in names]

    def collectives(self):
        cells = self.of("collectives")
        least = min((cell.size for cell in cells if cell.size), default=0)
        cells = {dataclasses.replace(cell, size=cell.size or least): samples for cell, samples in cells.items()}
        yield from self.by_size(cells, self.by_ranks(cells))

    def isolated(self):
        cells = self.of("isolated")
        yield from self.by_size(cells, self.by_ranks(cells))

    def floor(self):
        cells = {cell: samples for cell, samples in self.of("peers", "floor").items()
                 if cell.against == FLOOR and cell.size in (64 * KIB, 256 * KIB, MIB, 4 * MIB, 16 * MIB, 64 * MIB)}
        rows = [(f"all_reduce, {ranks} ranks", {"collective": "all_reduce", "ranks": ranks}) for ranks in (2, 4, 8)]
        others = {cell: samples for cell, samples in cells.items() if cell.collective != "all_reduce"}
        yield from self.by_size(cells, rows + self.by_ranks(others), True)

    def hosts(self):
        cells = {cell: samples for cell, samples in self.of("hosts").items() if cell.against == "openmpi" and not cell.gigabits}
        places = sorted({(cell.ranks // cell.hosts, cell.hosts, cell.ranks) for cell in cells})
        yield from self.by_size(cells, [(f"{hosts} hosts" + (f" x {each} ranks" if each > 1 else ""), {"hosts": hosts, "ranks": ranks})
                                        for each, hosts, ranks in places])

    def line_rate(self):
        texts = []
        for run in self.runs("hosts"):
            rows = [row for row in run["results"] if row["size"] and "of_raw_rate" in row]
            if rows:
                shares = [f"{100 * share:.1f}" for share in sorted(row["of_raw_rate"] for row in rows)]
                hosts = f"{run['hosts']} hosts" + (f" x {run['ranks'] // run['hosts']} ranks" if run["ranks"] > run["hosts"] else "")
                sizes = between(size_text(rows[0]["size"]), size_text(rows[-1]["size"]))
                texts.append(f"{hosts} {between(shares[0], shares[-1])} % ({sizes})")
        yield from wrapped("; ".join(texts) + ".")

    def tcp(self):
        cells = self.of("tcp")
        kinds = dict.fromkeys((cell.ranks, cell.state) for cell in cells)
        yield from self.by_size(cells, [(f"{ranks} ranks, {state}", {"ranks": ranks, "state": state}) for ranks, state in sorted(kinds)])

    def sockets(self):
        cells = self.of("sockets")
        kinds = sorted({(cell.ranks, cell.state) for cell in cells})
        yield from self.by_size(cells, [(f"{ranks} ranks, {state}, by {title}", {"ranks": ranks, "state": state, "against": against})
                                        for against, title in (("sockets", "as many bytes"), ("sockets_all_reduce", "the all_reduce"))
                                        for ranks, state in kinds], True)

    def options(self, wanted):
        """Calls with an option by the plain calls that stand above them, whose times are told."""
        shown, plain = [], None  # (a run, the plain run that it is compared with)
        for run in self.runs("options"):
            option = next((key for key in OPTIONS if key in run["config"]), None)
            plain = plain if option else run
            if (option or run["results"][0]["collective"]) in wanted:
                shown += [(plain, None)] if option and (plain, None) not in shown else []
                shown.append((run, plain if option else None))
        sizes = sorted({row["size"] for run, _ in shown for row in run["results"]})
        rows = []
        for run, base in shown:
            times, by = times_of(run), times_of(base) if base else {}
            title = [run["results"][0]["collective"], f"{run['config']['ranks']} ranks"]
            title += [text.format(run["config"][key]) for key, text in OPTIONS.items() if key in run["config"]]
            cells = [f"{times[size] / by[size]:.2f}" if size in times and size in by else
                     f"{us_text(times[size])} us" if size in times and not base else "" for size in sizes]
            rows.append([", ".join(title)] + cells)
        yield from table([""] + [size_text(size) for size in sizes], rows)

    def registered(self):
        return self.options(("registered",))

    def wire_types(self):
        return self.options(("wire", "deterministic"))

    def send_recv(self):
        return self.options(("send_recv",))

    def overlap(self):
        runs = self.runs("overlap")
        sizes = sorted({row["size"] for run in runs for row in run["overlap"]})
        rows = []
        for run in runs:
            cells = {row["size"]: f"{100 * row['overlap']:.0f} %, {row['slowdown']:.2f}" for row in run["overlap"]}
            place = "2 hosts, 1 Gbit/s" if "hosts.py" in run["command"] else "threads" if "--threads" in run["command"] else "processes"
            rows.append([place] + [cells.get(size, "") for size in sizes])
        yield from table(["hidden, slowdown"] + [size_text(size) for size in sizes], rows)

    def many_ranks(self):
        cells = self.of("many_ranks")
        rows = []
        for ranks, size in sorted({(cell.ranks, cell.size) for cell in cells}):
            bound = pick(cells, ranks=ranks, size=size, against="handover")
            rows.append([str(ranks), size_text(size), us_text(median_us(bound)), us_text(median_us(bound, "other_us")),
                         spread(bound, True), spread(pick(cells, ranks=ranks, size=size, against="openmpi"))])
        yield from table(["ranks", "bytes", "Tutti, us", "two hand-overs, us", "Tutti by these", "Tutti by Open MPI"], rows)

    def costs(self):
        for run in self.runs("costs"):
            facts = [f"{row['what']} {row['value']:g} {row['unit']}" for row in run.get("results", ())]
            for row in run.get("benchmarks", ()):
                facts.append(f"{BENCHMARKS.get(row['name'], row['name'])} {row['real_time']:.3g} {row['time_unit']}")
            yield from wrapped(f"* `{run['command'].rsplit('/', 1)[-1]}`: {'; '.join(facts)}", "  ")

    def kernels(self):
        rows = [row for run in self.runs("kernels") for row in run["results"]]
        architectures = sorted({row["architecture"] for row in rows})
        families = collections.OrderedDict()
        for row in rows:
            families.setdefault(row["kernel"].split(" ")[0], []).append(row)
        compilers = sorted({run["compiler"] for run in self.runs("kernels") if "compiler" in run})
        head = [", ".join(["kernels", *compilers]), "of them"] + [f"{a}: {what}" for a in architectures for what in ("registers", "a pack", "spills")]
        lines = []
        for family, members in families.items():
            line = [family, str(len({row["kernel"] for row in members}))]
            for architecture in architectures:
                here = [row for row in members if row["architecture"] == architecture]
                packs = sorted(row["per_pack"] for row in here if row.get("per_pack"))
                line += [str(max((row["registers"] for row in here), default="")), between(str(packs[0]), str(packs[-1])) if packs else "",
                         str(max((row.get("spills", 0) for row in here), default=""))]
            lines.append(line)
        yield from table(head, lines)

    def python(self):
        runs = self.runs("python")
        for run in runs[:1]:
            added = run["added_ns"]
            yield from wrapped(f"Python adds to a call in C: tutti_comm {added['tutti_comm']:.0f} ns, mpi4py {added['mpi4py']:.0f} ns "
                               f"({run['mpi']}).")
            yield ""
        sizes = sorted({row["bytes"] for run in runs for row in run["rows"]})
        lines = []
        for run in runs:
            cells = {row["bytes"]: f"{row['ratio']:.2f} ({us_text(row['tutti_comm'])} us)" for row in run["rows"]}
            lines.append([f"{run['ranks']} ranks"] + [cells.get(size, "") for size in sizes])
        yield from table([""] + [size_text(size) for size in sizes], lines)

    def torch_rows(self, steps):
        """(ranks, row) of what bench/torch/race.py measured: all steps, or all calls."""
        return [(run["ranks"], row) for run in self.runs("torch") for row in run["rows"] if (row["case"] == "DDP step") == steps]

    def torch(self):
        rows = self.torch_rows(False)
        cells = {(row["case"], ranks): f"{ratio_text(row['tutti/gloo'])} ({us_text(1e6 * row['tutti'])}, {us_text(1e6 * row['gloo'])})"
                 for ranks, row in rows}
        cases, ranks = dict.fromkeys(row["case"] for _, row in rows), sorted({ranks for ranks, _ in rows})
        yield from table(["bytes"] + [f"{of} ranks" for of in ranks],
                         [[size_text(int(case.split()[0]))] + [cells.get((case, of), "") for of in ranks] for case in cases])

    def torch_step(self):
        rows = self.torch_rows(True)
        heads, lines = ["the step"], []
        for ranks, _ in rows:
            heads += [f"{ranks} ranks, ms", "by the bound"]
        for name, title in TORCH_STEPS.items():
            cells = [text for _, row in rows for text in (f"{1e3 * row[name]:.1f}", ratio_text(row[name] / row["nothing"]))]
            lines.append([title] + cells)
        yield from table(heads, lines)

    def programs(self):
        rows = [[f"{run['package']} {run['version']}", run["what"], run["by"], f"{run['against']}, {us_text(run['their_s'])}",
                 us_text(run["tutti_s"]), ratio_text(run["tutti_s"] / run["their_s"])] for run in self.runs("programs")]
        yield from table(["program", "what ran", "by", "compared with, s", "on Tutti, s", "ratio"], rows)


def renewed(text, figures):
    """A page's text with the tables of today's data."""
    def lines(match):
        name = match[2]
        if name not in Figures.NAMED:
            raise SystemExit(f"figures.py: no figure is called {name}")
        return match[1] + "\n".join(getattr(figures, name)()) + "\n" + match[4]
    return MARKED.sub(lines, text)


def pages(root):
    return sorted((pathlib.Path(root) / "docs").rglob("*.md"))


def differences(root):
    """A line for each mark of each page that is not what the data say."""
    figures = Figures(root)
    for page in pages(root):
        name, text = page.relative_to(root), page.read_text(encoding="utf-8")
        for old, new in zip(MARKED.finditer(text), MARKED.finditer(renewed(text, figures))):
            if old[3] != new[3]:
                yield f"{name}: the figures '{old[2]}' are not those of the measurements (tools/figures.sh renews them)"


def main():
    root = pathlib.Path(__file__).resolve().parent.parent
    if sys.argv[1:] == ["check"]:
        found = list(differences(root))
        print("\n".join(found + [f"{len(found)} figures differ"]))
        return 1 if found else 0
    if sys.argv[1:] != ["write"]:
        print(__doc__, file=sys.stderr)
        return 2
    figures = Figures(root)
    for page in pages(root):
        page.write_text(renewed(page.read_text(encoding="utf-8"), figures), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
