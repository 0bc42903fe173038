#!/usr/bin/env python3
"""Pictures, SVG or PNG by the name of OUT (needs matplotlib, Debian: python3-matplotlib).

Of what tutti-perf --compare -J or bench/race.sh -J measured, bus bandwidth and time over size, cores near and far apart;
several files are parts of one picture, and of what they measured twice the one with more pairs counts:
  plot.py race    OUT FILE.json...

Of what tutti-sim wrote with --csv:
  plot.py winners OUT TITLE=FILE.csv...   which algorithm is the fastest, by ranks and bytes
  plot.py factors OUT COSTS FILE.csv      the fastest algorithm by ranks and bytes, its time and the chosen one's by the yardstick T of
                                          docs/simulation.md, for the file of costs that they were simulated with; of all_reduce,
                                          or of all_to_all if the file is named so
  plot.py times   OUT BYTES,... FILE.csv  time over ranks of each algorithm, a panel a size
  plot.py ratio   OUT FILE.csv OTHER.csv  how many times as long each algorithm takes in the other file
  plot.py uneven  OUT FILE.csv TITLE=OTHER.csv...  how many times as long the chosen algorithm takes in the other files, and
                                          (dashed) the fastest there, as the chosen one in the first; a panel a number of ranks
"""
import csv
import json
import math
import pathlib
import sys

import matplotlib

matplotlib.use("Agg")
matplotlib.rcParams.update({"svg.hashsalt": "tutti", "svg.fonttype": "none", "font.size": 9, "axes.grid": False})
import matplotlib.pyplot as plt
from matplotlib.patches import Patch, Rectangle

COLORS = {"all_pairs": "#56b4e9", "all_pairs_two_shot": "#0072b2", "linear": "#999999", "recursive_doubling": "#e69f00", "ring": "#d55e00",
          "halving_doubling": "#f0e442", "double_tree": "#009e73", "hierarchical": "#cc79a7", "hierarchical_leaders": "#7a5195",
          "hierarchical_tree": "#b07aa1", "hierarchical_double_tree": "#7b4173",
          "hierarchical_knomial_4": "#e7969c", "hierarchical_knomial_8": "#ad494a",
          "tree": "#2a9d5c", "chain": "#8c564b", "knomial_4": "#9edae5", "knomial_8": "#17becf",
          "scatter_all_gather": "#bcbd22", "bruck": "#ff9896", "pat": "#98df8a", "pairwise": "#c5b0d5",
          "recursive_halving": "#ffbb78", "dissemination": "#aec7e8", "recursive_exchange": "#f7b6d2",
          "scatter_exchange_1": "#c7e9c0", "scatter_exchange_2": "#74c476", "scatter_exchange_3": "#238b45",
          "hierarchical_2": "#9c6ade", "hierarchical_3": "#5e3c99", "hierarchical_rounds": "#8c2d04"}


# Of those who race: colour, marker, and how the line is drawn. (Okabe and Ito's colours, which most people can tell apart.)
RACERS = {"tutti": ("#000000", "o", "-"), "openmpi": ("#d55e00", "s", "-"), "mpich": ("#e69f00", "^", "-"), "ucc": ("#009e73", "D", "-"),
          "gloo": ("#56b4e9", "v", "-"), "gloo_batch": ("#0072b2", "v", "-"), "floor": ("#777777", None, "--")}


def save(figure, out):
    figure.savefig(out, dpi=110, metadata={"Date": None} if out.endswith(".svg") else None)


def rows_of(path):
    with open(path, encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        row.update(ranks=int(row["ranks"]), bytes=int(row["bytes"]), time=int(row["time_ps"]) * 1e-12, auto=row["auto"] == "1")
    return rows


def size_text(size):
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024 or unit == "GiB":
            return f"{size:g} {unit}"
        size /= 1024


def time_text(seconds):
    for unit, factor in (("s", 1), ("ms", 1e3), ("µs", 1e6)):
        if seconds * factor >= 1 or unit == "µs":
            value = seconds * factor
            return f"{value:.0f} {unit}" if value >= 10 else f"{value:.1f} {unit}"


def draw_winners(axes, title, rows, legend):
    ranks, sizes = sorted({row["ranks"] for row in rows}), sorted({row["bytes"] for row in rows})
    for x, n in enumerate(ranks):
        for y, size in enumerate(sizes):
            cell = [row for row in rows if row["ranks"] == n and row["bytes"] == size]
            if not cell:
                continue
            best = min(cell, key=lambda row: row["time"])
            chosen = next((row for row in cell if row["auto"]), None)
            legend.setdefault(best["algorithm"], COLORS.get(best["algorithm"], "#cccccc"))
            axes.add_patch(Rectangle((x, y), 1, 1, facecolor=legend[best["algorithm"]], edgecolor="white", alpha=0.85))
            lines = time_text(best["time"])
            if chosen is not None and chosen["time"] > 1.1 * best["time"]:
                lines += f"\n({chosen['time'] / best['time']:.1f}×)"
            axes.text(x + 0.5, y + 0.5, lines, ha="center", va="center", fontsize=7)
    axes.set_xlim(0, len(ranks))
    axes.set_ylim(0, len(sizes))
    axes.set_xticks([x + 0.5 for x in range(len(ranks))], [str(n) for n in ranks], rotation=45 if len(ranks) > 8 else 0)
    axes.set_yticks([y + 0.5 for y in range(len(sizes))], [size_text(size) for size in sizes])
    axes.set_xlabel("ranks")
    axes.set_ylabel("bytes of a block")
    axes.set_title(title, fontsize=10)


def winners(out, *panels):
    columns = 1 if len(panels) == 1 else 2
    lines = (len(panels) + columns - 1) // columns
    width = 10 if len(panels) == 1 else 12
    figure, axes = plt.subplots(lines, columns, figsize=(width, 3.7 * lines), squeeze=False)
    legend = {}
    for panel, place in zip(panels, axes.flat):
        title, path = panel.split("=", 1)
        draw_winners(place, title, rows_of(path), legend)
    for place in list(axes.flat)[len(panels):]:
        place.axis("off")
    handles = [Patch(facecolor=color, alpha=0.85, label=name) for name, color in legend.items()]
    figure.legend(handles=handles, loc="lower center", ncol=5, frameon=False, title="fastest; (k×): what the library chooses takes k times as long")
    figure.tight_layout(rect=(0, 0.75 / (3.7 * lines) if lines > 1 else 0.17, 1, 1))
    save(figure, out)


def yardstick(costs, ranks, hosts, size, exchanges):
    """T of docs/simulation.md in seconds: a hop for each doubling of hosts, and what must leave a host over its link (2S in an
    all_reduce) or all ranks' buffers over the memory."""
    each = ranks / hosts
    touched = 2 * size * each * (ranks if exchanges else 1)
    memory = touched / 1024 * costs["memory_kib"] if touched > costs["cache_bytes"] else 0
    leaving = size * each * (ranks - each) if exchanges else 2 * size * (hosts - 1) / hosts
    link = leaving / 1024 * costs["tcp.wire_kib"]
    return 1e-12 * (math.log2(hosts) * costs["tcp.latency"] + max(link, memory))


def factors(out, costs_path, path):
    with open(costs_path, encoding="utf-8") as file:
        costs = {name: int(value) for name, value in (line.split() for line in file if not line.startswith("#"))}
    rows = [row for row in rows_of(path) if row["time"] > 0]
    exchanges = pathlib.Path(path).stem == "all_to_all"
    all_ranks, sizes = (sorted({row[key] for row in rows}) for key in ("ranks", "bytes"))
    figure, place = plt.subplots(figsize=(10, 0.75 * len(all_ranks) + 1.6))
    legend = {}
    for x, size in enumerate(sizes):
        for y, ranks in enumerate(all_ranks):
            cell = sorted((row for row in rows if (row["ranks"], row["bytes"]) == (ranks, size)), key=lambda row: row["time"])
            if not cell:
                continue
            unit = yardstick(costs, ranks, int(cell[0]["hosts"]), size, exchanges)
            chosen = next(row for row in cell if row["auto"])
            color = legend.setdefault(cell[0]["algorithm"], COLORS[cell[0]["algorithm"]])
            place.add_patch(Rectangle((x, y), 1, 1, facecolor=color, edgecolor="white", alpha=0.85))
            text = f"{chosen['time'] / unit:.2f}"
            if len(cell) > 1:
                text += f"\n({cell[0]['time'] / unit:.2f})"
            place.text(x + 0.5, y + 0.5, text, ha="center", va="center")
    place.set(xlim=(0, len(sizes)), ylim=(0, len(all_ranks)), ylabel="ranks, 8 a host")
    place.set_xticks([x + 0.5 for x in range(len(sizes))], [size_text(size) for size in sizes])
    place.set_yticks([y + 0.5 for y in range(len(all_ranks))], [str(n) for n in all_ranks])
    handles = [Patch(facecolor=color, alpha=0.85, label=name) for name, color in legend.items()]
    figure.legend(handles=handles, loc="lower center", ncol=4, frameon=False, title="fastest; what the library chooses (the fastest) by T")
    figure.tight_layout(rect=(0, 0.9 / (0.75 * len(all_ranks) + 1.6), 1, 1))
    save(figure, out)


def times(out, sizes, path):
    rows = rows_of(path)
    wanted = [int(size) for size in sizes.split(",")]
    figure, axes = plt.subplots(1, len(wanted), figsize=(4.2 * len(wanted), 4.2), squeeze=False)
    names = list(dict.fromkeys(row["algorithm"] for row in rows))
    for place, size in zip(axes.flat, wanted):
        for name in names:
            line = sorted((row["ranks"], row["time"]) for row in rows if row["algorithm"] == name and row["bytes"] == size)
            place.plot([n for n, _ in line], [t for _, t in line], marker="o", markersize=3, label=name, color=COLORS.get(name))
        place.set(xscale="log", yscale="log", xlabel="ranks", ylabel="time, s", title=size_text(size))
        place.set_xscale("log", base=2)
        ticks = [8, 64, 512, 4096, 32768, 131072]
        place.set_xticks(ticks, ["8", "64", "512", "4096", "32768", "131072"], rotation=45)
        place.grid(True, which="major", color="#dddddd")
    figure.legend(*axes.flat[0].get_legend_handles_labels(), loc="lower center", ncol=4, frameon=False)
    figure.tight_layout(rect=(0, 0.13, 1, 1))
    save(figure, out)


def ratio(out, path, other):
    base = {(row["ranks"], row["bytes"], row["algorithm"]): row["time"] for row in rows_of(path)}
    rows = [row for row in rows_of(other) if (row["ranks"], row["bytes"], row["algorithm"]) in base]
    sizes = sorted({row["bytes"] for row in rows})
    figure, axes = plt.subplots(1, len(sizes), figsize=(4.2 * len(sizes), 3.9), squeeze=False, sharey=True)
    names = list(dict.fromkeys(row["algorithm"] for row in rows))
    for place, size in zip(axes.flat, sizes):
        for name in names:
            line = sorted((row["ranks"], row["time"] / base[row["ranks"], size, name])
                          for row in rows if row["algorithm"] == name and row["bytes"] == size)
            place.plot([n for n, _ in line], [r for _, r in line], marker="o", markersize=4, label=name, color=COLORS.get(name))
        place.set_xscale("log", base=2)
        ranks = sorted({row["ranks"] for row in rows})
        place.set_xticks(ranks, [str(n) for n in ranks])
        place.set(xlabel="ranks", title=size_text(size))
        place.grid(True, color="#dddddd")
    axes.flat[0].set_ylim(0.9, 1.05 * max(row["time"] / base[row["ranks"], row["bytes"], row["algorithm"]] for row in rows))
    axes.flat[0].set_ylabel("times as long")
    figure.legend(*axes.flat[0].get_legend_handles_labels(), loc="lower center", ncol=4, frameon=False)
    figure.tight_layout(rect=(0, 0.15, 1, 1))
    save(figure, out)


def uneven(out, path, *others):
    def times_of(path, pick):
        """Of what pick() takes of each cell's rows."""
        cells = {}
        for row in rows_of(path):
            cells.setdefault((row["ranks"], row["bytes"]), []).append(row)
        return {cell: pick(rows) for cell, rows in cells.items()}

    def chosen(rows):
        times = [row["time"] for row in rows if row["auto"]]
        return times[0] if times else sys.exit(f"the chosen algorithm of {rows[0]['ranks']} ranks and {rows[0]['bytes']} bytes was not simulated")

    def fastest(rows):
        return min(row["time"] for row in rows)

    base = times_of(path, chosen)
    ranks = sorted({n for n, _ in base})
    figure, axes = plt.subplots(1, len(ranks), figsize=(5.6 * len(ranks), 4.4), squeeze=False, sharey=True)
    for place, n in zip(axes.flat, ranks):
        sizes = sorted(size for m, size in base if m == n)
        for color, other in zip(("#d55e00", "#e69f00", "#56b4e9", "#0072b2", "#000000"), others):
            title, file = other.split("=", 1)
            for pick, style, label in ((chosen, "o-", title), (fastest, ".--", None)):
                found = times_of(file, pick)
                place.plot(sizes, [found[n, size] / base[n, size] for size in sizes], style, color=color, markersize=4, linewidth=1.2, label=label)
        place.axhline(1, color="black", linewidth=0.8)
        place.set_xscale("log", base=2)
        place.set_xticks(sizes, [size_text(size) for size in sizes], rotation=45)
        place.minorticks_off()
        place.set(title=f"{n} ranks")
        place.grid(True, color="#dddddd")
    axes.flat[0].set_ylabel("times as long as where all are alike")
    figure.legend(*axes.flat[0].get_legend_handles_labels(), loc="lower center", ncol=3, frameon=False)
    figure.tight_layout(rect=(0, 0.12, 1, 1))
    save(figure, out)


def bus_factor(collective, ranks):
    """Bus bandwidth over size by time, as nccl-tests and tutti-perf define it."""
    share = (ranks - 1) / ranks
    return {"all_reduce": 2 * share, "broadcast": 1, "reduce": 1}.get(collective, share)


def points_of(report):
    """((racer, state, size), (pairs, microseconds)) of what one command measured."""
    for result in report["results"]:
        place = (result["state"], result["size"])
        if "comparison" not in report:  # of bench/race.sh, whose size is that of one rank's block
            floor = report["other"] == "the memory alone"
            yield ("tutti", *place), (result["pairs"], result["tutti_us"])
            yield ("floor" if floor else "openmpi", *place), (result["pairs"], result["other_us"])
            continue
        for name, figures in [("tutti", result), *result.get("peers", {}).items()]:
            if figures["time_us"] is not None:
                yield (name, *place), (figures["pairs"], figures["time_us"])


def race(out, *paths):
    draw_race(out, [json.loads(pathlib.Path(path).read_text(encoding="utf-8")) for path in paths])


def draw_race(out, reports):
    setups = {(report.get("comparison", report.get("collective")), report["ranks"]) for report in reports}
    if len(setups) > 1:
        sys.exit(f"one picture is of one collective and number of ranks, not of {sorted(setups)}")
    collective, ranks = setups.pop()
    points, names = {}, {"tutti": "Tutti", "openmpi": "Open MPI", "floor": "the memory alone"}
    for report in reports:
        names.update(report.get("peers", {}))
        for place, figures in points_of(report):
            points[place] = max(figures, points.get(place, (0, 0)))
    states = [state for state in ("near", "far") if any(place[1] == state for place in points)]
    if "gloo_batch" in names:
        names["gloo_batch"] += ", threads of class BATCH"
    figure, axes = plt.subplots(2, len(states), figsize=(6.2 * len(states), 8.4), squeeze=False, sharex=True, sharey="row")
    factor = bus_factor(collective, ranks)
    for column, state in enumerate(states):
        for racer, (color, marker, style) in RACERS.items():
            line = sorted((size, us) for (name, place, size), (_, us) in points.items() if name == racer and place == state)
            look = {"color": color, "marker": marker, "linestyle": style, "markersize": 4, "linewidth": 2.2 if racer == "tutti" else 1.2,
                    "label": names.get(racer, racer), "zorder": 3 if racer == "tutti" else 2}
            if line:
                axes[0][column].plot([size for size, _ in line], [size * factor / us / 1e3 for size, us in line], **look)
                axes[1][column].plot([size for size, _ in line], [us for _, us in line], **look)
        axes[0][column].set_title(f"cores {state}", fontsize=10)
        axes[1][column].set_xlabel("size, bytes")
    sizes = sorted({size for _, _, size in points})
    for place in axes.flat:
        place.set_xscale("log", base=2)
        place.grid(True, color="#dddddd", linewidth=0.6)
        ticks = [2 ** power for power in range(0, 40, 3) if sizes[0] <= 2 ** power <= sizes[-1]]
        place.set_xticks(ticks, [size_text(size) for size in ticks], rotation=45, fontsize=8)
        place.tick_params(labelbottom=True, labelleft=True)
    axes[0][0].set_ylabel("bus bandwidth, GB/s")
    axes[1][0].set_ylabel("time, µs")
    axes[0][0].set_ylim(0, 1.15 * max(size * factor / us / 1e3 for (name, _, size), (_, us) in points.items() if name != "floor") or 1)
    for place in axes[1]:
        place.set_yscale("log", base=10)
        place.minorticks_off()
    handles, labels = axes[1][0].get_legend_handles_labels()
    figure.suptitle(f"{collective}, float32, {ranks} ranks: medians of pairs", fontsize=11)
    figure.legend(handles, labels, loc="lower center", ncol=4, frameon=False)
    figure.tight_layout(rect=(0, 0.06, 1, 0.98))
    save(figure, out)


if __name__ == "__main__":
    commands = {"race": race, "winners": winners, "factors": factors, "times": times, "ratio": ratio, "uneven": uneven}
    if len(sys.argv) < 4 or sys.argv[1] not in commands or not sys.argv[2].endswith((".svg", ".png")):
        sys.exit(__doc__)
    commands[sys.argv[1]](*sys.argv[2:])
