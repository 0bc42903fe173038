#!/usr/bin/env python3
"""Draws what docs/measured holds, for docs/performance.md, into that folder; run it by tools/figures.sh. Needs matplotlib.

peers_RANKS.svg  all_reduce in shared memory: bandwidth and time of all libraries over size, cores near and far apart
ratios.svg       Tutti's time over that of others, a dot a cell: where it is behind
floor.svg        Tutti's time over that of the memory alone
scale.svg        time over the number of ranks on two cores, and over the number of hosts
"""
import pathlib
import statistics

from measured import FLOOR, cells_of, load, middle
from plot import RACERS, draw_race, plt, save, size_text

FOLDER = pathlib.Path(__file__).resolve().parent.parent / "docs/measured"
NAMES = {"openmpi": "Open MPI", "mpich": "MPICH", "ucc": "UCC", "gloo": "Gloo", "gloo_batch": "Gloo, threads of class BATCH",
         FLOOR: "the memory alone"}
LIBRARIES = NAMES.keys() - {FLOOR}  # others, as the hand-over of cores, are yardsticks
# (title, file, what a cell must be), a panel each.
PANELS = [(f"all_reduce, {ranks} ranks, shared memory", ("peers", "race"), lambda cell, ranks=ranks: cell.ranks == ranks)
          for ranks in (2, 4, 8)]
PANELS += [("other collectives, shared memory", ("collectives",), lambda cell: cell.size > 0),
           ("calls with a root, begun together", ("isolated",), lambda cell: True),
           ("all_reduce over TCP on one host", ("tcp",), lambda cell: True),
           ("all_reduce between hosts", ("hosts",), lambda cell: cell.size > 0)]


def cells(*questions):
    return cells_of([run for question in questions for run in load(FOLDER / f"{question}.json")])


def label_sizes(axes, sizes):
    axes.set_xscale("log", base=2)
    ticks = [2 ** power for power in range(0, 40, 3) if min(sizes) <= 2 ** power <= max(sizes)]
    axes.set_xticks(ticks, [size_text(size) for size in ticks], rotation=45, fontsize=7)
    axes.grid(True, color="#dddddd", linewidth=0.6)


def ratios():
    figure, grid = plt.subplots(2, 3, figsize=(13, 7.4), squeeze=False, sharey="row")
    for axes, (title, questions, wanted) in zip(grid.flat, PANELS):
        found = {cell: samples for cell, samples in cells(*questions).items() if cell.against in LIBRARIES and wanted(cell)}
        for against, is_far in sorted({(cell.against, cell.state == "far") for cell in found}):
            dots = [(cell.size, middle(samples)) for cell, samples in found.items()
                    if (cell.against, cell.state == "far") == (against, is_far)]
            color, marker, _ = RACERS[against]
            axes.plot(*zip(*dots), marker, color=color, markersize=4, fillstyle="none" if is_far else "full")
        axes.axhline(1, color="black", linewidth=0.8)
        axes.set(yscale="log", title=title)
        axes.set_yticks([0.001, 0.01, 0.1, 0.2, 0.5, 1, 2], ["0.001", "0.01", "0.1", "0.2", "0.5", "1", "2"])
        axes.minorticks_off()
        if found:
            label_sizes(axes, [cell.size for cell in found])
    for axes, least in zip(grid[:, 0], (0.0005, 0.1)):
        axes.set_ylim(least, 4)
    handles = [plt.Line2D([], [], color=RACERS[name][0], marker=RACERS[name][1], linestyle="", label=text)
               for name, text in NAMES.items() if name in LIBRARIES]
    figure.legend(handles=handles, loc="lower center", ncol=5, frameon=False, title="filled: cores near or not told; open: far")
    figure.supylabel("Tutti's time over the other's: above the line Tutti is behind", fontsize=9)
    figure.tight_layout(rect=(0, 0.08, 1, 1))
    return figure


def floor():
    figure, grid = plt.subplots(1, 2, figsize=(11, 4.4), squeeze=False, sharey=True)
    found = {cell: samples for cell, samples in cells("peers", "floor").items()
             if cell.against == FLOOR and cell.collective == "all_reduce" and cell.size >= 4096}
    for axes, state in zip(grid.flat, ("near", "far")):
        for ranks, color in ((2, "#000000"), (4, "#0072b2"), (8, "#d55e00")):
            line = sorted((cell.size, middle(samples)) for cell, samples in found.items() if (cell.state, cell.ranks) == (state, ranks))
            axes.plot([size for size, _ in line], [ratio for _, ratio in line], "o-", color=color, markersize=4, label=f"{ranks} ranks")
        axes.axhline(1, color="black", linewidth=0.8)
        axes.set(yscale="log", title=f"all_reduce, cores {state}", xlabel="bytes")
        axes.set_yticks([0.5, 1, 2, 5, 10, 20, 40], ["0.5", "1", "2", "5", "10", "20", "40"])
        axes.minorticks_off()
        if found:
            label_sizes(axes, [cell.size for cell in found])
    grid[0][0].set_ylabel("time over that of the memory alone")
    grid[0][0].legend(frameon=False)
    figure.tight_layout()
    return figure


def lines_over(axes, found, count, sizes):
    """The time of Tutti and of Open MPI over what `count` says of a cell, for each size."""
    for size, color in zip(sizes, ("#56b4e9", "#009e73", "#e69f00", "#d55e00")):
        for who, style in (("tutti", "o-"), ("openmpi", "s:")):
            places = {}
            for cell, samples in found.items():
                if cell.size == size and cell.against == "openmpi":
                    places.setdefault(count(cell), []).extend(time_of(sample, who) for sample in samples if sample.other_us)
            line = sorted((place, statistics.median(times)) for place, times in places.items() if times)
            label = f"{size_text(size)}, {'Tutti' if who == 'tutti' else 'Open MPI'}"
            axes.plot([place for place, _ in line], [us for _, us in line], style, color=color, markersize=4, label=label)
    counts = sorted({count(cell) for cell in found})
    axes.set(xscale="log", yscale="log", ylabel="time, µs")
    axes.set_xscale("log", base=2)
    axes.set_xticks(counts, [str(one) for one in counts])
    axes.grid(True, color="#dddddd", linewidth=0.6)
    axes.legend(frameon=False, fontsize=7, ncol=2)


def time_of(sample, who):
    if who != "tutti":
        return sample.other_us
    return sample.tutti_us if sample.tutti_us is not None else sample.ratio * sample.other_us


def scale():
    figure, grid = plt.subplots(1, 2, figsize=(11, 4.8), squeeze=False)
    ranks = {cell: samples for cell, samples in cells("peers").items() if cell.state == "near"}
    lines_over(grid[0][0], ranks, lambda cell: cell.ranks, (8, 32 << 10, 1 << 20, 64 << 20))
    grid[0][0].set(title="all_reduce in shared memory, two cores, near", xlabel="ranks")
    hosts = {cell: samples for cell, samples in cells("hosts").items() if not cell.gigabits and cell.ranks == cell.hosts}
    lines_over(grid[0][1], hosts, lambda cell: cell.hosts, (8, 32 << 10, 2 << 20, 16 << 20))
    grid[0][1].set(title="all_reduce between hosts, links without a limit, two cores", xlabel="hosts, a rank each")
    figure.tight_layout()
    return figure


def main():
    for ranks in (2, 4, 8):
        reports = [run for run in load(FOLDER / "peers.json") if run["ranks"] == ranks]
        if reports:
            draw_race(str(FOLDER / f"peers_{ranks}.svg"), reports)
    for name, draw in (("ratios", ratios), ("floor", floor), ("scale", scale)):
        save(draw(), str(FOLDER / f"{name}.svg"))


if __name__ == "__main__":
    main()
