"""What the other tests rely on: ranks.run() brings values and failures back, and does not wait for the dead."""
import os
import signal
import time
import unittest

import ranks


def values(rank, n):
    return rank, n


def one_raises(rank, n):
    if rank == 1:
        raise ValueError("of rank 1")


def one_leaves(rank, n):
    if rank == 1:
        os._exit(7)
    time.sleep(100)


def one_is_killed(rank, n):
    if rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return rank


class Ranks(unittest.TestCase):
    def test_values_of_all_in_order(self):
        self.assertEqual(ranks.run(values, 3, backend=None), [(0, 3), (1, 3), (2, 3)])

    def test_the_traceback_of_who_raised(self):
        with self.assertRaisesRegex(AssertionError, "(?s)rank 1:.*in one_raises.*ValueError: of rank 1"):
            ranks.run(one_raises, 2, backend=None)

    def test_who_ends_without_an_answer_fails_it_at_once(self):
        start = time.monotonic()
        with self.assertRaisesRegex(AssertionError, "^rank 1 ended with exit code 7 and without an answer$"):
            ranks.run(one_leaves, 3, backend=None)
        self.assertLess(time.monotonic() - start, 60)  # most of it is the import of torch

    def test_a_signal_is_the_exit_code_unless_the_death_is_expected(self):
        with self.assertRaisesRegex(AssertionError, "^rank 1 ended with exit code -9 and without an answer$"):
            ranks.run(one_is_killed, 2, backend=None)
        self.assertEqual(ranks.run(one_is_killed, 3, backend=None, expect_dead=(1,)), [0, None, 2])


if __name__ == "__main__":
    unittest.main()
