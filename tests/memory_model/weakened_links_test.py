#!/usr/bin/env python3
"""The thread sanitizer finds nothing in the library's links, and a race as soon as one function or barrier orders
nothing.

Its argument is the program weakened_links. Each twin is a process of its own, which the first report ends.
"""
# Covers src/executor/device/device_port.h, src/device/call_end.h.

import sys
import unittest

from thread_sanitizer import RACE, run

program = ""


class Links(unittest.TestCase):
    def finds_a_race(self, weakened, place):
        code, text = run([program, weakened])
        self.assertEqual(code, RACE, text)
        self.assertIn("WARNING: ThreadSanitizer: data race", text)
        self.assertIn(place, text)

    def test_no_race_as_they_are(self):
        code, text = run([program])
        self.assertEqual((code, text), (0, "all results are right\n"))

    def test_slots_need_release_and_acquire(self):
        self.finds_a_race("publish", "await_slot")
        self.finds_a_race("await_slot", "await_slot")

    def test_credits_need_release_and_acquire(self):
        self.finds_a_race("release", "store_pack")
        self.finds_a_race("await_release", "store_pack")

    def test_lent_buffers_are_not_the_callers_before_readers_have_released_them(self):
        self.finds_a_race("await_released", "use_again")

    def test_the_end_of_a_call_needs_release_and_acquire(self):
        self.finds_a_race("say_end", "use_again")
        self.finds_a_race("is_there", "use_again")

    def test_blocks_need_both_barriers(self):
        self.finds_a_race("any", "device_interpreter.h")
        self.finds_a_race("sync", "device_interpreter.h")


if __name__ == "__main__":
    program = sys.argv.pop(1)
    unittest.main()
