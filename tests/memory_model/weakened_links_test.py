#!/usr/bin/env python3
"""The thread sanitizer finds nothing in the library's links, and a race as soon as one function or barrier orders
nothing.

Its argument is the program weakened_links. Each twin is a process of its own, which the first report ends.
"""
# Covers src/executor/device/device_port.h.

import os
import platform
import subprocess
import sys
import unittest

RACE = 66
program = ""


def run(*weakened):
    """The exit code and what was printed. The sanitizer of g++ 12 needs a system that does not randomise addresses."""
    command = [program, *weakened]
    plain = ["setarch", platform.machine(), "-R"]
    if subprocess.run([*plain, "true"], capture_output=True, check=False).returncode == 0:
        command = plain + command
    options = {**os.environ, "TSAN_OPTIONS": f"halt_on_error=1 exitcode={RACE}"}
    done = subprocess.run(command, env=options, capture_output=True, text=True, timeout=120, check=False)
    return done.returncode, done.stdout + done.stderr


class Links(unittest.TestCase):
    def finds_a_race(self, weakened, place):
        code, text = run(weakened)
        self.assertEqual(code, RACE, text)
        self.assertIn("WARNING: ThreadSanitizer: data race", text)
        self.assertIn(place, text)

    def test_no_race_as_they_are(self):
        code, text = run()
        self.assertEqual((code, text), (0, "all results are right\n"))

    def test_slots_need_release_and_acquire(self):
        self.finds_a_race("publish", "await_slot")
        self.finds_a_race("await_slot", "await_slot")

    def test_credits_need_release_and_acquire(self):
        self.finds_a_race("release", "store_pack")
        self.finds_a_race("await_release", "store_pack")

    def test_lent_buffers_are_not_the_callers_before_readers_have_released_them(self):
        self.finds_a_race("await_released", "use_again")

    def test_blocks_need_both_barriers(self):
        self.finds_a_race("any", "device_interpreter.h")
        self.finds_a_race("sync", "device_interpreter.h")


if __name__ == "__main__":
    program = sys.argv.pop(1)
    unittest.main()
