"""tutti-perf -g without a GPU: gpu_test.py PROGRAM STAND_IN [unittest arguments].

STAND_IN is tutti-perf on a stand-in for CUDA with two devices, so that collectives run through the C API on device
memory; PROGRAM is the real one, of which only the errors can be seen here.
"""
# Covers tools/perf/gpu_bench.cc, tools/perf/gpu_options.cc, tools/perf/gpu_fault.cc.
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

PROGRAM = ""
STAND_IN = ""
COLLECTIVES = ("all_reduce", "reduce_scatter", "all_gather", "broadcast", "reduce", "gather", "scatter", "all_to_all",
               "all_gather_v", "all_to_all_v")
QUICK = ("-b", "8", "-e", "64K", "-f", "64", "-n", "2", "-w", "1")


def run(program, *arguments, **more):
    kept = {name: value for name, value in os.environ.items()
            if not name.startswith(("OMPI_", "PMI", "SLURM_")) and name not in ("RANK", "WORLD_SIZE")}
    return subprocess.run([program, *arguments], env={**kept, **more}, capture_output=True, text=True, timeout=280)


def rows(output):
    return [line.split() for line in output.splitlines() if line and not line.startswith("#")]


class OnStandIn(unittest.TestCase):
    def measured(self, *arguments, ranks):
        """(output, JSON) of a run without a wrong element."""
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "x.json"
            found = run(STAND_IN, *arguments, "-J", str(path))
            self.assertEqual(found.returncode, 0, found.stderr + found.stdout)
            report = json.loads(path.read_text(encoding="utf-8"))
        self.assertEqual(report["config"]["ranks"], ranks)
        self.assertEqual([device["name"] for device in report["devices"]],
                         [f"stand-in {i}" for i in range(report["config"]["gpus"])])
        for device in report["devices"][:ranks]:
            self.assertGreater(device["copy_GB/s"], 0)
        self.assertTrue(report["results"])
        return found.stdout, report

    def assert_right(self, report, directions):
        """All elements were checked and right, and times and floors are there; `directions`: how many were checked."""
        seen = 0
        for result in report["results"]:
            self.assertEqual(result["transport"], "cuda")
            for direction in filter(None, (result["out_of_place"], result["in_place"])):
                self.assertEqual(direction["nwrong"], 0)
                self.assertGreater(direction["time_us"]["avg"], 0)
                self.assertGreater(direction["time_us"]["min"], 0)
                self.assertGreater(direction["floor_us"], 0)
                seen += 1
        self.assertEqual(seen, directions)

    def test_every_collective(self):
        for collective in COLLECTIVES:
            with self.subTest(collective):
                output, report = self.measured(collective, *QUICK, "-g", "1", "--ranks-per-gpu", "4", ranks=4)
                sizes = len(rows(output))
                self.assertEqual(sizes, 3)
                self.assert_right(report, sizes if collective == "all_to_all_v" else 2 * sizes)
                self.assertEqual(report["config"]["times_by"], "CUDA events around calls on a stream")

    def test_barrier(self):
        output, report = self.measured("barrier", "-n", "2", "-g", "1", "--ranks-per-gpu", "3", ranks=3)
        self.assertEqual(len(rows(output)), 1)
        self.assertGreater(report["results"][0]["out_of_place"]["time_us"]["avg"], 0)

    def test_the_floor_counts_what_moves(self):
        """Elements read and written by all ranks of a device, by its rate: 4 ranks, 64 KiB."""
        moved = {"all_reduce": (8, 8), "all_gather": (5, 4), "broadcast": (5, 4), "gather": (2, 1.5)}
        for collective, (out, placed) in moved.items():
            _, report = self.measured(collective, "-b", "64K", "-e", "64K", "-n", "1", "-w", "0", "-g", "1", "--ranks-per-gpu", "4",
                                      ranks=4)
            rate = report["devices"][0]["copy_GB/s"] * 1e3  # bytes in a microsecond
            result = report["results"][0]
            self.assertAlmostEqual(result["out_of_place"]["floor_us"] * rate, out * 65536, delta=1, msg=collective)
            self.assertAlmostEqual(result["in_place"]["floor_us"] * rate, placed * 65536, delta=1, msg=collective)

    def test_several_devices(self):
        output, report = self.measured("all_reduce", *QUICK, "-g", "2", ranks=2)
        self.assert_right(report, 6)
        self.assertIn("# device 1: stand-in 1, copies at", output)
        _, report = self.measured("reduce_scatter", *QUICK, "-g", "2", "--ranks-per-gpu", "2", ranks=4)
        self.assert_right(report, 6)
        _, report = self.measured("broadcast", *QUICK, "-g", "2", "--ranks", "3", "--threads", "-r", "all", ranks=3)
        self.assert_right(report, 18)

    def test_processes_that_share_a_device(self):
        output, report = self.measured("all_reduce", *QUICK, "-g", "1", "--ranks", "2", ranks=2)
        self.assertEqual(report["config"]["ranks_are"], "processes")
        self.assertEqual({result["out_of_place"]["nwrong"] for result in report["results"]}, {0})

    def test_types_and_operations(self):
        output, report = self.measured("all_reduce", "-b", "256", "-e", "256", "-n", "1", "-w", "0", "-d", "all", "-o", "all",
                                       "-g", "1", "--ranks-per-gpu", "2", ranks=2)
        pairs = {(result["type"], result["redop"]) for result in report["results"]}
        self.assertGreaterEqual(len(pairs), 68)  # all built-in operations that their types define
        self.assert_right(report, 2 * len(pairs))

    def test_blocking_calls_are_timed_by_the_host(self):
        output, report = self.measured("all_gather", *QUICK, "-z", "1", "-g", "1", "--ranks-per-gpu", "2", ranks=2)
        self.assert_right(report, 6)
        self.assertIn("times by the host's clock around blocking calls", output)

    def test_captured_calls(self):
        output, report = self.measured("all_reduce", *QUICK, "-G", "10", "-g", "1", "--ranks-per-gpu", "2", ranks=2)
        self.assert_right(report, 6)
        self.assertIn("times by CUDA events around replays of a graph of 10 calls", output)

    def test_a_wrong_result_is_counted(self):
        found = run(STAND_IN, "all_reduce", "-b", "64", "-e", "4K", "-f", "64", "-n", "1", "-g", "1", "--ranks-per-gpu", "2",
                    PERF_STAND_IN="lie")
        self.assertEqual(found.returncode, 1, found.stderr)
        wrong = {row[0]: (row[8], row[12]) for row in rows(found.stdout)}
        self.assertEqual(wrong["64"], ("0", "0"))
        self.assertEqual(wrong["4096"][1], "2")  # in place: one of each rank
        self.assertIn("FAILED", found.stdout)

    def test_a_fault_of_the_device_ends_the_run_with_its_text(self):
        found = run(STAND_IN, "all_reduce", "-b", "4K", "-e", "4K", "-g", "1", "--ranks-per-gpu", "2", PERF_STAND_IN="fault")
        self.assertEqual(found.returncode, 1)
        self.assertIn("illegal memory access", found.stderr)

    def test_rows_before_a_fault_are_kept(self):
        for mode in ("fault", "crash"):
            with self.subTest(mode), tempfile.TemporaryDirectory() as folder:
                path = pathlib.Path(folder) / "x.json"
                found = run(STAND_IN, "all_reduce", "-b", "64", "-e", "4K", "-f", "64", "-n", "1", "-g", "1", "--ranks-per-gpu", "2",
                            "-J", str(path), PERF_STAND_IN=mode)
                self.assertNotEqual(found.returncode, 0)
                report = json.loads(path.read_text(encoding="utf-8"))
                self.assertEqual(([row["size"] for row in report["results"]], report["incomplete"]), ([64], True))

    def test_more_devices_than_there_are(self):
        found = run(STAND_IN, "all_reduce", "-g", "3")
        self.assertEqual((found.returncode, found.stdout), (2, ""))
        self.assertIn("-g 3: there is no device 2: 0 is stand-in 0; 1 is stand-in 1; several ranks share one with --ranks-per-gpu",
                      found.stderr)

    def test_more_ranks_than_a_device_takes(self):
        found = run(STAND_IN, "all_reduce", "-e", "64", "-g", "1", "--ranks-per-gpu", "9", "--transport", "cuda")
        self.assertEqual(found.returncode, 1)
        self.assertIn("9 ranks", found.stderr)


class OnThisMachine(unittest.TestCase):
    def assert_refused(self, *arguments, **more):
        found = run(PROGRAM, *arguments, **more)
        self.assertEqual((found.returncode, found.stdout), (2, ""), found.stderr)
        return found.stderr

    def test_without_a_device(self):
        text = self.assert_refused("all_reduce", "-g", "1", CUDA_VISIBLE_DEVICES="")
        self.assertRegex(text, "tutti-perf: -g: (this tutti-perf was built without CUDA|there is no CUDA driver|no CUDA-capable device)")
        self.assertEqual(len(text.splitlines()), 1, text)

    def test_host_buffers_need_no_device(self):
        found = run(PROGRAM, "all_reduce", "--ranks", "2", "-e", "64", "-n", "1", CUDA_VISIBLE_DEVICES="")
        self.assertEqual(found.returncode, 0, found.stderr)
        self.assertNotRegex(found.stdout, "device|floor")

    def test_bad_combinations(self):
        for options, complaint in (
                (("--ranks-per-gpu", "2"), "--ranks-per-gpu: belongs to -g"),
                (("--cudagraph", "2"), "--cudagraph: belongs to -g"),
                (("-g", "1", "--sweep"), "-g: excludes --sweep"),
                (("-g", "1", "--overlap"), "-g: excludes --overlap"),
                (("-g", "1", "--compare", "floor"), "-g: excludes --compare"),
                (("-g", "1", "-C", "1"), "-g: excludes -C 1"),
                (("-g", "1", "-R", "1"), "-g: excludes -R 1"),
                (("-g", "1", "-o", "custom"), "-g: excludes -o custom"),
                (("-g", "1", "-G", "10", "-z", "1"), "--cudagraph: excludes -z 1"),
                (("-g", "1", "--ranks-per-gpu", "2", "--ranks", "2"), "--ranks-per-gpu: excludes --ranks"),
                (("-g", "-1"), "not in range"), (("-g", "1", "--ranks-per-gpu", "0"), "not in range")):
            with self.subTest(options):
                self.assertIn(complaint, self.assert_refused("all_reduce", *options))

    def test_own_ranks_are_refused_under_a_launcher(self):
        text = self.assert_refused("all_reduce", "-g", "1", "--ranks-per-gpu", "2", RANK="0", WORLD_SIZE="1", CUDA_VISIBLE_DEVICES="")
        self.assertTrue(re.search("launcher|CUDA", text), text)


if __name__ == "__main__":
    PROGRAM = sys.argv.pop(1)
    STAND_IN = sys.argv.pop(1)
    unittest.main(verbosity=2)
