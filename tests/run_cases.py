#!/usr/bin/env python3
"""Runs the cases of a GoogleTest program, many in one process, several processes at once, and reports each case.

run_cases.py --name NAME [options] -- PROGRAM [words before GoogleTest's options]

A case that fails, crashes or exceeds the limit ends its process; the cases after it run in a new one. A case whose suite is
named Alone... or TimedAlone... has a process of its own. A process that fails when it exits, as with a leak, has its cases
run again one by one, which tells whose fault it was.

What a case measures (RecordProperty) stands with it in the report.

--pauses stops processes of running cases for 0 to 300 ms at random times, but not those of suites named Timed..., which
either assert a time or stop processes themselves. TEST_SEED, a number, draws the times; it is printed.
"""
import argparse
import collections
import os
import pathlib
import random
import re
import select
import signal
import subprocess
import sys
import tempfile
import threading
import time
import xml.etree.ElementTree as xml

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
sys.dont_write_bytecode = True
from process_waits import processes_of, waits_of  # noqa: E402

CASES_OF_A_PROCESS = 16
SHOWN_LINES = 200
SHOWN_FAILURES, FAILURE_LINES = 5, 10
ALONE = re.compile(r"(^|/)(Timed)?Alone")
TIMED = re.compile(r"(^|/)Timed")
BEGIN = re.compile(r"\[ RUN      \] (\S+)")
END = re.compile(r"\[ *(OK|FAILED|SKIPPED) *\] (\S+?),? .*?\((\d+) ms\)")

Case = collections.namedtuple("Case", "name outcome seconds output measured", defaults=({},))


def suite_of(case):
    return case.rsplit(".", 1)[0]


def list_cases(program, pattern):
    done = subprocess.run(program + ["--gtest_list_tests", f"--gtest_filter={pattern}"], stdout=subprocess.PIPE, text=True,
                          timeout=100)
    if done.returncode != 0:
        sys.exit(f"{program[-1]} cannot list its cases: exit code {done.returncode}")
    cases, suite = [], ""
    for line in done.stdout.splitlines():
        name = line.split("#")[0].strip()
        if line.startswith("  "):
            cases.append(suite + name)
        elif name.endswith("."):
            suite = name
    return [case for case in cases if ".DISABLED_" not in case and not case.startswith("DISABLED_")]


def batches_of(cases, most=1):
    """The cases by suites; those of a long suite in several batches, so that they can run at the same time: `most` of them, or
    more, so that none has more than CASES_OF_A_PROCESS."""
    suites = collections.defaultdict(list)
    for case in cases:
        suites[suite_of(case)].append(case)
    batches = []
    for suite, members in suites.items():
        size = 1 if ALONE.search(suite) else min(CASES_OF_A_PROCESS, -(-len(members) // most))
        count = -(-len(members) // size)
        batches += [members[i::count] for i in range(count)]
    return batches


def shown_of(output, most=SHOWN_LINES):
    """The lines to show of a case's output: its end, and before that the failures that were reported earlier."""
    lines = output.rstrip().split("\n")
    earlier, end = lines[:-most], lines[-most:]
    failures = [i for i, line in enumerate(earlier) if line.endswith(": Failure")]
    told = [line for i in failures[:SHOWN_FAILURES] for line in ["...", *earlier[i:i + FAILURE_LINES]]]
    return [*told, "...", *end] if earlier else end


def measured_by_case(path):
    """What the cases of a process recorded; nothing of one that did not come to its end."""
    try:
        root = xml.parse(path).getroot()
    except (OSError, xml.ParseError):
        return {}
    return {f"{case.get('classname')}.{case.get('name')}": {found.get("name"): found.get("value") for found in case.iter("property")}
            for case in root.iter("testcase")}


class Process:
    """One run of the program, its output read line by line. GoogleTest writes its own report to `report`."""

    def __init__(self, program, cases, report):
        self.child = subprocess.Popen(program + ["--gtest_filter=" + ":".join(cases), "--gtest_color=no",
                                                 f"--gtest_output=xml:{report}"],
                                      stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                      bufsize=0, start_new_session=True)
        os.set_blocking(self.child.stdout.fileno(), False)
        self.rest = b""

    def lines(self, seconds):
        """What has been printed within so many seconds; None: the process has ended and everything was read."""
        ended = self.child.poll() is not None
        if not ended:
            select.select([self.child.stdout], [], [], seconds)
        data = self.child.stdout.read() or b""
        if not data and not ended:
            time.sleep(0.01)  # it may have closed its output
        if ended and not data:
            rest, self.rest = self.rest, b""
            return [rest.decode(errors="replace")] if rest else None
        parts = (self.rest + data).split(b"\n")
        self.rest = parts.pop()
        return [part.decode(errors="replace") for part in parts]

    def kill(self):
        """Ends it with all processes that it started; its exit code."""
        try:
            os.killpg(self.child.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        code = self.child.wait()
        self.child.stdout.close()
        return code


class Runner:
    def __init__(self, options, program, folder):
        self.options, self.program, self.folder = options, program, folder
        self.lock = threading.Lock()
        self.results, self.processes = [], 0
        self.running = {}  # process number of a program -> its suite

    def note(self, case):
        with self.lock:
            self.results.append(case)
        if case.outcome == "failed":
            print("\n    ".join([f"FAILED: {self.options.name}.{case.name}", *shown_of(case.output)]), flush=True)

    def run(self, cases):
        """Runs cases of one suite in as few processes as possible."""
        while cases:
            ended = self.run_process(cases)
            cases = [case for case in cases if case not in ended]

    def run_process(self, cases):
        """Runs the cases until all have ended or one has failed; the names of those that have ended."""
        with self.lock:
            self.processes += 1
            report = self.folder / f"{self.processes}.xml"
        process = Process(self.program, cases, report)
        with self.lock:
            self.running[process.child.pid] = suite_of(cases[0])
        ended, current, output, since, failure = [], None, [], time.monotonic(), None

        def end(outcome, seconds, text=()):
            ended.append(Case(current, outcome, seconds, "\n".join([*output, *text])))

        while failure is None and (lines := process.lines(1)) is not None:
            for line in lines:
                begin, finish = BEGIN.search(line), END.search(line)
                if begin and begin[1] in cases:
                    current, output, since = begin[1], [], time.monotonic()
                elif finish and finish[2] == current:
                    end({"OK": "passed", "FAILED": "failed", "SKIPPED": "skipped"}[finish[1]], int(finish[3]) / 1000)
                    current = None
                    if finish[1] == "FAILED":
                        failure = "it failed"
                        break
                else:
                    output.append(line)
            if failure is None and time.monotonic() - since > self.options.limit:
                failure = "\n".join([f"no end after {self.options.limit} s", *waits_of(process.child.pid)])
                process.child.send_signal(signal.SIGABRT)
                time.sleep(1)
        with self.lock:
            del self.running[process.child.pid]
        code = process.kill()
        if current is not None:
            end("failed", time.monotonic() - since, [failure or f"the process ended with {code}"])
        elif failure != "it failed" and (failure or code != 0 or len(ended) < len(cases)):
            self.blame(cases, ended, code, output, failure)
            return cases
        measured = measured_by_case(report)
        for case in ended:
            self.note(case._replace(measured=measured.get(case.name, {})))
        return [case.name for case in ended]

    def blame(self, cases, ended, code, output, failure):
        """A process failed outside its cases: they are run one by one, which tells whose fault that was."""
        if len(cases) > 1:
            for case in cases:
                self.run([case])
            with self.lock:
                alone = [case for case in self.results if case.name in cases and case.outcome == "failed"]
            if alone:
                return
        text = "\n".join([*output, failure or f"the process of {' '.join(cases)} ended with {code}"])
        if len(cases) > 1:  # each is right by itself; what is wrong comes of their running after each other
            self.note(Case(f"{suite_of(cases[0])} (together)", "failed", 0, text))
            return
        seconds = ended[0].seconds if ended else 0
        self.note(Case(cases[0], "failed", seconds, (ended[0].output if ended else "") + text))

    def run_all(self, batches):
        queue = collections.deque(batches)

        def work():
            while True:
                with self.lock:
                    if not queue:
                        return
                    batch = queue.popleft()
                self.run(batch)

        workers = [threading.Thread(target=work) for _ in range(self.options.jobs)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()


def pause_at_random(runner, seed, over):
    """Stops one process after the other for 0 to 300 ms until `over`. Each place for a process has the same share: the
    last one that runs is not stopped all the time."""
    draw = random.Random(seed)
    while not over.wait(draw.uniform(0, 0.1)):
        place = draw.randrange(runner.options.jobs)
        with runner.lock:
            sessions = [pid for pid, suite in runner.running.items() if not TIMED.search(suite)]
        victims = processes_of(sessions[place]) if place < len(sessions) else []
        if not victims:
            continue
        victim = draw.choice(victims)
        try:
            os.kill(victim, signal.SIGSTOP)
            over.wait(draw.uniform(0, 0.3))
            os.kill(victim, signal.SIGCONT)
        except ProcessLookupError:
            pass


def write_report(path, name, results):
    suite = xml.Element("testsuite", name=name, tests=str(len(results)))
    for case in results:
        element = xml.SubElement(suite, "testcase", name=f"{name}.{case.name}", classname=name, time=f"{case.seconds:.3f}")
        if case.measured:
            properties = xml.SubElement(element, "properties")
            for key, value in case.measured.items():
                xml.SubElement(properties, "property", name=key, value=value)
        if case.outcome == "failed":
            xml.SubElement(element, "failure", message="failed")
        if case.outcome == "skipped":
            reason = re.search(r"Skipped\n([^\n]+)", case.output)
            xml.SubElement(element, "skipped", message=reason[1] if reason else "no reason given")
        if case.outcome != "passed":
            text = re.sub(r"[^\t\n\r\x20-\x7e]", "?", case.output)
            xml.SubElement(element, "system-out").text = text
    path.parent.mkdir(parents=True, exist_ok=True)
    xml.ElementTree(suite).write(path, encoding="unicode")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--name", required=True, help="what the names of the cases begin with")
    parser.add_argument("--report", type=pathlib.Path, help="JUnit's XML, written when all have ended")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes at a time")
    parser.add_argument("--limit", type=float, default=100,
                        help="seconds that a case may take (default: 100); three times as many with TEST_DEPTH=all")
    parser.add_argument("--filter", default="*", help="GoogleTest's pattern of cases")
    parser.add_argument("--spread", action="store_true",
                        help="divide each suite among the processes that run at a time: for cases that take long")
    parser.add_argument("--pauses", action="store_true", help="stop processes for moments")
    parser.add_argument("program", nargs="+")
    options = parser.parse_args()
    options.limit *= 3 if os.environ.get("TEST_DEPTH") == "all" else 1
    # A race is a failure of the case that runs, not of its process in the end.
    os.environ["TSAN_OPTIONS"] = "halt_on_error=1 " + os.environ.get("TSAN_OPTIONS", "")

    started = time.monotonic()
    cases = list_cases(options.program, options.filter)
    if not cases:
        sys.exit(f"{options.name}: no case matches {options.filter}")
    folder = tempfile.TemporaryDirectory()
    runner = Runner(options, options.program, pathlib.Path(folder.name))
    over = threading.Event()
    seed = int(os.environ.get("TEST_SEED") or random.SystemRandom().randrange(1 << 31))
    pauser = threading.Thread(target=pause_at_random, args=(runner, seed, over))
    if options.pauses:
        print(f"{options.name}: pauses drawn by TEST_SEED={seed}")
        pauser.start()
    try:
        runner.run_all(batches_of(cases, options.jobs if options.spread else 1))
    finally:
        over.set()
        if options.pauses:
            pauser.join()
        folder.cleanup()
    if options.report:
        write_report(options.report, options.name, runner.results)
    counts = collections.Counter(case.outcome for case in runner.results)
    print(f"{options.name}: {counts['passed']} passed, {counts['failed']} failed, {counts['skipped']} skipped; "
          f"{runner.processes} processes, {time.monotonic() - started:.1f} s")
    sys.exit(1 if counts["failed"] else 0)


if __name__ == "__main__":
    main()
