"""tutti-sim as its users meet it: sim_test.py PROGRAM [unittest arguments]."""
# Covers tools/sim/*.cc, tools/model/world.cc.
import csv
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

PROGRAM = ""


def sim(*arguments):
    return subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, timeout=250)


def rows(*arguments):
    """The rows of a simulation as dictionaries."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "rows.csv"
        run = sim(*arguments, "--csv", str(path))
        assert run.returncode == 0, run.stderr
        with path.open(encoding="utf-8") as file:
            return list(csv.DictReader(file))


def time_of(*arguments):
    (row,) = rows(*arguments)
    return int(row["time_ps"])


class Choices(unittest.TestCase):
    def test_what_is_chosen_takes_at_most_a_fifth_longer_than_the_best(self):
        rates = "1gbit,10gbit,100gbit,400gbit" if os.environ.get("TEST_DEPTH", "all") == "all" else "1gbit,100gbit"
        tool = pathlib.Path(__file__).resolve().parents[2] / "tools/choices.py"
        done = subprocess.run([sys.executable, tool, "--simulator", PROGRAM, "--most", "1.2", "--rates", rates, "barrier", "scatter",
                               "reduce", "reduce_scatter", "all_to_all"], capture_output=True, text=True, timeout=280)
        print(done.stdout)
        self.assertEqual(done.returncode, 0, done.stderr)


class Tables(unittest.TestCase):
    def test_every_collective(self):
        for collective in ("all_reduce", "reduce_scatter", "all_gather", "broadcast", "reduce", "gather", "scatter",
                           "all_to_all", "barrier"):
            with self.subTest(collective):
                found = rows(collective, "--ranks", "1,5,64", "--per-host", "4", "--bytes", "8,64K", "--bandwidth", "10gbit")
                self.assertTrue(all(int(row["time_ps"]) > 0 for row in found if row["ranks"] != "1"))
                for ranks in ("1", "5", "64"):
                    for size in {row["bytes"] for row in found}:
                        chosen = [row for row in found if row["ranks"] == ranks and row["bytes"] == size and row["auto"] == "1"]
                        self.assertEqual(len(chosen), 1)

    def test_the_printed_table(self):
        run = sim("all_reduce", "--ranks", "8", "--algo", "ring,auto", "--bytes", "1M")
        self.assertEqual(run.returncode, 0, run.stderr)
        lines = run.stdout.splitlines()
        self.assertEqual(lines[1].split()[:6], ["ranks", "hosts", "bytes", "algorithm", "time", "busbw"])
        self.assertEqual(len(lines), 5)
        self.assertIn("ring", lines[3])
        self.assertIn("*", lines[4])

    def test_messages_are_as_large_as_the_librarys(self):
        sizes = ("--bytes", "16M", "--algo", "ring")
        for world, default, other in ((("--ranks", "4", "--transport", "tcp"), "512K", "256K"), (("--ranks", "4", "--per-host", "1"), "512K", "256K"),
                                      (("--ranks", "4", "--per-host", "2"), "256K", "512K"), (("--ranks", "4"), "256K", "512K")):
            with self.subTest(world):
                question = ("all_reduce", *world, *sizes)
                self.assertEqual(time_of(*question), time_of(*question, "--max-message", default))
                self.assertNotEqual(time_of(*question), time_of(*question, "--max-message", other))

    def test_costs_can_be_printed_and_read(self):
        printed = sim("--print-costs")
        self.assertEqual(printed.returncode, 0, printed.stderr)
        slow = printed.stdout.replace("\nstep ", "\nstep 1")
        self.assertNotEqual(slow, printed.stdout)
        with tempfile.NamedTemporaryFile("w") as file:
            file.write(slow)
            file.flush()
            question = ("barrier", "--ranks", "2", "--algo", "dissemination")
            self.assertGreater(time_of(*question, "--costs", file.name), time_of(*question))


class Networks(unittest.TestCase):
    RING = ("all_reduce", "--algo", "ring", "--ranks", "64", "--per-host", "1", "--bytes", "16M")

    def test_bandwidth_and_latency(self):
        fast = time_of(*self.RING, "--bandwidth", "10gbit")
        slow = time_of(*self.RING, "--bandwidth", "1gbit")
        self.assertGreater(slow, 5 * fast)
        # 2 (n-1)/n of the data on each link, at a gigabit a second.
        self.assertAlmostEqual(slow / 1e12, 2 * 63 / 64 * (1 << 24) * 8 / 1e9, delta=0.1 * slow / 1e12)
        far = time_of(*self.RING, "--bandwidth", "10gbit", "--latency", "1ms")
        self.assertAlmostEqual(far - fast, 126 * 1e9, delta=5e9)

    def test_a_narrow_way_up(self):
        doubling = ("all_reduce", "--algo", "recursive_doubling", "--ranks", "64", "--per-host", "1", "--bytes", "256K",
                    "--bandwidth", "10gbit")
        wide = time_of(*doubling, "--hosts-per-leaf", "8")
        self.assertEqual(wide, time_of(*doubling))
        narrow = time_of(*doubling, "--hosts-per-leaf", "8", "--oversubscription", "4")
        # Three of six rounds leave the leaves, and take four times as long.
        self.assertAlmostEqual(narrow - wide, 3 * 3 * (1 << 18) * 8 / 10e9 * 1e12, delta=0.02 * narrow)

    def test_hosts_on_leaves(self):
        tree = ("all_reduce", "--algo", "hierarchical", "--ranks", "64", "--per-host", "4", "--bytes", "4M", "--bandwidth", "10gbit",
                "--hosts-per-leaf", "4", "--oversubscription", "4")
        filled, dealt, shuffled = (time_of(*tree, "--hosts-on-leaves", order) for order in ("filled", "dealt", "shuffled"))
        self.assertEqual(filled, time_of(*tree))
        # Of each leaf one host's ring leaves it, or all four do, over a way up that carries one.
        self.assertLess(1.5 * filled, shuffled)
        self.assertGreater(dealt, 3 * filled)
        self.assertLess(dealt, 4.1 * filled)

    def test_ranks_over_tcp_have_places_each(self):
        tree = ("all_reduce", "--algo", "ring", "--ranks", "16", "--transport", "tcp", "--bytes", "4M", "--bandwidth", "10gbit",
                "--hosts-per-leaf", "4", "--oversubscription", "4")
        self.assertGreater(time_of(*tree, "--hosts-on-leaves", "dealt"), 2 * time_of(*tree))
        self.assertGreater(time_of(*tree, "--slow-link", "15:8"), 1.9 * time_of(*tree))

    def test_slow_hosts_and_links(self):
        ring = ("all_reduce", "--algo", "ring", "--ranks", "16", "--per-host", "1", "--bytes", "4M", "--bandwidth", "10gbit")
        alike = time_of(*ring)
        self.assertEqual(alike, time_of(*ring, "--slow-link", "3:1", "--slow-host", "5:1"))
        self.assertAlmostEqual(time_of(*ring, "--slow-link", "3:4") / alike, 4, delta=0.3)
        self.assertEqual(time_of(*ring, "--slow-link", "3:4,9:4"), time_of(*ring, "--slow-link", "9:4,3:4"))
        self.assertGreater(time_of(*ring, "--slow-host", "3:8"), alike)

    def test_symmetry_is_events(self):
        for network in (("--per-host", "1"), ("--per-host", "4"), ("--per-host", "4", "--hosts-per-leaf", "4", "--oversubscription", "2")):
            question = ("all_reduce", "--algo", "ring", "--ranks", "64", "--bytes", "4M", "--bandwidth", "10gbit", *network)
            (short,), (long,) = rows(*question), rows(*question, "--one-by-one")
            self.assertEqual((short["method"], long["method"]), ("symmetry", "events"))
            self.assertEqual(short["time_ps"], long["time_ps"])

    def test_many_ranks(self):
        found = rows("all_reduce", "--ranks", "32768", "--per-host", "8", "--bytes", "1K", "--bandwidth", "100gbit",
                     "--algo", "recursive_doubling,hierarchical_leaders,ring")
        self.assertEqual([row["method"] for row in found], ["events", "events", "symmetry"])
        self.assertTrue(all(int(row["peak_mib"]) < 4096 for row in found))
        times = {row["algorithm"]: int(row["time_ps"]) for row in found}
        self.assertLess(times["hierarchical_leaders"], times["recursive_doubling"])
        self.assertGreater(times["ring"], 100 * times["recursive_doubling"])

    def test_more_passes_end_at_the_pace_that_lasts(self):
        call = ["broadcast", "--ranks", "16", "--per-host", "8", "--bytes", "16M", "--algo", "hierarchical", "--bandwidth", "100gbit"]
        few, many, all_of_them = (time_of(*call, "--passes", passes) for passes in ("8", "64", "100000"))
        self.assertLess(abs(many - all_of_them), abs(few - all_of_them))

    def test_what_is_too_large_is_said(self):
        run = sim("all_to_all", "--ranks", "65536", "--per-host", "1", "--algo", "pairwise", "--bytes", "8")
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertIn("too large", run.stdout)


class Errors(unittest.TestCase):
    def assert_refused(self, text, *arguments):
        run = sim(*arguments)
        self.assertEqual(run.returncode, 2, run.stdout)
        self.assertIn(text, run.stderr)
        self.assertTrue(run.stderr.startswith("tutti-sim: "), run.stderr)

    def test_bad_options(self):
        self.assert_refused("name one of: all_reduce", "--ranks", "4")
        self.assert_refused("how many ranks", "all_reduce")
        self.assert_refused("no number of ranks", "all_reduce", "--ranks", "4,x")
        self.assert_refused("no number of ranks", "all_reduce", "--ranks", "1.5")
        self.assert_refused("excludes", "all_reduce", "--ranks", "4", "--hosts", "2", "--per-host", "2")
        self.assert_refused("does not offer 'chain'", "all_reduce", "--ranks", "4", "--algo", "chain")
        self.assert_refused("is not a size", "all_reduce", "--ranks", "4", "--bytes", "8,lots")
        self.assert_refused("'fast' is no rate", "all_reduce", "--ranks", "4", "--bandwidth", "fast")
        self.assert_refused("'5 parsecs' is no time", "all_reduce", "--ranks", "4", "--latency", "5 parsecs")
        self.assert_refused("more than 10 s", "all_reduce", "--ranks", "4", "--bandwidth", "1kbit")
        self.assert_refused("not between 1 and 1000", "all_reduce", "--ranks", "4", "--oversubscription", "0.5")
        self.assert_refused("neither filled nor dealt", "all_reduce", "--ranks", "4", "--per-host", "1", "--hosts-per-leaf", "2", "--hosts-on-leaves", "sorted")
        self.assert_refused("there is one switch", "all_reduce", "--ranks", "4", "--hosts-on-leaves", "dealt")
        self.assert_refused("there is no host 4 of 4", "all_reduce", "--ranks", "4", "--per-host", "1", "--slow-host", "4:2")
        links = ("all_reduce", "--ranks", "4", "--per-host", "1", "--bandwidth", "1gbit", "--slow-link")
        self.assert_refused("'3:0.5' is no host", *links, "1:2,3:0.5")
        self.assert_refused("'3:nan' is no host", *links, "3:nan")
        self.assert_refused("'' is no host", *links, "3:2,")
        self.assert_refused("host 3 is named twice", *links, "3:2,3:4")
        self.assert_refused("--bandwidth gives them a rate", "all_reduce", "--ranks", "4", "--per-host", "1", "--slow-link", "3:2")
        self.assert_refused("to host 3 would take more than 10 s", *links, "3:100", "--max-message", "1G")
        self.assert_refused("there is no rank 7", "broadcast", "--ranks", "4", "--root", "7")
        self.assert_refused("8 hosts for 4 ranks", "all_reduce", "--ranks", "4", "--hosts", "8")
        self.assert_refused("cannot be read", "all_reduce", "--ranks", "4", "--costs", "/nonexistent")

    def test_a_file_that_cannot_be_written(self):
        run = sim("all_reduce", "--ranks", "4", "--csv", "/nonexistent/rows.csv")
        self.assertEqual(run.returncode, 1)
        self.assertIn("cannot be written", run.stderr)

    def test_a_full_disk_is_told(self):
        run = sim("barrier", "--ranks", "2", "--csv", "/dev/full")
        self.assertEqual(run.returncode, 1)
        self.assertIn("cannot be written", run.stderr)

    def test_help(self):
        run = sim("--help")
        self.assertEqual(run.returncode, 0)
        for word in ("--ranks", "--bytes", "--hosts", "--algo", "--latency", "--bandwidth", "--oversubscription", "--costs"):
            self.assertIn(word, run.stdout)


if __name__ == "__main__":
    PROGRAM = sys.argv.pop(1)
    unittest.main()
