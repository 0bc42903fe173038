#!/usr/bin/env python3
"""tools/gpu-check.sh without a GPU: gpu_check_test.py STAND_IN [unittest arguments].

STAND_IN is tutti-perf on a stand-in for a device, which can hang, crash or bring a wrong sum; it runs the collectives
of the checks with small messages. What else a check needs is a script that gives what gpu_report/ has recorded, so of those
programs only their use is tested here.
"""
# Covers tools/gpu-check.sh, tools/gpu_report.py.
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SAMPLES = pathlib.Path(__file__).resolve().parent / "gpu_report"
STAND_IN = ""
# Messages have at most 16 KiB, and there are few of them. $PLANTS has lines of a number of ranks and what goes wrong with them.
PERF = """#!/bin/bash
while read -r ranks plant; do
  [[ " $* " != *" --ranks-per-gpu $ranks "* ]] || export PERF_STAND_IN=$plant
done < "$PLANTS"
arguments=() last=
for argument; do
  case $last$argument in
    -e*M) argument=16K ;;
    -[be]4000) argument=400 ;;
    -dall) argument=int8,float16 ;;
    -oall) argument=sum,max ;;
    -n* | -G*) argument=2 ;;
  esac
  arguments+=("$argument")
  last=$argument
done
[[ " $* " == *" -n "* ]] || arguments+=(-n 2)
exec STAND_IN "${arguments[@]}" -w 1
"""
PROGRAMS = {
    "gpu_facts": "cat SAMPLES/facts-unset.txt", "device_steps_bench": "cat SAMPLES/steps-copies.json",
    "device_start_bench": "cat SAMPLES/start.json",
    "device_kernels_bench": 'for argument; do [[ $argument != *_out=* ]] || cp SAMPLES/bandwidth.json "${argument#*=}"; done',
    "test_kernels_cuda": "echo '[  PASSED  ] 9 tests.'", "compute-sanitizer": "exit 0",
    "test_multicast_cuda": "echo '[       OK ] a.b (1 ms)'; echo '[  SKIPPED ] 2 tests, listed below:'",
    "test_two_level_cuda": "printf 'a.cc:7: Skipped\\nno GPU\\n[  SKIPPED ] 1 test, listed below:\\n'",
    "nccl_race": 'while [ $# -gt 1 ]; do [ "$1" != -J ] || cp SAMPLES/nccl-2.json "$2"; shift; done',
    "nvidia-smi": "case $* in *=name*) echo 'NVIDIA H100 80GB HBM3' ;; *compute-apps*) echo 'no process' ;; esac"}


class Rehearsal(unittest.TestCase):
    def setUp(self):
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.root = pathlib.Path(place.name).resolve() / "tutti-gpu"  # as the archive of tools/gpu-pack.sh unpacks
        self.programs = self.root / "programs"
        for folder in (self.root / "tools", self.programs):
            folder.mkdir(parents=True)
        for script in ("gpu-check.sh", "gpu_report.py"):
            shutil.copy(ROOT / "tools" / script, self.root / "tools")
        for name, text in PROGRAMS.items():
            self.program(name, "#!/bin/bash\n" + text.replace("SAMPLES", str(SAMPLES)) + "\n")
        self.program("tutti-perf", PERF.replace("STAND_IN \"", f"{STAND_IN} \""))
        (self.programs / "commit").write_text("1234567\n", encoding="utf-8")
        self.plants = self.root / "plants"
        self.plant("")
        self.out = self.root / "out"
        self.kept = self.root / "build/gpu-results"

    def program(self, name, text):
        path = self.programs / name
        path.write_text(text, encoding="utf-8")
        path.chmod(0o755)

    def plant(self, text):
        self.plants.write_text(text, encoding="utf-8")

    def start(self, *arguments):
        more = {"PATH": f"{self.programs}:{os.environ['PATH']}", "OUT": str(self.out), "PLANTS": str(self.plants), "PYTHON": sys.executable}
        return subprocess.Popen([self.root / "tools/gpu-check.sh", *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                env={**os.environ, **more}, start_new_session=True)

    def call(self, *arguments, code=0):
        """What a call prints that ends with this code."""
        process = self.start(*arguments)
        text = process.communicate(timeout=200)[0]
        self.assertEqual(process.returncode, code, text)
        return text

    def results(self):
        """({check: [result, seconds, reason]}, {check: what it measured}) of OUT."""
        self.assertLessEqual(len(list(self.out.rglob("*"))), 8)
        lines = (self.out / "checks.tsv").read_text(encoding="utf-8").splitlines()
        numbers = self.out / "numbers.jsonl"
        measured = [json.loads(line) for line in numbers.read_text(encoding="utf-8").splitlines()] if numbers.exists() else []
        return ({line.split("\t")[0]: line.split("\t")[1:] for line in lines[1:]},
                {line["check"]: line.get("found") or line.get("facts") for line in measured})

    def cut_off(self):
        """Ends a call, and all that it has started, when a check that hangs has measured 64 bytes."""
        process = self.start()
        self.addCleanup(process.stdout.close)
        deadline = time.monotonic() + 100
        while not self.has_measured(64):
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.05)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def has_measured(self, size):
        try:
            return json.loads((self.out / "running.json").read_text(encoding="utf-8"))["results"][-1]["size"] == size
        except (OSError, ValueError, LookupError):
            return False

    def test_all_checks_in_three_calls(self):
        limits = dict(line.split("\t") for line in self.call("--list").splitlines())
        names = list(limits)
        self.assertGreater(len(names), 40)
        self.assertEqual(names[-1], "racecheck")  # it gets what the others leave
        self.assertGreater(int(limits["racecheck"]), 400)
        self.plant("2 hang\n")
        self.cut_off()
        reached = names[:names.index("ranks-2") + 1]

        text = self.call("--seconds", "10", code=1)  # no check has so short a limit
        checks, numbers = self.results()
        self.assertEqual([name for name, row in checks.items() if row[0] != "skipped"], reached)
        self.assertEqual(checks["ranks-2"], ["hung", "30", "the whole call ended while it ran"])
        self.assertEqual([row["size"] for row in numbers["ranks-2"]["results"]], [4, 64])
        self.assertRegex(text, rf"\n{len(reached) - 1} passed, 0 failed, 1 hung, {len(checks) - len(reached)} skipped, {len(names) - len(checks)} not reached\n")

        self.plant("")
        shutil.rmtree(self.out)
        text = self.call(code=1)
        checks, numbers = self.results()
        self.assertEqual(set(checks), set(names))
        skipped = {"two-levels": "none ran: no GPU",
                   **{name: "there is no nvidia-cuda-mps-control" for name in names if name.endswith("-mps")},
                   **{name: "there is no plugins/torch" for name in names if name.startswith("torch-")}}
        self.assertEqual({name: row[2] for name, row in checks.items() if row[0] == "skipped"}, skipped)
        self.assertEqual([name for name, row in checks.items() if row[0] != "passed" and name not in skipped], ["ranks-2"], text)
        self.assertEqual(checks["multicast"][2], "2 tests skipped")
        for name in names:
            if name.startswith(("ranks-", "latency-", "types", "processes-")) and name not in skipped:
                self.assertTrue(numbers[name]["results"], name)
        for name, ranks in (("ranks-8", 8), ("types", 3), ("processes-4", 4)):
            self.assertEqual(numbers[name]["config"]["ranks"], ranks)
        self.assertLessEqual({"facts-32", "steps-relays", "start", "nccl-4", "bandwidth"}, set(numbers))

        text = self.call("ranks-2")
        self.assertIn(f"\n{len(names) - len(skipped)} passed, 0 failed, 0 hung, {len(skipped)} skipped, 0 not reached\n", text)
        self.assertIn("  met           wrong elements, none: ", text)
        self.assertEqual((self.out / "log").read_text(encoding="utf-8").count("== facts-1\n"), 1)  # no call has run it again
        self.assertEqual(len(list(self.out.glob("gpu-h100-80gb-hbm3-*.json"))), 1)
        self.assertEqual({path.name for path in self.kept.iterdir()}, {path.name for path in self.out.iterdir()})

    def test_what_goes_wrong_costs_nothing_else(self):
        self.plant("2 hang\n4 crash\n8 lie\n")
        self.call("ranks-2", "--limit", "3", code=1)
        text = self.call("ranks-[48]", "facts-1", "steps-copies", code=1)
        checks, numbers = self.results()
        self.assertEqual(checks["ranks-2"][0], "hung")
        self.assertRegex(checks["ranks-2"][2], "^ended after its 3 s")
        self.assertEqual((checks["ranks-4"][0], checks["ranks-4"][2]), ("failed", "ended by the signal SEGV"))
        self.assertEqual(checks["ranks-8"][0], "failed")
        self.assertRegex(checks["ranks-8"][2], r"Out of bounds values : \d+ FAILED")
        self.assertEqual((checks["facts-1"][0], checks["steps-copies"][0]), ("passed", "passed"))
        self.assertEqual([row["size"] for row in numbers["ranks-4"]["results"]], [4, 64])  # what was measured before
        self.assertIn([row["size"] for row in numbers["ranks-2"]["results"]], ([4], [4, 64]))
        self.assertIn("  2 threads, cut short all_reduce, exact: 4 B", text)
        self.assertRegex(text, r"  8 threads    all_reduce, \d+ WRONG elements: ")
        self.assertIn("  missed        wrong elements, none: ranks-8 ", text)
        self.assertRegex(text, r"\n2 passed, 2 failed, 1 hung, 0 skipped, \d+ not reached\nWhat has not been reached runs in the next call.\n")
        log = (self.out / "log").read_text(encoding="utf-8")
        self.assertIn("still on the card: no process", log)
        self.assertIn("== ranks-8\n# tutti-perf", log)

    def test_what_the_library_does_not_offer_is_skipped(self):
        self.program("tutti-perf", "#!/bin/bash\necho 'tutti-perf: rank 0: graphs are not offered here' >&2\nexit 1\n")
        self.program("gpu_facts", "#!/bin/bash\necho 'gpu_facts: no GPU: no driver' >&2\nexit 77\n")
        self.call("ranks-2", "latency-2-graph", "facts-1", code=1)
        checks = self.results()[0]
        self.assertEqual((checks["facts-1"][0], checks["facts-1"][2]), ("skipped", "gpu_facts: no GPU: no driver"))
        self.assertEqual((checks["ranks-2"][0], checks["latency-2-graph"][0]), ("failed", "skipped"))

    def test_another_commit_begins_anew(self):
        for change in (lambda: (), lambda: (self.programs / "commit").write_text("7654321\n", encoding="utf-8")):
            self.call("facts-1")
            change()
        self.call("facts-8")
        self.assertEqual(list(self.results()[0]), ["facts-8"])
        self.call("--new", "facts-32")
        self.assertEqual(list(self.results()[0]), ["facts-32"])

    @unittest.skipIf(pathlib.Path("/dev/nvidia0").exists(), "there is a GPU")
    def test_without_a_gpu_every_check_is_skipped(self):
        self.program("nvidia-smi", "#!/bin/bash\nexit 9\n")
        names = self.call("--list").count("\n")
        text = self.call()
        self.assertIn(f"\n0 passed, 0 failed, 0 hung, {names} skipped, 0 not reached\n", text)
        self.assertEqual(self.results()[0]["ranks-2"][2], "no GPU")

    def test_programs_come_out_of_the_archive(self):
        (self.root / ".gpu").mkdir()
        archive = self.root / ".gpu/programs.tar.xz"
        subprocess.run(["tar", "-C", self.root.parent, "-cJf", archive, "tutti-gpu/programs"], check=True)
        shutil.rmtree(self.programs)
        self.programs = self.root / "build/gpu-programs/programs"
        self.call("facts-1")
        self.assertEqual(self.results()[0]["facts-1"][0], "passed")

    def test_programs_that_do_not_start(self):
        self.program("test_kernels_cuda", "#!/bin/bash\nexit 1\n")
        self.assertIn("there are no sources to build them from", self.call(code=1))

    def test_arguments(self):
        self.assertIn("there is no option --fast", self.call("--fast", code=2))


if __name__ == "__main__":
    STAND_IN = sys.argv.pop(1)
    unittest.main()
