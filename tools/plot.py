#!/usr/bin/env python3
"""Pictures of what tutti-sim wrote with --csv (needs matplotlib):

  plot.py winners OUT.svg TITLE=FILE.csv...   which algorithm is the fastest, by ranks and bytes
  plot.py times   OUT.svg BYTES,... FILE.csv  time over ranks of each algorithm, a panel a size
  plot.py ratio   OUT.svg FILE.csv OTHER.csv  how many times as long each algorithm takes in the other file
"""
import csv
import sys

import matplotlib

matplotlib.use("Agg")
matplotlib.rcParams.update({"svg.hashsalt": "tutti", "svg.fonttype": "none", "font.size": 9, "axes.grid": False})
import matplotlib.pyplot as plt
from matplotlib.patches import Patch, Rectangle

COLORS = {"all_pairs": "#56b4e9", "all_pairs_two_shot": "#0072b2", "recursive_doubling": "#e69f00", "ring": "#d55e00",
          "halving_doubling": "#f0e442", "double_tree": "#009e73", "hierarchical": "#cc79a7", "hierarchical_leaders": "#7a5195",
          "hierarchical_tree": "#b07aa1", "tree": "#2a9d5c", "chain": "#8c564b", "knomial_4": "#9edae5", "knomial_8": "#17becf",
          "scatter_all_gather": "#bcbd22", "bruck": "#ff9896", "pat": "#98df8a", "pairwise": "#c5b0d5",
          "recursive_halving": "#ffbb78", "dissemination": "#aec7e8"}


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
    figure.savefig(out, metadata={"Date": None})


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
    figure.savefig(out, metadata={"Date": None})


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
    figure.savefig(out, metadata={"Date": None})


if __name__ == "__main__":
    commands = {"winners": winners, "times": times, "ratio": ratio}
    if len(sys.argv) < 4 or sys.argv[1] not in commands:
        sys.exit(__doc__)
    commands[sys.argv[1]](*sys.argv[2:])
