#!/usr/bin/env python3
"""tools/figures.py, tools/figures_gpu.py and tools/measured.py on measurements made up here: what the tables say, and that an old
table is found."""
# Covers tools/figures.py, tools/figures_gpu.py, tools/figures_text.py, tools/measured.py.
import json
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "tools"))
import figures  # noqa: E402
import measured  # noqa: E402


def race(ratio, size=8, state="near", ranks=2, **more):
    row = {"size": size, "state": state, "pairs": 7, "tutti_us": 10 * ratio, "other_us": 10.0, "ratio": ratio}
    return {"command": "bench/race.sh", "collective": "all_reduce", "ranks": ranks, "in_place": False, "transport": "shm",
            "other": "Open MPI v4.1.4", "results": [{**row, **more}]}


def compare(ratios, pairs=16, size=1 << 20, state="far", ranks=4):
    peers = {name: {"pairs": pairs, "time_us": 100.0, "ratio": ratio} for name, ratio in ratios.items()}
    return {"command": "tutti-perf --compare", "comparison": "all_reduce", "ranks": ranks,
            "results": [{"size": size, "state": state, "time_us": 50.0, "pairs": pairs, "peers": peers}]}


def option_run(times, **config):
    rows = [{"collective": "all_reduce", "size": size, "out_of_place": {"time_us": {"avg": us}}} for size, us in times.items()]
    return {"command": "tutti-perf", "config": {"ranks": 2, **config}, "results": rows}


class Root(unittest.TestCase):
    """Tests with a root of their own, in which FOLDER is."""
    def setUp(self):
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.root = pathlib.Path(place.name)
        (self.root / self.FOLDER).mkdir(parents=True)


class Tables(Root):
    FOLDER = "docs/measured"

    def write(self, question, *runs):
        report = {"date": "2026-01-02", "machine": "a machine", "commit": "abc", "runs": list(runs)}
        (self.root / f"docs/measured/{question}.json").write_text(measured.text_of(report), encoding="utf-8")

    def lines(self, name):
        return list(getattr(figures.Figures(self.root), name)())

    def test_peers_have_the_range_of_runs_and_states(self):
        self.write("peers", compare({"openmpi": 0.5, "gloo": 0.01}), compare({"openmpi": 0.75}, state="near"))
        self.assertEqual(self.lines("peers"), [
            "| ranks | bytes | near, us | far, us | Open MPI | Gloo |", "|---|---|---|---|---|---|",
            "| 4 | 1 MiB | 50 | 50 | 0.50–0.75 | 0.010 |"])

    def test_few_pairs_count_only_where_there_are_no_others(self):
        self.write("peers", compare({"ucc": 0.5}), compare({"ucc": 3.0}, pairs=2))
        self.assertTrue(self.lines("peers")[-1].endswith("| 0.50 |"))
        self.write("peers", compare({"ucc": 0.5}, pairs=3))
        self.assertTrue(self.lines("peers")[-1].endswith(r"| 0.50\* |"))

    def test_what_is_slower_is_named(self):
        self.write("race", race(0.9), race(1.25, size=64), race(0.8, size=64), race(9.0, size=512))
        self.write("peers", compare({"floor": 5.0}))
        self.assertEqual(self.lines("behind"), [
            "* Open MPI, all_reduce, shared memory, 2 ranks: 64 B near 0.80–1.25; 512 B near 9.00"])
        answers = self.lines("answers")
        self.assertIn("| Open MPI | all_reduce in shared memory, 2, 4, 8 ranks | 1.02 | 0.80–9.00 | 2 of 3 |", answers)
        self.assertIn("| the memory alone | all_reduce in shared memory, from 1 MiB | 5.00 | 5.00 | 1 of 1 |", answers)
        self.write("race", race(0.9))
        self.assertEqual(self.lines("behind"), ["Nowhere."])

    def test_pairs_that_were_disturbed_do_not_count(self):
        self.write("race", race(0.9), race(2.0, state="disturbed"), race(2.0, state="mixed"))
        self.assertEqual(self.lines("behind"), ["Nowhere."])

    def test_ranks_of_a_collective_stand_together(self):
        barrier = {**race(0.5, ranks=4), "collective": "barrier"}
        gathers = [{**one, "collective": "gather"} for one in (race(1.1), race(0.7, state="far"), race(0.7, size=1024, ranks=4))]
        self.write("collectives", *gathers, barrier)
        self.assertEqual(self.lines("collectives")[2:], ["| barrier | -; 0.50 |  |", "| gather | **0.90**; - | -; 0.70 |"])

    def test_calls_that_all_begin_together_stand_apart(self):
        self.write("collectives", {**race(0.7), "collective": "gather", "isolated": False})
        self.write("isolated", {**race(1.5), "collective": "gather", "isolated": True})
        self.assertEqual(self.lines("collectives")[2:], ["| gather | 0.70 |"])
        self.assertEqual(self.lines("isolated")[2:], ["| gather isolated | **1.50** |"])
        self.assertEqual(self.lines("behind"), ["* Open MPI, gather isolated, shared memory, 2 ranks: 8 B near 1.50"])

    def test_hosts(self):
        row = {"size": 1 << 20, "tutti_us": 5.0, "peers": {"openmpi": {"time_us": 10.0, "ratio": 0.5}}}
        barrier = {**row, "size": 0}
        run = {"command": "bench/hosts_race.sh", "hosts": 2, "ranks": 4, "raw_gigabits": 0, "results": [barrier, row]}
        self.write("hosts", run, {**run, "raw_gigabits": 1, "results": [{**barrier, "of_raw_rate": 0.0}, {**row, "of_raw_rate": 0.955}]})
        self.assertEqual(self.lines("hosts"), ["|  | barrier | 1 MiB |", "|---|---|---|", "| 2 hosts x 2 ranks | 0.50 | 0.50 |"])
        self.assertEqual(self.lines("line_rate"), ["2 hosts x 2 ranks 95.5 % (1 MiB)."])

    def test_options_are_compared_with_the_plain_call_above(self):
        plain, half, registered = {8: 2.0, 64: 4.0}, {8: 3.0, 64: 4.0}, {8: 1.0}
        self.write("options", option_run(plain), option_run(half, wire="half"), option_run(registered, registered=True))
        first = "| all_reduce, 2 ranks | 2 us | 4 us |"
        self.assertEqual(self.lines("wire_types")[2:], [first, "| all_reduce, 2 ranks, `--wire half` | 1.50 | 1.00 |"])
        self.assertEqual(self.lines("registered")[2:], [first, "| all_reduce, 2 ranks, `-R 1` | 0.50 |  |"])

    def test_kernels(self):
        row = {"kernel": "sum float32", "architecture": "sm_90", "registers": 60, "spills": 0, "per_pack": 23, "instructions": 1128}
        self.write("kernels", {"command": "", "results": [row, {**row, "kernel": "sum int8", "registers": 64, "per_pack": 30}]})
        self.assertEqual(self.lines("kernels")[2:], ["| sum | 2 | 64 | 23–30 | 0 |"])

    def test_an_old_table_is_found_and_renewed(self):
        self.write("race", race(1.25, size=64))
        page = self.root / "docs/performance.md"
        page.write_text("# Page\n<!-- figures: behind -->\n* nothing\n<!-- end -->\nprose\n", encoding="utf-8")
        self.assertEqual(len(list(figures.differences(self.root))), 1)
        new = figures.renewed(page.read_text(encoding="utf-8"), figures.Figures(self.root))
        self.assertTrue(new.startswith("# Page\n") and new.endswith("<!-- end -->\nprose\n"))
        page.write_text(new, encoding="utf-8")
        self.assertEqual(list(figures.differences(self.root)), [])
        self.write("race", race(1.5, size=64))
        self.assertEqual(len(list(figures.differences(self.root))), 1)
        with self.assertRaises(SystemExit):
            figures.renewed("<!-- figures: nonsense -->\n<!-- end -->\n", figures.Figures(self.root))

    def test_steps_are_told_by_the_bound(self):
        times = {name: 0.05 for name in figures.TORCH_STEPS}
        step = {"ranks": 2, "rows": [{"case": "DDP step", **times, "nothing": 0.04}]}
        call = {"ranks": 4, "rows": [{"case": "1024 B", "tutti": 1e-6, "gloo": 4e-6, "tutti/gloo": 0.25}]}
        self.write("torch", step, call)
        self.assertIn("| Tutti | 50.0 | 1.25 |", self.lines("torch_step"))
        self.assertIn("| 1 KiB | 0.25 (1, 4) |", self.lines("torch"))

    def test_without_measurements_every_table_can_be_made(self):
        for name in figures.Figures.NAMED:
            self.lines(name)


def direction(us, floor_us=None, p50_us=None, nwrong=0):
    return {"us": us, "p50_us": p50_us, "p99_us": None, "floor_us": floor_us, "nwrong": nwrong}


def gpu_run(name, ranks, rows, ranks_are="threads"):
    """A run of tutti-perf as tools/gpu_report.py keeps it; rows are (collective, size, direction)."""
    return {"run": name, "ranks": ranks, "ranks_are": ranks_are, "times_by": "events", "copy_GB/s": [4000.0], "incomplete": False,
            "rows": [{"collective": collective, "size": size, "type": "float", "redop": "sum", "algorithm": "ring", "out_of_place": one,
                      "in_place": None} for collective, size, one in rows]}


class GpuTables(Root):
    FOLDER = "bench/results"

    def write(self, number, commit, date="2026-01-02", card="card", **parts):
        record = {"card": "a card", "date": date, "commit": commit, "checks": [], "facts": {}, "steps": {}, "start": None, "ranks": [],
                  "kernels": {"device_copy_GB/s": None, "rows": []}, "latency": [], "nccl": [], **parts}
        (self.root / f"bench/results/gpu-{card}-{date}-{number}.json").write_text(json.dumps(record), encoding="utf-8")

    def lines(self, name):
        return list(getattr(figures.Figures(self.root), name)())

    def test_records_are_in_the_order_of_their_dates_and_numbers(self):
        for number, commit, date, card in ((10, "aaa", "2026-01-02", "card"), (2, "fff", "2026-01-02", "card"),
                                           (1, "ccc", "2026-01-03", "a100"), (1, "bbb", "2025-12-31", "card")):
            self.write(number, commit, date, card, ranks=[gpu_run("ranks-4-gather", 4, [("gather", 16 << 20, direction(50.0, 10.0))])])
        self.assertEqual(self.lines("gpu_collectives"), [
            "|  | bbb | fff | aaa | ccc |", "|---|---|---|---|---|", "| gather | 50 (0.20) | 50 (0.20) | 50 (0.20) | 50 (0.20) |"])

    def test_other_collectives_have_the_rows_of_16_mib(self):
        rows = [("all_to_all_v", 1020, direction(3.0, 1.0)), ("all_to_all_v", (16 << 20) - 16, direction(90.0, 20.0, 100.0))]
        sizes = gpu_run("ranks-4-sizes", 4, [("all_reduce", 16 << 20, direction(9.0))])
        self.write(1, "aaa", ranks=[gpu_run("ranks-4-all-to-all-v", 4, rows), sizes])
        self.write(2, "bbb")
        self.assertEqual(self.lines("gpu_collectives")[2:], ["| all_to_all_v | 100 (0.20) |  |"])

    def test_all_reduces_have_medians_and_from_4_mib_on_their_share(self):
        rows = [("all_reduce", 4, direction(9.0, 0.001, 7.0)), ("all_reduce", 4 << 20, direction(50.0, 10.0, 40.0))]
        more = [("all_reduce", 4, direction(1.0)), ("all_reduce", 16 << 20, direction(200.0, 100.0))]
        mps = gpu_run("processes-4-mps", 4, rows[:1], "processes")
        mapped = gpu_run("ranks-4-mapped", 4, [("all_reduce", 64 << 20, direction(1.0))])
        self.write(1, "aaa", ranks=[mapped, mps, gpu_run("ranks-4", 4, rows), gpu_run("ranks-4-sizes", 4, more)])
        self.write(2, "bbb", ranks=[gpu_run("ranks-4", 4, rows[1:]), gpu_run("processes-2-connections-8", 2, rows[:1], "processes")])
        self.assertEqual(self.lines("gpu_all_reduce"), [
            "| ranks | commit | 4 B | 4 MiB | 16 MiB |", "|---|---|---|---|---|", "| 4 threads | aaa | 7 | 40 (0.25) | 200 (0.50) |",
            "| 4 threads | bbb |  | 40 (0.25) |  |", "| 2 processes | bbb | 7 |  |  |", "| 4 processes, MPS | aaa | 7 |  |  |"])

    def test_goals(self):
        kernels = {"device_copy_GB/s": 4000.4, "rows": [
            {"name": "sum/float32/67108864/k2", "of_copy": 0.99}, {"name": "avg/int8/67108864/k2", "of_copy": 0.75},
            {"name": "sum/int8/67108864/k2/b16", "of_copy": 0.1}, {"name": "min/int8/67108864/k2", "of_copy": None, "error": "no kernel"}]}
        line = {"ns_per_step": 1500.0, "launch_us": 1.0, "points": []}
        steps = {"launch": {"stream_us": 6.0, "graph_us": 4.0},
                 "copies": {"parameters": line, "table": {**line, "points": [{"steps": 65, "us": 1.0}, {"steps": 512, "us": 1024.0}]}}}
        start = {"communicators": [{"join_ms": 20.4, "device_bytes_per_rank": 9 << 20},
                                   {"join_ms": 30.0, "device_bytes_per_rank": 18 << 20}]}
        latency = [gpu_run("latency-4-graph", 4, [("all_reduce", 8, direction(9.0, None, 8.0, 1))]),
                   gpu_run("latency-2-graph", 2, [("all_reduce", 8, direction(6.0))])]
        large = gpu_run("ranks-4", 4, [("all_reduce", 64 << 20, direction(1.0, 100.0, 200.0, 2))])
        self.write(1, "aaa", kernels=kernels, steps=steps, start=start, latency=latency, ranks=[large])
        self.assertEqual(self.lines("gpu_goals"), [
            "|  | goal | aaa |", "|---|---|---|", "| the card's own copy, GB/s read and written |  | 4 000 |",
            "| slowest reduction of 64 MiB, two sources, share of the copy's rate | 0.9 | 0.750 (avg of int8; 2 kernels) |",
            "| all_reduce of 64 MiB, 4 threads, share of the floor | 0.8 | 0.50 |",
            "| all_reduce of 8 bytes, 2; 4; 8 threads, in a graph, us | 5 (4 ranks) | 6; 8; - |",
            "| a step that copies 8 bytes, in a schedule of 2 to 64 steps, us |  | 1.5 |",
            "| the same in a schedule of 512 steps, us |  | 2 |", "| a launch, on a stream, us |  | 6 |", "| a launch, in a graph, us |  | 4 |",
            "| a join, 1; 2; 4; 8 threads, ms |  | 20; 30 |", "| device memory of a rank, 1; 2; 4; 8 threads, MiB |  | 9; 18 |",
            "| wrong elements | 0 | 3 |"])

    def test_the_race_with_nccl_has_only_rows_with_both(self):
        row = {"size": 8, "tutti_us": 5.0, "nccl_us": 10.0, "ratio": 0.5}
        race = {"nccl": "2.28.9", "ranks": 2, "ranks_are": "processes", "mps": False, "rows": [row, {"size": 1024, "nccl_us": 9.0}]}
        self.write(1, "aaa", nccl=[race])
        self.write(2, "bbb", nccl=[{**race, "mps": True}])
        self.assertEqual(self.lines("gpu_nccl"), [
            "| ranks | bytes | aaa: Tutti, us | aaa: NCCL 2.28.9, us | aaa: ratio | bbb: Tutti, us | bbb: NCCL 2.28.9, us | bbb: ratio |",
            "|---|---|---|---|---|---|---|---|", "| 2 processes | 8 B | 5 | 10 | 0.50 |  |  |  |",
            "| 2 processes, MPS | 8 B |  |  |  | 5 | 10 | 0.50 |"])

    def test_what_did_not_pass_has_its_reason(self):
        checks = [{"name": "types", "result": "passed", "seconds": "1", "reason": ""},
                  {"name": "memcheck", "result": "skipped", "seconds": "0", "reason": ""},
                  {"name": "torch", "result": "failed", "seconds": "9", "reason": " a | b"}]
        self.write(1, "aaa", checks=checks, not_reached=["start", "racecheck"])
        self.assertEqual(self.lines("gpu_checks")[2:], [
            "| aaa | `memcheck` | skipped |  |", r"| aaa | `torch` | failed | `a \| b` |", "| aaa | `start`, `racecheck` | not reached |  |"])
        self.assertEqual(self.lines("gpu_records"), [
            "* [aaa](../bench/results/gpu-card-2026-01-02-1.json): a card, 2026-01-02, checks: 1 passed, 1 failed, 1 skipped, 2 not",
            "  reached"])

    def test_an_old_table_is_found(self):
        self.write(1, "aaa")
        (self.root / "docs").mkdir()
        (self.root / "docs/gpu.md").write_text("<!-- figures: gpu_records -->\n<!-- end -->\n", encoding="utf-8")
        self.assertEqual(list(figures.differences(self.root)),
                         ["docs/gpu.md: the figures 'gpu_records' are not those of the measurements (tools/figures.sh renews them)"])


class Files(unittest.TestCase):
    def test_join_leaves_out_host_names_and_digits(self):
        with tempfile.TemporaryDirectory() as folder:
            part, out = pathlib.Path(folder, "part"), pathlib.Path(folder, "out.json")
            part.write_text(json.dumps({"machine": {"host": "secret"}, "context": {"host_name": "secret"}, "ranks": 2,
                                        "results": [{"size": 8, "ratio": 0.123456}, {"size": 16, "ratio": 1.0}]}), encoding="utf-8")
            measured.join(str(out), "one command", str(part), "another", str(part))
            text = out.read_text(encoding="utf-8")
        self.assertNotIn("secret", text)
        self.assertIn('\n   {"size": 8, "ratio": 0.1235},\n', text)
        report = json.loads(text)
        self.assertEqual([run["command"] for run in report["runs"]], ["one command", "another"])
        self.assertEqual(sorted(report), ["commit", "date", "machine", "runs"])


if __name__ == "__main__":
    unittest.main()
