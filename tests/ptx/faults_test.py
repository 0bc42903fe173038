#!/usr/bin/env python3
"""The thread sanitizer finds nothing in the interpreter's PTX, and a race or wrong results as soon as it has a fault.

The arguments are the program of the PTX as it is, and those of the PTX with faults, which are named for them. Without
those, only the first is run.
"""
# Covers src/executor/device/device_interpreter.h, src/executor/device/device_port.h.

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "memory_model"))
from thread_sanitizer import RACE, run  # noqa: E402

programs = []


class AsItIs(unittest.TestCase):
    def test_no_race_and_right_results(self):
        self.assertEqual(run([programs[0]]), (0, "all results are right\n"))


class WithAFault(unittest.TestCase):
    def run_with(self, fault, **options):
        return run([next(one for one in programs if one.endswith(fault))], **options)

    def finds_a_race(self, fault):
        code, text = self.run_with(fault)
        self.assertEqual(code, RACE, text)
        self.assertIn("WARNING: ThreadSanitizer: data race", text)
        self.assertIn("word_interpreter", text)

    def test_messages_need_release_and_acquire(self):
        self.finds_a_race("weak_release")
        self.finds_a_race("weak_acquire")

    def test_blocks_need_both_barriers(self):
        self.finds_a_race("no_vote")
        self.finds_a_race("no_barrier")

    def test_a_group_of_threads_whose_upper_half_does_the_work_of_the_lower_one(self):
        code, text = self.run_with("half_groups", report_bugs=0)
        # Wrong results, or before that an address made of the work that nobody did, which ends the program.
        self.assertIn((code, next((word for word in ("element", "translated PTX: an access") if word in text), text)),
                      ((1, "element"), (-6, "translated PTX: an access")))


if __name__ == "__main__":
    programs = sys.argv[1:]
    suite = unittest.TestSuite()
    for group in [AsItIs] + [WithAFault] * (len(programs) > 1):
        suite.addTests(unittest.defaultTestLoader.loadTestsFromTestCase(group))
    sys.exit(0 if unittest.TextTestRunner().run(suite).wasSuccessful() else 1)
