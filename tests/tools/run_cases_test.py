#!/usr/bin/env python3
"""run_cases.py on a program that only looks like GoogleTest's, with cases that pass, fail, crash, hang, are skipped, or
spoil the end of their process."""
# Covers tests/run_cases.py, tests/process_waits.py.
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import unittest.mock
import xml.etree.ElementTree

TESTS = pathlib.Path(__file__).resolve().parents[1]
sys.dont_write_bytecode = True
sys.path.insert(0, str(TESTS))
import process_waits  # noqa: E402
import run_cases  # noqa: E402

PROGRAM = r'''
import os, signal, sys, time
CASES = [case.split(":") for case in os.environ["CASES"].split()]  # Suite.Case:what it does
options = dict(word[2:].split("=", 1) for word in sys.argv[1:] if "=" in word)
if "--gtest_list_tests" in sys.argv:
    for suite in dict.fromkeys(name.split(".")[0] for name, _ in CASES):
        print(f"{suite}.")
        for name, _ in CASES:
            if name.split(".")[0] == suite:
                print(f"  {name.split('.')[1]}  # GetParam() = (1, 2)")
    sys.exit(0)
chosen = options["gtest_filter"].split(":")
failed, code, measured = False, 0, []
with open(os.environ["PROCESSES"], "a") as file:
    file.write(" ".join(chosen) + "\n")
for name, deed in CASES:
    if name not in chosen:
        continue
    print(f"[ RUN      ] {name}", flush=True)
    end = "[       OK ]"
    if deed == "fail":
        print("file.cc:1: Failure\nwhat is wrong"); end, failed = "[  FAILED  ]", True
    elif deed == "skip":
        print("file.cc:1: Skipped\nthere is no moon"); end = "[  SKIPPED ]"
    elif deed == "crash":
        os.kill(os.getpid(), signal.SIGSEGV)
    elif deed == "exit":
        os._exit(0)
    elif deed == "hang":
        if os.fork() == 0:
            time.sleep(1000)
        time.sleep(1000)
    elif deed == "leak":
        code = 23
    elif deed == "measure":
        measured.append(name.split("."))
    elif deed == "chatter":
        print("no line end", end="")
    where = ", where GetParam() = (1, 2)" if end == "[  FAILED  ]" else ""
    print(f"{end} {name}{where} (7 ms)", flush=True)
with open(options["gtest_output"].removeprefix("xml:"), "w") as file:
    cases = "".join(f'<testcase classname="{suite}" name="{case}"><properties><property name="worst_ms" value="3"/></properties></testcase>'
                    for suite, case in measured)
    file.write(f"<testsuites><testsuite>{cases}</testsuite></testsuites>")
sys.exit(1 if failed else code)
'''


class Runs(unittest.TestCase):
    def run_cases(self, cases, *options):
        """Outcome by case, text by case, and the cases of each process."""
        with tempfile.TemporaryDirectory() as folder:
            program, report, processes = (pathlib.Path(folder) / name for name in ("program.py", "report.xml", "processes"))
            program.write_text(PROGRAM)
            done = subprocess.run(
                [sys.executable, TESTS / "run_cases.py", "--name", "room", "--report", report, "--jobs", "2", "--limit", "4", *options,
                 "--", sys.executable, program], env={"PATH": "/usr/bin:/bin", "CASES": cases, "PROCESSES": processes},
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=100)
            found = xml.etree.ElementTree.parse(report).getroot()
            outcomes, texts, self.measured = {}, {}, {}
            for case in found:
                name = case.get("name").removeprefix("room.")
                kinds = [kind for kind in ("failure", "skipped") if case.find(kind) is not None]
                self.assertNotIn(name, outcomes, "a case is reported once")
                self.measured[name] = {each.get("name"): each.get("value") for each in case.iter("property")}
                outcomes[name] = kinds[0] if kinds else "passed"
                texts[name] = (case.findtext("system-out") or "") + "".join(skip.get("message") for skip in case.findall("skipped"))
            self.assertEqual(done.returncode, 1 if "failure" in outcomes.values() else 0, done.stdout)
            return outcomes, texts, [line.split() for line in processes.read_text().splitlines()]

    def test_cases_share_a_process(self):
        outcomes, texts, processes = self.run_cases("A.One:pass A.Two:chatter A.Three:skip A.Four:pass")
        self.assertEqual(outcomes, {"A.One": "passed", "A.Two": "passed", "A.Three": "skipped", "A.Four": "passed"})
        self.assertIn("there is no moon", texts["A.Three"])
        self.assertEqual(len(processes), 1)

    def test_what_a_case_measured_is_reported(self):
        self.run_cases("A.One:pass A.Two:measure B.Three:measure")
        self.assertEqual(self.measured, {"A.One": {}, "A.Two": {"worst_ms": "3"}, "B.Three": {"worst_ms": "3"}})

    def test_after_a_failure_the_others_run(self):
        for deed, text in (("fail", "what is wrong"), ("crash", "ended with -11"), ("exit", "ended with 0"), ("hang", "no end after 4")):
            with self.subTest(deed):
                outcomes, texts, processes = self.run_cases(f"A.One:pass A.Two:{deed} A.Three:pass")
                self.assertEqual(outcomes, {"A.One": "passed", "A.Two": "failure", "A.Three": "passed"})
                self.assertIn(text, texts["A.Two"])
                self.assertEqual(processes, [["A.One", "A.Two", "A.Three"], ["A.Three"]])

    def test_a_failure_is_shown_however_much_follows(self):
        noise = [f"line {i}" for i in range(1000)]
        shown = run_cases.shown_of("\n".join([*noise, "file.cc:1: Failure", "what is wrong", *noise, "the end"]), 5)
        self.assertIn("what is wrong", shown)
        self.assertEqual(shown[-1], "the end")
        self.assertLess(len(shown), 50)
        self.assertEqual(run_cases.shown_of("one\ntwo\n"), ["one", "two"])

    def test_who_spoils_the_end_is_found(self):
        outcomes, texts, _ = self.run_cases("A.One:pass A.Two:leak A.Three:pass")
        self.assertEqual(outcomes, {"A.One": "passed", "A.Two": "failure", "A.Three": "passed"})
        self.assertIn("ended with 23", texts["A.Two"])

    def test_alone_is_alone(self):
        _, _, processes = self.run_cases("AloneA.One:pass AloneA.Two:pass TimedAlone.One:pass TimedAlone.Two:pass")
        self.assertEqual(sorted(processes), [["AloneA.One"], ["AloneA.Two"], ["TimedAlone.One"], ["TimedAlone.Two"]])

    def test_a_suite_is_spread(self):
        cases = [f"A.C{i}" for i in range(5)]
        self.assertEqual(len(run_cases.batches_of(cases)), 1)
        spread = run_cases.batches_of(cases, 4)
        self.assertEqual((len(spread), sorted(case for batch in spread for case in batch)), (3, cases))
        self.assertEqual(len(run_cases.batches_of([f"A.C{i}" for i in range(40)], 2)), 3)

    def test_a_hang_tells_where_each_process_is(self):
        for has_gdb in (True, False):
            with self.subTest(has_gdb=has_gdb):
                child = subprocess.Popen([sys.executable, "-c", "import os, time; os.fork(); time.sleep(1000)"], start_new_session=True)
                try:
                    with unittest.mock.patch("shutil.which", shutil.which if has_gdb else lambda _: None):
                        deadline = time.monotonic() + 20
                        while len(re.findall(r"Thread 1 .*|thread \d+: S.*", "\n".join(told := process_waits.waits_of(child.pid)))) < 2:
                            self.assertLess(time.monotonic(), deadline, told)
                finally:
                    os.killpg(child.pid, signal.SIGKILL)
                    child.wait()

    def test_nothing_stays_of_a_case_that_hangs(self):
        self.run_cases("A.One:hang")
        left = subprocess.run(["pgrep", "-f", "gtest_filter=A.One"], stdout=subprocess.PIPE, text=True).stdout
        self.assertEqual(left, "")

    def test_names_that_the_runner_knows(self):
        for suite, alone, timed in (("Alone", True, False), ("All/TimedAloneX", True, True), ("Ranks/TimedKill", False, True),
                                    ("IsAlone", False, False), ("Untimed", False, False)):
            self.assertEqual((bool(run_cases.ALONE.search(suite)), bool(run_cases.TIMED.search(suite))), (alone, timed), suite)


if __name__ == "__main__":
    unittest.main(verbosity=2)
