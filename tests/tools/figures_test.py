#!/usr/bin/env python3
"""tools/figures.py and tools/measured.py on measurements made up here: what the tables say, and that an old table is found."""
# Covers tools/figures.py, tools/measured.py.
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


class Tables(unittest.TestCase):
    def setUp(self):
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.root = pathlib.Path(place.name)
        (self.root / "docs/measured").mkdir(parents=True)

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
