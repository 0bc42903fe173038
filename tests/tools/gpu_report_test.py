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


class Results(unittest.TestCase):
    def setUp(self):
        self.place = tempfile.TemporaryDirectory()
        self.addCleanup(self.place.cleanup)
        self.results = pathlib.Path(self.place.name)
        shutil.copy(SAMPLES / "checks.tsv", self.results)
        self.lines = {path.stem: '{"check": "%s", "found": %s}' % (path.stem, path.read_text(encoding="utf-8").strip())
                      for path in SAMPLES.glob("*.json")}
        for path in SAMPLES.glob("*.txt"):
            facts = json.dumps(path.read_text(encoding="utf-8").splitlines())
            self.lines[path.stem] = '{"check": "%s", "facts": %s}' % (path.stem, facts)

    def report(self, card="", order=()):
        """(exit code, what was printed) of the whole program."""
        (self.results / "numbers.jsonl").write_text("".join(line + "\n" for line in self.lines.values()), encoding="utf-8")
        with tempfile.NamedTemporaryFile("w") as names:
            names.write("".join(f"{name}\t20\n" for name in order))
            names.flush()
            found = subprocess.run([sys.executable, ROOT / "tools/gpu_report.py", self.results, card, names.name],
                                   capture_output=True, text=True)
        self.assertEqual(found.stderr, "")
        return found.returncode, found.stdout

    def change(self, name, edit):
        line = json.loads(self.lines[name])
        edit(line["found"])
        self.lines[name] = json.dumps(line)

    def test_the_table(self):
        code, text = self.report()
        self.assertEqual(code, 0)
        self.assertEqual(text, (self.results / "report.txt").read_text(encoding="utf-8"))
        for line in ("float32      0.793 (max) to 0.965 (sum)  below 0.9", "sum/bool/67108864/k2: no kernel",
                     "4 threads    all_reduce, exact: 16 B 140.7 (0.00), 32 KiB 221.8 (0.04), 64 MiB 6.571e+05 (0.03)",
                     "3 threads    all_reduce: 4 pairs of type and operation, exact",
                     "4 threads    gather, not checked: 1 KiB", "4 ranks, stream      137.19 (126.40)",
                     "launch: 26.36 us one after the other", "0.09 us in a graph",
                     "a copy of 8 bytes: 2796 ns (schedule in parameters), 17722 ns (in a table)", "1 ranks: join 22.6 ms",
                     "  beside  cudaFree: WAITS for the kernel", "  meet    8 kernels on a stream: 8 streams", "  beside  1 other calls return while a kernel spins"):
            self.assertIn(line, text)

    def test_every_check_has_its_line(self):
        text = self.report(order=("machine", "memcheck", "ranks-4", "types"))[1]
        self.assertRegex(text, r"^machine +passed +1\nmemcheck +skipped +0  there is no compute-sanitizer\nranks-4 +passed +4\n"
                               r"types +not reached\n2 passed, 0 failed, 0 hung, 1 skipped, 1 not reached\n")

    def test_what_failed_or_hung_fails_the_whole(self):
        for result in ("failed", "hung"):
            shutil.copy(SAMPLES / "checks.tsv", self.results)
            with (self.results / "checks.tsv").open("a", encoding="utf-8") as file:
                file.write(f"types\t{result}\t7\tit did\n")
            code, text = self.report()
            self.assertEqual(code, 1)
            self.assertRegex(text, rf"types +{result} +7  it did\n")

    def test_goals(self):
        text = self.report()[1]
        for line in ("  missed        kernels at 64 MiB, part of the card's copy, at least 0.9: float32 max 0.793\n",
                     "  missed        all_reduce of 64 MiB, part of the floor's rate, at least 0.8: 4 ranks 0.0",
                     "  missed        8 bytes on 4 ranks, stream, us, at most 12: stream 137\n",
                     "  not measured  8 bytes on 4 ranks, graph, us, at most 5\n", "  met           wrong elements, none: "):
            self.assertIn(line, text)

    def test_goals_that_are_met(self):
        def fast(run):
            for result in run["results"]:
                result["out_of_place"]["time_us"]["avg"] = result["out_of_place"]["floor_us"] / 0.85
        self.change("ranks-4", fast)
        self.change("latency-4-stream", lambda run: run["results"][0]["out_of_place"]["time_us"].update(avg=11.0))
        text = self.report()[1]
        self.assertIn("64 MiB 2.181e+04 (0.85)", text)
        self.assertIn("  met           all_reduce of 64 MiB, part of the floor's rate, at least 0.8: 4 ranks 0.85\n", text)
        self.assertIn("  met           8 bytes on 4 ranks, stream, us, at most 12: stream 11\n", text)

    def test_wrong_elements_are_told(self):
        self.change("ranks-4", lambda run: run["results"][1]["in_place"].update(nwrong=3))
        text = self.report()[1]
        self.assertIn("all_reduce, 3 WRONG elements: 16 B", text)
        self.assertIn("  missed        wrong elements, none: ranks-4 3\n", text)

    def test_the_race_with_nccl(self):
        text = self.report()[1]
        self.assertIn("NCCL 2.28.9 (socket, a host id for each rank) and Tutti (tcp), 2 processes, all_reduce: us of Tutti", text)
        self.assertRegex(text, r"  512 B +95\.17 +134\.95 +0\.746\n")
        self.assertRegex(text, r"  32 KiB +594\.87 +667\.42 +1\.000  3 WRONG elements of tutti\n")

        def alone(race):
            race["tutti_left_out"] = "not offered"
            for row in race["rows"]:
                del row["tutti_us"], row["ratio"], row["nwrong"]["tutti"]
        self.change("nccl-2", alone)
        text = self.report()[1]
        self.assertRegex(text, r"  without Tutti: not offered\n  8 B +- +95\.20\n")

    def test_the_record(self):
        (self.results / "gpu-h100-80gb-hbm3-2001-01-01.json").write_text("{}", encoding="utf-8")
        code, text = self.report("NVIDIA H100 80GB HBM3", order=("machine", "racecheck"))
        self.assertEqual(code, 0)
        pages = list(self.results.glob("gpu-*.json"))
        self.assertEqual(len(pages), 1)
        self.assertRegex(pages[0].name, r"^gpu-h100-80gb-hbm3-20[2-9]\d-\d\d-\d\d\.json$")
        self.assertIn(f"written: {pages[0]}\n", text)
        page = json.loads(pages[0].read_text(encoding="utf-8"))
        self.assertEqual((page["card"], page["commit"]), ("NVIDIA H100 80GB HBM3", "1234567"))
        self.assertEqual(page["checks"][-1], {"name": "memcheck", "result": "skipped", "seconds": "0",
                                              "reason": "there is no compute-sanitizer"})
        self.assertEqual(page["not_reached"], ["racecheck"])
        self.assertEqual([run["run"] for run in page["ranks"]], ["ranks-4", "ranks-4-gather", "types"])
        self.assertEqual(page["ranks"][0]["rows"][2]["size"], 64 << 20)
        self.assertGreater(page["ranks"][0]["rows"][2]["out_of_place"]["floor_us"], 0)
        self.assertEqual(page["kernels"]["device_copy_GB/s"], 2900.5)
        self.assertEqual(page["start"]["communicators"][0]["ranks"], 1)
        self.assertEqual([row["nccl_us"] > 0 for row in page["nccl"][0]["rows"]], [True] * 3)
        self.assertEqual(page["facts"]["unset"]["meet"], {"8 kernels on a stream": "8 streams"})

    def test_without_a_card_there_is_no_record(self):
        self.assertEqual(self.report("")[0], 0)
        self.assertEqual(list(self.results.glob("gpu-*.json")), [])

    def test_what_is_missing_is_left_out(self):
        (self.results / "checks.tsv").unlink()
        self.lines = {}
        code, text = self.report()
        self.assertEqual(code, 0)
        self.assertRegex(text, r"^0 passed, .*\ngoals\n(  not measured .*\n)+$")

    def test_what_is_cut_short_is_named(self):
        self.lines["ranks-4"] = self.lines["ranks-4"][:300] + "}"
        code, text = self.report()
        self.assertEqual(code, 1)
        self.assertIn("cannot read the numbers of ranks-4: ", text)
        self.assertIn("4 threads    gather", text)

    def test_bandwidths_that_are_cut_short_are_kept(self):
        self.lines["bandwidth"] = self.lines["bandwidth"].split('{"name":"sum/float32/1048576')[0] + "}"
        code, text = self.report()
        self.assertEqual(code, 0)
        self.assertIn("float32      0.793 (max) to 0.965 (sum)", text)

    def test_what_has_another_form_costs_its_section_only(self):
        self.change("bandwidth", lambda found: found.pop("context"))
        self.change("ranks-4", lambda found: found.pop("config"))
        self.change("start", lambda found: found.update(driver_ms=None))
        code, text = self.report()
        self.assertEqual(code, 1)
        for line in ("cannot read bandwidth: KeyError 'context'", "cannot read the numbers of ranks-4: KeyError 'config'",
                     "cannot read the section start: TypeError", "4 threads    gather", "launch: 26.36 us"):
            self.assertIn(line, text)

    def test_runs_are_in_the_order_of_their_ranks(self):
        for ranks in (8, 2):
            self.lines[f"latency-{ranks}-stream"] = self.lines["latency-4-stream"].replace("latency-4", f"latency-{ranks}")
        self.report("a card")
        page = json.loads(next(self.results.glob("gpu-*.json")).read_text(encoding="utf-8"))
        self.assertEqual([run["run"] for run in page["latency"]], ["latency-2-stream", "latency-4-stream", "latency-8-stream"])


if __name__ == "__main__":
    unittest.main()
