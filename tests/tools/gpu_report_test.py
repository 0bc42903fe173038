#!/usr/bin/env python3
"""tools/gpu_report.py on recorded files (gpu_report/: tutti-perf and the benches on the stand-in for a device, shortened, the race with
NCCL with another library in its place; their times mean nothing), on some changed ones, and on what is missing or broken."""
# Covers tools/gpu_report.py.
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SAMPLES = pathlib.Path(__file__).resolve().parent / "gpu_report"
sys.path.insert(0, str(ROOT / "tools"))
import gpu_report  # noqa: E402


class Results(unittest.TestCase):
    def setUp(self):
        self.place = tempfile.TemporaryDirectory()
        self.addCleanup(self.place.cleanup)
        self.results = pathlib.Path(self.place.name) / "results"
        shutil.copytree(SAMPLES, self.results)

    def report(self, card="", cwd=ROOT):
        found = subprocess.run([sys.executable, ROOT / "tools/gpu_report.py", self.results, card], capture_output=True, text=True, cwd=cwd)
        self.assertEqual(found.stderr, "")
        return found.returncode, found.stdout

    def change(self, name, edit):
        path = self.results / name
        content = json.loads(path.read_text(encoding="utf-8"))
        edit(content)
        path.write_text(json.dumps(content), encoding="utf-8")

    def test_the_table(self):
        code, text = self.report()
        self.assertEqual(code, 0)
        for line in ("float32      0.793 (max) to 0.965 (sum)  below 0.9", "sum/bool/67108864/k2: no kernel",
                     "4 threads    all_reduce, exact: 16 B 140.7 (0.00), 32 KiB 221.8 (0.04), 64 MiB 6.571e+05 (0.03)",
                     "    64 MiB: below 0.8", "3 threads    all_reduce: 4 pairs of type and operation, exact",
                     "4 threads    gather, not checked: 1 KiB", "4 ranks, stream      137.19 (126.40)  above 12",
                     "launch: 26.36 us one after the other", "0.09 us in a graph",
                     "a copy of 8 bytes: 2796 ns (schedule in parameters), 17722 ns (in a table)", "1 ranks: join 22.6 ms"):
            self.assertIn(line, text)

    def test_what_is_good_has_no_mark(self):
        def fast(run):
            for result in run["results"]:
                result["out_of_place"]["time_us"]["avg"] = result["out_of_place"]["floor_us"] / 0.85
        self.change("ranks-4.json", fast)
        self.change("latency-4-stream.json", lambda run: run["results"][0]["out_of_place"]["time_us"].update(avg=11.0))
        text = self.report()[1]
        self.assertNotIn("below 0.8", text)
        self.assertIn("64 MiB 2.181e+04 (0.85)", text)
        self.assertNotIn("above", text)

    def test_wrong_elements_are_told(self):
        self.change("ranks-4.json", lambda run: run["results"][1]["in_place"].update(nwrong=3))
        self.assertIn("all_reduce, 3 WRONG elements: 16 B", self.report()[1])

    def test_the_race_with_nccl(self):
        text = self.report()[1]
        self.assertIn("NCCL 2.28.9 (socket, a host id for each rank) and Tutti (tcp), 2 processes, all_reduce: us of Tutti", text)
        self.assertRegex(text, r"  512 B +95\.17 +134\.95 +0\.746\n")
        self.assertRegex(text, r"  32 KiB +594\.87 +667\.42 +1\.000  3 WRONG elements of tutti\n")

        def alone(race):
            race["tutti_left_out"] = "not offered"
            for row in race["rows"]:
                del row["tutti_us"], row["ratio"], row["nwrong"]["tutti"]
        self.change("nccl-2.json", alone)
        text = self.report()[1]
        self.assertRegex(text, r"  without Tutti: not offered\n  8 B +- +95\.20\n")

    def test_the_record(self):
        with tempfile.TemporaryDirectory() as folder:
            (pathlib.Path(folder) / "bench").mkdir()
            code, text = self.report("NVIDIA H100 80GB HBM3", cwd=folder)
            self.assertEqual(code, 0)
            pages = list((pathlib.Path(folder) / "bench/results").iterdir())
            self.assertEqual(len(pages), 1)
            self.assertRegex(pages[0].name, r"^gpu-h100-80gb-hbm3-\d{4}-\d\d-\d\d\.json$")
            self.assertIn("written: bench/results/" + pages[0].name, text)
            page = json.loads(pages[0].read_text(encoding="utf-8"))
        self.assertEqual(page["card"], "NVIDIA H100 80GB HBM3")
        self.assertEqual(page["checks"][1], {"name": "racecheck of kernels", "result": "skipped", "seconds": "0",
                                             "reason": "no compute-sanitizer"})
        self.assertEqual([run["run"] for run in page["ranks"]], ["ranks-3-types", "ranks-4", "ranks-4-gather"])
        self.assertEqual(page["ranks"][1]["rows"][2]["size"], 64 << 20)
        self.assertGreater(page["ranks"][1]["rows"][2]["out_of_place"]["floor_us"], 0)
        self.assertEqual(page["kernels"]["device_copy_GB/s"], 2900.5)
        self.assertEqual(page["start"]["communicators"][0]["ranks"], 1)
        self.assertEqual([row["nccl_us"] > 0 for row in page["nccl"][0]["rows"]], [True] * 3)

    def test_without_a_card_nothing_is_written(self):
        with tempfile.TemporaryDirectory() as folder:
            self.assertEqual(self.report("", cwd=folder)[0], 0)
            self.assertEqual(list(pathlib.Path(folder).iterdir()), [])

    def test_what_is_missing_is_left_out(self):
        for path in self.results.iterdir():
            path.unlink()
        self.assertEqual(self.report(), (0, ""))

    def test_what_is_cut_short_is_named(self):
        path = self.results / "ranks-4.json"
        path.write_text(path.read_text(encoding="utf-8")[:300], encoding="utf-8")
        code, text = self.report()
        self.assertEqual(code, 1)
        self.assertIn("cannot read ranks-4.json: ", text)
        self.assertIn("4 threads    gather", text)

    def test_runs_are_in_the_order_of_their_ranks(self):
        for ranks in (8, 2):
            shutil.copy(self.results / "latency-4-stream.json", self.results / f"latency-{ranks}-stream.json")
        names = [run["run"] for run in gpu_report.read_all(self.results)[0]["latency"]]
        self.assertEqual(names, ["latency-2-stream", "latency-4-stream", "latency-8-stream"])


if __name__ == "__main__":
    unittest.main()
