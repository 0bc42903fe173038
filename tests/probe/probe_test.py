"""tutti-probe as its users meet it: probe_test.py PROBE PERF [unittest arguments]."""
# Covers tools/probe/*.cc, core/costs_file.cc.
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

PROBE = ""
PERF = ""


def run(program, *arguments, **more):
    environment = {name: value for name, value in os.environ.items() if name != "TUTTI_COSTS"}
    return subprocess.run([program, *arguments], env={**environment, **more}, capture_output=True, text=True, timeout=550)


def sweep(path, cells, ranks=4):
    """A sweep's file as tutti-perf writes it, with the times of `cells`: collective, transport, count, times."""
    rows = [{"collective": collective, "transport": transport, "count": count, "element_bytes": 4, "root": 0,
             "chosen": next(iter(times)), "time_us": times} for collective, transport, count, times in cells]
    path.write_text(json.dumps({"config": {"ranks": ranks}, "sweep": rows}))
    return str(path)


class Folder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)


class Learning(Folder):
    def quality(self, line):
        return [float(number) for number in re.findall(r"off by (\d+) %|median (\S+),|within (\S+),", line) for number in number if number]

    def test_it_learns_from_a_sweep(self):
        # A machine where messages cost a hundred times what the built-in costs say.
        slow = [("all_reduce", "tcp", 2, {"all_pairs": 1200.0, "recursive_doubling": 820.0, "ring": 2400.0}),
                ("all_gather", "tcp", 2, {"all_pairs": 1200.0, "bruck": 810.0, "ring": 1210.0})]
        done = run(PROBE, sweep(self.folder / "slow.json", slow), "--print", "--rounds", "8")
        self.assertEqual(done.returncode, 0, done.stderr)
        first, now = [line for line in done.stdout.splitlines() if "predictions off" in line]
        self.assertLess(self.quality(now)[0], self.quality(first)[0] / 2, done.stdout)
        costs = dict(line.split() for line in done.stdout.splitlines() if re.fullmatch(r"\S+ \d+", line))
        self.assertEqual(len(costs), 24, done.stdout)

    def test_without_rounds_it_only_tells(self):
        path = sweep(self.folder / "a.json", [("barrier", "shm", 0, {"all_pairs": 1.0, "dissemination": 2.0})])
        done = run(PROBE, path, "--print", "--rounds", "0")
        first, now = [line.split(":", 1)[1].strip() for line in done.stdout.splitlines() if "predictions off" in line]
        self.assertEqual(first, now)


class Files(Folder):
    def test_the_library_follows_what_was_measured(self):
        done = run(PROBE, "--perf", PERF, "--rounds", "1", XDG_CACHE_HOME=str(self.folder))
        self.assertEqual(done.returncode, 0, done.stderr)
        (written,) = (self.folder / "tutti").iterdir()
        self.assertIn(f"written: {written}", done.stdout)
        # All-to-all by the fewest messages, which only a machine with dear messages would choose.
        written.write_text("tcp.send_overhead 2000000000\ntcp.recv_overhead 2000000000\ncores 64\n")
        chosen = {}
        for costs in ("auto", "builtin", str(written)):
            table = run(PERF, "all_to_all", "--ranks", "8", "--transport", "tcp", "-b", "64", "-e", "64", "-n", "1",
                        XDG_CACHE_HOME=str(self.folder), TUTTI_COSTS=costs)
            self.assertEqual(table.returncode, 0, table.stderr)
            (row,) = [line.split() for line in table.stdout.splitlines() if line and line[0] != "#"]
            chosen[costs] = row[-1]
        self.assertEqual(chosen["auto"], "bruck")
        self.assertEqual(chosen[str(written)], "bruck")

    def test_a_file_that_is_not_there_ends_the_join(self):
        table = run(PERF, "all_reduce", "--ranks", "2", "-e", "8", TUTTI_COSTS=str(self.folder / "none"))
        self.assertEqual(table.returncode, 1)
        self.assertIn("TUTTI_COSTS", table.stderr)


class Errors(Folder):
    def refused(self, *arguments, **more):
        done = run(PROBE, *arguments, **more)
        self.assertNotEqual(done.returncode, 0)
        self.assertTrue(done.stderr.startswith("tutti-probe: "), done.stderr)
        return done.stderr

    def test_bad_files(self):
        garbage = self.folder / "garbage.json"
        garbage.write_text("{}")
        self.assertIn("not a sweep", self.refused(str(garbage)))
        garbage.write_text("nothing")
        self.assertIn("not a sweep", self.refused(str(garbage)))
        self.assertIn("not a sweep", self.refused(str(self.folder / "none.json")))
        self.assertIn("no cell", self.refused(sweep(self.folder / "empty.json", [])))

    def test_hosts_of_one_rank_or_one_host(self):
        self.assertIn("run on one host", self.refused("--hosts"))
        self.assertIn("--hosts", self.refused("--hosts", sweep(self.folder / "a.json", [])))
        self.assertIn("--hosts", self.refused("--hosts", "--rounds", "3"))

    def test_cells_that_cannot_be(self):
        for collective, count in (("all_reduce", -1), ("all_reduce", 1e300)):
            path = sweep(self.folder / "cell.json", [(collective, "shm", count, {"all_pairs": 1.0})])
            self.assertIn("cannot be", self.refused(path, "--print"))
        self.assertIn("not a sweep", self.refused(str(self.folder)))

    def test_what_it_writes_can_be_read(self):
        path = sweep(self.folder / "slow.json", [("all_reduce", "tcp", 2, {"all_pairs": 1e9, "ring": 1e9})])
        out = self.folder / "costs"
        done = run(PROBE, path, "--rounds", "60", "--out", str(out))
        self.assertEqual(done.returncode, 0, done.stderr)
        again = run(PROBE, path, "--rounds", "0", "--print", "--start", str(out))
        self.assertEqual(again.returncode, 0, again.stderr)

    def test_bad_options(self):
        self.assertIn("no file", self.refused(sweep(self.folder / "b.json", [("barrier", "shm", 0, {"all_pairs": 1.0})]),
                                              "--rounds", "0", "--out", "/dev/full"))
        self.assertIn("--bogus", self.refused("--bogus"))
        self.assertIn("--perf", self.refused("--perf", str(self.folder / "none")))
        path = sweep(self.folder / "a.json", [("barrier", "shm", 0, {"all_pairs": 1.0})])
        self.assertIn("cannot be written", self.refused(path, "--rounds", "0", "--out", "/proc/none/costs"))
        self.assertIn("--out", self.refused(path, HOME="", XDG_CACHE_HOME=""))


if __name__ == "__main__":
    PROBE, PERF = sys.argv[1:3]
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
