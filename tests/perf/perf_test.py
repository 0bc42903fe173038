"""tutti-perf as its users meet it: perf_test.py PROGRAM WRONG_RESULT_LIBRARY [unittest arguments]."""
# Covers tools/perf/*.cc.
import json
import os
import pathlib
import pty
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest

PROGRAM = ""
WRONG_RESULT = ""
PATIENCE = 250  # seconds that no healthy run takes, however loaded the machine is
LAUNCHER_VARIABLES = ("OMPI_COMM_WORLD_RANK", "RANK", "WORLD_SIZE", "PMI_RANK", "PMIX_RANK", "SLURM_PROCID")


def environment(**more):
    kept = {name: value for name, value in os.environ.items() if name not in LAUNCHER_VARIABLES}
    return {**kept, **more}


def perf(*arguments, **more):
    return subprocess.run([PROGRAM, *arguments], env=environment(**more), capture_output=True, text=True, timeout=PATIENCE)


def rows(output):
    return [line.split() for line in output.splitlines() if line and not line.startswith("#")]


PRELOADS_NOTHING = "a sanitizer's library must be loaded first, so nothing can be preloaded"


def is_sanitized(program):
    code = pathlib.Path(program).read_bytes()
    return b"__asan_init" in code or b"__tsan_init" in code


def children_of(pid):
    """None of a process that has ended meanwhile."""
    try:
        text = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text()
    except OSError:
        return []
    return [int(word) for word in text.split()]


def is_alive(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def wait_until(condition):
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.01)
    return False


class Tables(unittest.TestCase):
    def assert_right(self, run, in_place="0"):
        self.assertEqual(run.returncode, 0, run.stderr + run.stdout)
        self.assertTrue(rows(run.stdout))
        for row in rows(run.stdout):
            self.assertEqual(row[8], "0", row)
            self.assertEqual(row[12], in_place, row)
        self.assertIn("# Out of bounds values : 0 OK", run.stdout)

    def test_collectives(self):
        for collective in ("all_reduce", "reduce_scatter", "all_gather", "broadcast", "reduce", "gather", "scatter", "all_to_all",
                           "all_gather_v"):
            for ranks in ("1", "3", "4"):
                with self.subTest(collective, ranks=ranks):
                    self.assert_right(perf(collective, "--ranks", ranks, "-e", "256K", "-f", "8", "-n", "2", "-r", "all"))

    def test_without_an_in_place_form(self):
        for collective in ("send_recv", "all_to_all_v"):
            for ranks in ("1", "3", "4"):
                with self.subTest(collective, ranks=ranks):
                    self.assert_right(perf(collective, "--ranks", ranks, "-e", "256K", "-f", "8", "-n", "2"), in_place="N/A")

    def test_the_names_of_nccl_tests(self):
        for name, ours in (("alltoall", "all_to_all"), ("alltoallv", "all_to_all_v"), ("sendrecv", "send_recv")):
            run = perf(name, "--ranks", "2", "-b", "64", "-e", "64", "-n", "1")
            self.assertIn("# Collective test starting: " + ours, run.stdout)
            self.assertEqual(run.returncode, 0, run.stderr)

    def test_size_is_that_of_the_whole_vector(self):
        for collective in ("all_gather", "reduce_scatter", "gather", "scatter", "all_to_all"):
            run = perf(collective, "--ranks", "3", "-b", "3000", "-e", "3000", "-n", "1")
            self.assertIn("# size: bytes of the whole vector, ranks times count elements", run.stdout)
            self.assertEqual(rows(run.stdout)[0][:2], ["3000", "250"], collective)

    def test_barrier(self):
        run = perf("barrier", "--ranks", "3", "-n", "5")
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertEqual(len(rows(run.stdout)), 1)

    def test_every_type_and_operation(self):
        for ranks in ("1", "2", "5"):
            run = perf("all_reduce", "--ranks", ranks, "-b", "3K", "-e", "3K", "-n", "1", "-w", "0", "-d", "all", "-o", "all")
            self.assert_right(run)
            pairs = {(row[2], row[3]) for row in rows(run.stdout)}
            self.assertEqual(len(pairs), 9 * 9 - 1 + 6 * 6)  # integers and bool, of which there is no average; floats

    def test_custom_operation(self):
        for collective in ("all_reduce", "reduce_scatter", "reduce"):
            run = perf(collective, "--ranks", "3", "-b", "60K", "-e", "60K", "-n", "1", "-d", "all", "-o", "custom")
            self.assert_right(run)
            self.assertEqual(len(rows(run.stdout)), 15)

    def test_wire_types(self):
        for wire in ("half", "bf16", "f8e4m3", "f8e5m2"):
            for collective in ("all_reduce", "reduce_scatter", "reduce"):
                run = perf(collective, "--ranks", "3", "-b", "8", "-e", "256K", "-f", "32", "-n", "1", "--wire", wire, "-o", "all")
                self.assert_right(run)
                self.assertIn("# float travels as ", run.stdout)

    def test_deterministic(self):
        run = perf("all_reduce", "--ranks", "5", "-b", "8", "-e", "256K", "-f", "32", "-n", "1", "--deterministic", "-d", "all", "-o", "all")
        self.assert_right(run)
        self.assertIn("# deterministic", run.stdout)

    def test_moves_every_type(self):
        run = perf("all_gather", "--ranks", "2", "-b", "1K", "-e", "1K", "-n", "1", "-d", "all")
        self.assert_right(run)
        self.assertEqual(len(rows(run.stdout)), 15)

    def test_threads(self):
        run = perf("all_reduce", "--ranks", "4", "--threads", "-e", "64K", "-n", "2")
        self.assert_right(run)
        self.assertIn("ranks 4 (threads)", run.stdout)

    def test_sizes(self):
        def sizes(*options):
            return [int(row[0]) for row in rows(perf("all_reduce", "--ranks", "1", "-n", "1", *options).stdout)]
        self.assertEqual(sizes("-b", "1K", "-e", "8K"), [1024, 2048, 4096, 8192])
        self.assertEqual(sizes("-b", "1.5K", "-e", "4K", "-i", "1K"), [1536, 2560, 3584])
        self.assertEqual(sizes("-b", "1", "-e", "9", "-f", "2"), [4, 8])  # a size once, at least one element
        self.assertEqual(sizes("-b", "0", "-e", "0"), [0])

    def test_the_last_of_an_option_given_twice_counts(self):
        self.assertEqual(len(rows(perf("all_reduce", "--ranks", "1", "-n", "1", "-e", "1G", "-e", "8").stdout)), 1)

    def test_registered_buffers(self):
        run = perf("all_reduce", "--ranks", "2", "-b", "64K", "-e", "1M", "-f", "4", "-n", "3", "-R", "1")
        self.assert_right(run)
        self.assertIn("# buffers from tuttiMemAlloc", run.stdout)

    def test_unchecked(self):
        run = perf("all_reduce", "--ranks", "2", "-b", "64", "-e", "64", "-c", "0", "-n", "1")
        self.assertEqual(rows(run.stdout)[0][8], "N/A")
        self.assertIn("(not checked)", run.stdout)

    def test_algorithm_and_transport(self):
        run = perf("all_reduce", "--ranks", "2", "-b", "64K", "-e", "64K", "-n", "1", "--algo", "ring", "--transport", "shm")
        self.assert_right(run)
        self.assertEqual(rows(run.stdout)[0][-2:], ["shm", "ring"])


class Reports(unittest.TestCase):
    def test_json(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "out.json"
            run = perf("all_reduce", "--ranks", "2", "-b", "8", "-e", "1K", "-n", "3", "-J", str(path), PRIVATE_WORD="abracadabra")
            self.assertEqual(run.returncode, 0, run.stderr)
            text = path.read_text()
            self.assertEqual(os.listdir(folder), ["out.json"])
        self.assertNotIn("abracadabra", text)
        report = json.loads(text)
        self.assertEqual(set(report), {"version", "machine", "config", "results", "average_bus_bandwidth"})
        self.assertEqual(len(report["results"]), 8)
        first = report["results"][0]
        self.assertEqual(set(first), {"collective", "transport", "algorithm", "ranks", "size", "count", "type", "redop", "root",
                                      "out_of_place", "in_place"})
        self.assertEqual([first[key] for key in ("collective", "ranks", "size", "count", "type", "redop", "root")],
                         ["all_reduce", 2, 8, 2, "float", "sum", -1])
        for direction in (first["out_of_place"], first["in_place"]):
            self.assertEqual(set(direction), {"time_us", "alg_bw", "bus_bw", "nwrong"})
            self.assertEqual(set(direction["time_us"]), {"min", "p50", "p99", "avg"})
            self.assertEqual(direction["nwrong"], 0)
            self.assertLessEqual(direction["time_us"]["min"], direction["time_us"]["p50"])
            self.assertLessEqual(direction["time_us"]["p50"], direction["time_us"]["p99"])

    def test_bandwidths(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "out.json"
            factors = {"all_reduce": 4 / 3, "all_gather": 2 / 3, "reduce_scatter": 2 / 3, "broadcast": 1, "reduce": 1, "gather": 2 / 3,
                       "scatter": 2 / 3, "all_to_all": 2 / 3, "all_gather_v": 2 / 3, "all_to_all_v": 2 / 3, "send_recv": 1}
            for collective, factor in factors.items():
                perf(collective, "--ranks", "3", "-b", "48K", "-e", "48K", "-n", "2", "-J", str(path))
                row = json.loads(path.read_text())["results"][0]
                one = row["out_of_place"]
                self.assertAlmostEqual(one["alg_bw"], row["size"] / one["time_us"]["avg"] / 1e3, places=6)
                self.assertAlmostEqual(one["bus_bw"], one["alg_bw"] * factor, places=6)
                self.assertEqual(row["in_place"] is None, collective in ("send_recv", "all_to_all_v"))

    def test_settings(self):
        run = perf("--env", TUTTI_TIMEOUT="12.5")
        self.assertEqual(run.returncode, 0)
        self.assertRegex(run.stdout, r"TUTTI_TIMEOUT +12\.5 \(default 600\)\n    \w")
        for name in ("TUTTI_TRANSPORT", "TUTTI_ALGO", "TUTTI_LOG", "TUTTI_SECRET_FILE"):
            self.assertIn(name, run.stdout)

    def test_a_secret_is_made_once(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "secret"
            run = perf("--make-secret", str(path))
            self.assertEqual((run.returncode, run.stdout, run.stderr), (0, "", ""))
            self.assertEqual(path.stat().st_mode & 0o777, 0o600)
            secret = path.read_text()
            self.assertRegex(secret, r"\A[0-9a-f]{64}\n\Z")
            again = perf("--make-secret", str(path))
            self.assertEqual(again.returncode, 2)
            self.assertIn("File exists", again.stderr)
            self.assertEqual(path.read_text(), secret)
            other = pathlib.Path(folder) / "other"
            self.assertEqual(perf("--make-secret", str(other)).returncode, 0)
            self.assertNotEqual(other.read_text(), secret)
            joined = perf("all_reduce", "--ranks", "2", "-e", "64", "-n", "1", TUTTI_SECRET_FILE=str(path))
            self.assertEqual(joined.returncode, 0, joined.stderr)

    def test_progress_is_for_terminals(self):
        self.assertEqual(perf("all_reduce", "--ranks", "1", "-e", "64", "-n", "1").stderr, "")
        master, slave = pty.openpty()
        run = subprocess.run([PROGRAM, "all_reduce", "--ranks", "1", "-e", "64", "-n", "1"], env=environment(),
                             stdout=subprocess.PIPE, stderr=slave, timeout=PATIENCE)
        os.close(slave)
        self.assertEqual(run.returncode, 0)
        self.assertIn(b"[1/4] all_reduce float 8B", os.read(master, 4096))
        os.close(master)


class Overlaps(unittest.TestCase):
    def test_every_size_has_its_share(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "overlap.json"
            run = perf("all_reduce", "--ranks", "2", "--threads", "--overlap", "-b", "8", "-e", "4K", "-n", "2", "-J", str(path))
            self.assertEqual(run.returncode, 0, run.stderr + run.stdout)
            report = json.loads(path.read_text())
        self.assertEqual([row[0] for row in rows(run.stdout)], ["8", "64", "512", "4096"])
        for row in report["overlap"]:
            hidden = row["operation_us"] + row["computation_us"] - row["both_us"]
            share = min(1, max(0, hidden / min(row["operation_us"], row["computation_us"])))
            self.assertAlmostEqual(row["overlap"], share, places=6)
            self.assertGreater(row["slowdown"], 0)
            self.assertEqual(row["nwrong"], 0)

    def test_all_kinds_of_calls(self):
        for name in ("broadcast", "all_gather_v", "all_to_all_v", "send_recv", "barrier"):
            run = perf(name, "--ranks", "2", "--threads", "--overlap", "-b", "1K", "-e", "1K", "-n", "1")
            self.assertEqual(run.returncode, 0, run.stderr + run.stdout)
            self.assertEqual(len(rows(run.stdout)), 1)

    def test_what_it_excludes(self):
        for more in (["--sweep"], ["-z", "1"], ["-C", "1"]):
            self.assertEqual(perf("all_reduce", "--overlap", *more).returncode, 2, more)


class Sweeps(unittest.TestCase):
    def cells(self, *arguments):
        run = perf(*arguments, "--sweep")
        self.assertEqual(run.returncode, 0, run.stderr + run.stdout)
        self.assertEqual(run.stderr, "")
        self.assertIn("# Out of bounds values : 0 OK", run.stdout)
        self.assertIn("cells: median", run.stdout)
        return rows(run.stdout)

    def test_every_algorithm_is_measured(self):
        cells = self.cells("broadcast", "--ranks", "3", "-b", "1K", "-e", "64K", "-r", "2", "-n", "3")
        self.assertEqual([cell[1] for cell in cells], ["1024", "8192", "65536"])
        for cell in cells:
            for name in ("all_pairs", "tree", "chain", "knomial_4", "double_tree", "scatter_all_gather"):
                self.assertIn(name, cell)
            self.assertGreaterEqual(float(cell[6]), 1)

    def test_isolated_calls(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "sweep.json"
            cells = self.cells("reduce", "--ranks", "3", "-e", "8", "-z", "1", "-J", str(path))
            report = json.loads(path.read_text())
        self.assertEqual(len(cells), 1)
        self.assertTrue(report["config"]["isolated_operations"])
        self.assertGreater(min(report["sweep"][0]["time_us"].values()), 0)
        self.assertGreaterEqual(report["sweep"][0]["chosen_by_best"], 1)

    def test_threads_and_names_in_force(self):
        cells = self.cells("all_reduce", "--ranks", "2", "--threads", "-e", "8", "-n", "2", "--transport", "inproc")
        self.assertEqual(len(cells), 1)
        forced = perf("all_reduce", "--ranks", "2", "-e", "8", "--sweep", "-n", "2", TUTTI_ALGO="ring")
        self.assertEqual(rows(forced.stdout)[0][2], "ring", forced.stderr + forced.stdout)

    def test_all_collectives(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "sweep.json"
            cells = self.cells("all", "--ranks", "2", "-b", "4K", "-e", "4K", "-n", "1", "-J", str(path))
            report = json.loads(path.read_text())
        names = {cell[0] for cell in cells}
        self.assertEqual(len(names), 11)
        self.assertEqual(names, {cell["collective"] for cell in report["sweep"]})
        for cell in report["sweep"]:
            self.assertIn(cell["chosen"], cell["time_us"])
            self.assertIn(cell["best"], cell["time_us"])
            self.assertGreaterEqual(cell["chosen_by_best"], 1)
            self.assertEqual(cell["nwrong"], 0)
        self.assertGreaterEqual(report["chosen_by_best"]["worst"], report["chosen_by_best"]["median"])

    def test_wrong_elements_are_counted(self):
        if is_sanitized(PROGRAM):
            self.skipTest(PRELOADS_NOTHING)
        run = perf("all_reduce", "--ranks", "2", "-b", "4K", "-e", "4K", "--sweep", "-n", "1", LD_PRELOAD=WRONG_RESULT)
        self.assertEqual(run.returncode, 1, run.stderr + run.stdout)
        self.assertIn("FAILED", run.stdout)


class Errors(unittest.TestCase):
    def assert_refused(self, *arguments):
        run = perf(*arguments)
        self.assertEqual(run.returncode, 2, run.stderr + run.stdout)
        self.assertEqual(run.stdout, "")
        self.assertTrue(run.stderr.startswith("tutti-perf: "), run.stderr)
        return run.stderr

    def test_bad_options(self):
        self.assertIn("no algorithms", self.assert_refused("send_recv", "--sweep"))
        self.assertIn("excludes --algo", self.assert_refused("all_reduce", "--sweep", "--algo", "ring"))
        self.assertIn("one type", self.assert_refused("all_reduce", "--sweep", "-d", "all"))
        self.assertIn("'all' is none", self.assert_refused("all"))
        self.assertIn("'foo' is no type", self.assert_refused("all_reduce", "-d", "foo"))
        self.assertIn("'mul' is no operation", self.assert_refused("all_reduce", "-o", "sum,mul"))
        self.assertIn("--bogus", self.assert_refused("all_reduce", "--bogus"))
        self.assertIn("'8X' is not a size", self.assert_refused("all_reduce", "-b", "8X"))
        self.assertIn("smallest size", self.assert_refused("all_reduce", "-b", "8K", "-e", "4K"))
        self.assertIn("factor", self.assert_refused("all_reduce", "-f", "1"))
        self.assertIn("name one of", self.assert_refused())
        self.assertIn("'sum' is none", self.assert_refused("sum"))
        self.assertIn("band is not defined for float", self.assert_refused("all_reduce", "-o", "band"))
        self.assertIn("reduces nothing", self.assert_refused("all_gather", "--wire", "half"))
        self.assertIn("'int8' is no wire type", self.assert_refused("all_reduce", "--wire", "int8"))
        self.assertIn("excludes", self.assert_refused("all_reduce", "--wire", "half", "--deterministic"))
        self.assertIn("no directory", self.assert_refused("all_reduce", "-J", "/no/such/place/x.json"))
        self.assertIn("no rank 3", self.assert_refused("broadcast", "--ranks", "2", "-r", "3"))
        self.assertIn("memory", self.assert_refused("all_reduce", "-e", "900G"))

    def test_bad_settings_are_told_once_a_rank_and_end_the_run(self):
        run = perf("all_reduce", "--ranks", "2", "-e", "64", TUTTI_TIMEOUT="soon")
        self.assertEqual(run.returncode, 1)
        self.assertIn("TUTTI_TIMEOUT", run.stderr)

    def test_wrong_elements_are_counted(self):
        if is_sanitized(PROGRAM):
            self.skipTest(PRELOADS_NOTHING)
        run = perf("all_reduce", "--ranks", "2", "-b", "2K", "-e", "8K", "-n", "2", LD_PRELOAD=WRONG_RESULT)
        self.assertEqual(run.returncode, 1, run.stderr)
        wrong = {row[0]: (row[8], row[12]) for row in rows(run.stdout)}
        self.assertEqual(wrong, {"2048": ("0", "0"), "4096": ("2", "2"), "8192": ("2", "2")})
        self.assertIn("# Out of bounds values : 8 FAILED", run.stdout)
        self.assertEqual(run.stderr, "")

    def start_long_run(self, ranks):
        process = subprocess.Popen([PROGRAM, "all_reduce", "--ranks", str(ranks), "-b", "1M", "-e", "1M", "-n", "1000000000"],
                                   env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.kill)
        self.assertTrue(wait_until(lambda: len(children_of(process.pid)) == ranks))
        for _ in range(6):
            process.stdout.readline()  # the table's head: all ranks have joined
        return process

    def test_a_killed_rank_ends_the_run(self):
        process = self.start_long_run(3)
        children = children_of(process.pid)
        os.kill(children[1], signal.SIGKILL)
        self.assertEqual(process.wait(timeout=PATIENCE), 1)
        self.assertIn("rank 1 ", process.stderr.read())
        self.assertFalse(any(is_alive(child) for child in children))

    def test_ranks_die_with_the_parent(self):
        process = self.start_long_run(2)
        children = children_of(process.pid)
        process.kill()
        process.wait(timeout=PATIENCE)
        self.assertTrue(wait_until(lambda: not any(is_alive(child) for child in children)))


class Launchers(unittest.TestCase):
    def test_torchrun_variables(self):
        port = str(20000 + os.getpid() % 12000)  # below those that connections get
        common = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
        ranks = [subprocess.Popen([PROGRAM, "all_reduce", "-e", "1K", "-n", "1"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                  text=True, env=environment(RANK=str(rank), LOCAL_RANK=str(rank), **common))
                 for rank in range(2)]
        outputs = [process.communicate(timeout=PATIENCE) for process in ranks]
        self.assertEqual([process.returncode for process in ranks], [0, 0], outputs)
        self.assertIn("ranks 2 (from a launcher)", outputs[0][0])
        self.assertEqual(outputs[1][0], "")

    def test_own_ranks_are_refused_under_a_launcher(self):
        run = perf("all_reduce", "--ranks", "2", RANK="0", WORLD_SIZE="1")
        self.assertEqual(run.returncode, 2)
        self.assertTrue(re.search("torchrun", run.stderr))


def descendants_of(pid):
    children = children_of(pid)
    return children + [grandchild for child in children for grandchild in descendants_of(child)]


def command_of(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/cmdline").read_text().split("\0")[0]
    except OSError:
        return ""


class Comparisons(unittest.TestCase):
    """--compare with the contestants of this build's bench/."""
    QUICK = ("--rounds", "1", "--pairs", "2", "--block-ms", "1")
    COLLECTIVES = ("all_reduce", "all_gather", "broadcast", "reduce", "reduce_scatter", "all_to_all", "gather", "scatter", "barrier")

    def contestants(self, *names):
        """The folder, where all of them are built."""
        if is_sanitized(PROGRAM):
            self.skipTest("the other libraries are not instrumented")
        folder = pathlib.Path(PROGRAM).parent.parent / "bench"
        for name in ("tutti", *names):
            if not (folder / f"contestant_{name}").exists():
                self.skipTest(f"this build has no contestant_{name}: the library is not installed, or TUTTI_BENCH is off")
        return folder

    def compare(self, collective, peers, *options):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "comparison.json"
            run = perf(collective, "--compare", peers, *self.QUICK, "-J", str(path), *options)
            return run, json.loads(path.read_text()) if path.exists() else None

    def assert_compared(self, run, report, peer):
        self.assertEqual(run.returncode, 0, run.stderr + run.stdout)
        self.assertEqual(report["nwrong"], 0)
        self.assertIn(peer, report["peers"])
        for check in report["checks"]:
            counted = sum(result["peers"][peer]["pairs"] for result in report["results"]
                          if result["size"] == check["size"] and peer in result.get("peers", {}))
            self.assertEqual(counted + check["pairs_left_out"][peer], 2, report)
            self.assertEqual(check["nwrong"][peer], 0)
        for result in report["results"]:
            self.assertIn(result["state"], ("near", "far"))
            for figures in result["peers"].values():
                self.assertGreater(figures["time_us"], 0)
                self.assertGreater(figures["ratio"], 0)

    def check_peer(self, name, collectives, ranks):
        for collective in collectives:
            with self.subTest(name, collective=collective, ranks=ranks):
                run, report = self.compare(collective, name, "--ranks", ranks, "-b", "24", "-e", "24K", "-f", "32")
                self.assert_compared(run, report, name)

    def test_the_floor(self):
        self.contestants("floor")
        self.check_peer("floor", self.COLLECTIVES, "2")

    def test_the_handover_of_cores(self):
        self.contestants("handover")
        run, report = self.compare("all_reduce", "handover", "--ranks", "16", "-b", "8", "-e", "8")
        self.assert_compared(run, report, "handover")
        self.assertIn("two hand-overs of every rank's core", run.stdout)

    def test_plain_sockets(self):
        self.contestants("sockets")
        for ranks in ("2", "3"):
            with self.subTest(ranks=ranks):
                run, report = self.compare("all_reduce", "sockets", "--ranks", ranks, "-b", "8", "-e", "8M", "-f", "1024")
                self.assert_compared(run, report, "sockets")
                self.assertIn("as many bytes by plain sockets", run.stdout)

    def test_an_all_reduce_by_plain_sockets(self):
        self.contestants("sockets_all_reduce")
        for ranks in ("2", "3", "5"):
            with self.subTest(ranks=ranks):
                run, report = self.compare("all_reduce", "sockets_all_reduce", "--ranks", ranks, "-b", "4", "-e", "4M",
                                           "-f", "32")
                self.assert_compared(run, report, "sockets_all_reduce")
                self.assertIn("an all_reduce by plain sockets", run.stdout)

    def test_open_mpi(self):
        self.contestants("openmpi")
        self.check_peer("openmpi", self.COLLECTIVES, "2")
        self.check_peer("openmpi", ("all_reduce", "gather"), "3")

    def test_mpich(self):
        self.contestants("mpich")
        self.check_peer("mpich", ("all_reduce", "scatter"), "2")

    def test_gloo(self):
        self.contestants("gloo")
        self.check_peer("gloo", [name for name in self.COLLECTIVES if name != "reduce_scatter"], "2")
        self.check_peer("gloo_batch", ("all_reduce",), "3")

    def test_ucc(self):
        self.contestants("ucc")
        self.check_peer("ucc", [name for name in self.COLLECTIVES if name != "scatter"], "2")

    def test_several_peers_in_one_table(self):
        self.contestants("openmpi", "floor")
        run, report = self.compare("all_reduce", "floor,openmpi,floor", "--ranks", "2", "-b", "8", "-e", "1K", "-f", "128")
        self.assert_compared(run, report, "floor")
        self.assert_compared(run, report, "openmpi")
        self.assertEqual(list(report["peers"]), ["floor", "openmpi"])
        self.assertRegex(report["peers"]["openmpi"], "Open MPI v[0-9.]+")
        self.assertEqual({check["size"] for check in report["checks"]}, {8, 1024})
        self.assertRegex(run.stdout, r"# +size +count state +tutti \| +floor +x pairs +out \| +openmpi +x pairs +out \| #wrong")

    def test_who_has_no_such_collective_is_left_out(self):
        self.contestants("gloo", "floor")
        run, report = self.compare("reduce_scatter", "gloo,floor", "--ranks", "2", "-b", "64", "-e", "64")
        self.assert_compared(run, report, "floor")
        self.assertIn("# not compared: gloo: Gloo has no reduce_scatter", run.stdout)

    def test_who_is_not_there_is_left_out(self):
        built = self.contestants("floor")
        with tempfile.TemporaryDirectory() as folder:
            for name in ("tutti", "floor"):
                os.symlink(built / f"contestant_{name}", f"{folder}/contestant_{name}")
            here = ("--contestants", folder, "--ranks", "2", "-b", "64", "-e", "64")
            run, report = self.compare("all_reduce", "mpich,floor", *here)
            self.assert_compared(run, report, "floor")
            self.assertRegex(run.stdout, "# not compared: mpich: there is no .*contestant_mpich .*libmpich-dev")
            run, report = self.compare("all_reduce", "mpich", *here)
            self.assertEqual(run.returncode, 1)
            self.assertRegex(run.stderr, "there is nobody to compare with; mpich: there is no ")

    def test_a_wrong_result_is_counted(self):
        self.contestants("floor")
        run, report = self.compare("all_reduce", "floor", "--ranks", "2", "-b", "8K", "-e", "8K", "--contestants", str(self.liar()))
        self.assertEqual(run.returncode, 1, run.stderr)
        self.assertEqual(report["checks"][0]["nwrong"], {"tutti": 2, "floor": 0})

    def liar(self):
        """A folder whose contestant_tutti has one wrong bit in each rank's result."""
        built = self.contestants("floor")
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        os.symlink(built / "contestant_floor", f"{folder.name}/contestant_floor")
        script = pathlib.Path(folder.name) / "contestant_tutti"
        script.write_text(f"#!/bin/sh\nLD_PRELOAD='{WRONG_RESULT}' exec '{built}/contestant_tutti' \"$@\"\n")
        script.chmod(0o755)
        return folder.name

    def start_long_run(self, peer):
        process = subprocess.Popen([PROGRAM, "all_reduce", "--compare", peer, "--ranks", "2", "-b", "1M", "-e", "1M", "--rounds", "100000"],
                                   env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.kill)

        def ranks():
            return [pid for pid in descendants_of(process.pid) if command_of(pid).endswith("contestant_" + peer)]
        self.assertTrue(wait_until(lambda: len(ranks()) == 2))
        time.sleep(0.5)  # joined, most likely; a death while joining is told as well
        return process, ranks()[1], descendants_of(process.pid)

    def check_a_killed_rank_is_named(self, peer):
        process, victim, everybody = self.start_long_run(peer)
        os.kill(victim, signal.SIGKILL)
        self.assertEqual(process.wait(timeout=PATIENCE), 1)
        self.assertRegex(process.stderr.read(), f"tutti-perf: {peer}: (rank [01]|the launcher) .*(in the middle of all_reduce of 1048576 bytes|joining)")
        self.assertTrue(wait_until(lambda: not any(is_alive(pid) for pid in everybody)))

    def test_a_killed_rank_is_named(self):
        self.contestants("floor")
        self.check_a_killed_rank_is_named("floor")

    def test_a_killed_rank_of_a_launcher_is_named(self):
        self.contestants("openmpi")
        self.check_a_killed_rank_is_named("openmpi")

    def test_ranks_die_with_the_leader(self):
        self.contestants("openmpi")
        process, _, everybody = self.start_long_run("openmpi")
        process.kill()
        process.wait(timeout=PATIENCE)
        self.assertTrue(wait_until(lambda: not any(is_alive(pid) for pid in everybody)))

    def test_bad_options(self):
        for options, complaint in (
                (("--compare", "openmpj"), "'openmpj' is no peer; one of: openmpi mpich gloo gloo_batch ucc floor handover sockets sockets_all_reduce all"),
                (("--compare", "floor,"), "'' is no peer"),
                (("--compare", "floor", "-d", "half"), "excludes -d"),
                (("--compare", "floor", "--threads"), "excludes --threads"),
                (("--compare", "floor", "-b", "0"), "-b must be above 0"),
                (("--compare", "floor", "--ranks", "513", "-e", "8"), "at most 512 ranks"),
                (("--rounds", "3"), "belongs to --compare")):
            with self.subTest(options):
                run = perf("all_reduce", *options)
                self.assertEqual(run.returncode, 2, run.stderr)
                self.assertIn(complaint, run.stderr)
                self.assertEqual(run.stdout, "")
        run = perf("send_recv", "--compare", "floor")
        self.assertEqual(run.returncode, 2)
        self.assertIn("send_recv is not compared", run.stderr)

    def test_a_launcher_is_refused(self):
        run = perf("all_reduce", "--compare", "floor", RANK="0", WORLD_SIZE="1")
        self.assertEqual(run.returncode, 2)
        self.assertIn("--compare starts its own ranks", run.stderr)


class TimedComparisons(unittest.TestCase):
    """Those that stop a process themselves."""

    def test_a_stopped_rank_is_named_and_ends_the_comparison(self):
        Comparisons.contestants(self, "floor")
        process = subprocess.Popen([PROGRAM, "all_reduce", "--compare", "floor", "--ranks", "2", "-T", "10", "-e", "64", "--rounds", "100000"],
                                   env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.kill)
        self.assertTrue(wait_until(lambda: len([pid for pid in children_of(process.pid) if command_of(pid).endswith("floor")]) == 2))
        everybody = children_of(process.pid)
        os.kill(everybody[-1], signal.SIGSTOP)
        self.assertEqual(process.wait(timeout=PATIENCE), 1)
        said = process.stderr.read()
        found = re.search(f"tutti-perf: floor: no answer within ([0-9]+) s, .*; rank 1 .process {everybody[-1]}. is stopped", said)
        self.assertTrue(found and int(found[1]) >= 10, said)
        self.assertTrue(wait_until(lambda: not any(is_alive(pid) for pid in everybody)))


if __name__ == "__main__":
    PROGRAM = os.path.abspath(sys.argv.pop(1))
    WRONG_RESULT = os.path.abspath(sys.argv.pop(1))
    unittest.main(verbosity=2)
