#!/usr/bin/env python3
"""The model's checker gives the verdicts that are published with the model: those of the ISA's text and of the tests in
NVIDIA's repository mixedproxy."""

# Covers tests/memory_model/ptx_model.py.

import unittest

from ptx_model import Litmus

FORBIDDEN, ALLOWED = False, True


def verdict(threads, outcome, **options):
    places = [(place, tuple(line.strip() for line in program.split(";"))) for place, program in threads]
    return Litmus(tuple(places), outcome, **options).allows_outcome()


def message(release, acquire, reader="d0.b1", between="", **options):
    """A message and its flag; the outcome is that the flag is seen and the message is not."""
    aliases = options.pop("aliases", {})
    read = "y" if aliases else "x"
    return verdict([("d0.b0", f"st.u64 [x], 1; {release} [f], 1"),
                    (reader, f"{acquire} f0, [f]; {between} ld.u64 x0, [{read}]")],
                   {"f0": 1, "x0": 0}, aliases=aliases, **options)


class Messages(unittest.TestCase):
    def test_release_and_acquire(self):
        for scope, reader in (("cta", "d0.b0"), ("gpu", "d0.b1"), ("sys", "d1.b0")):
            self.assertEqual(message(f"st.release.{scope}.u64", f"ld.acquire.{scope}.u64", reader), FORBIDDEN)

    def test_scopes_that_are_too_small(self):
        for scope, reader in (("cta", "d0.b1"), ("gpu", "d1.b0")):
            self.assertEqual(message(f"st.release.{scope}.u64", f"ld.acquire.{scope}.u64", reader), ALLOWED)
            self.assertEqual(message(f"st.release.{scope}.u64", "ld.acquire.sys.u64", reader), ALLOWED)
            self.assertEqual(message("st.release.sys.u64", f"ld.acquire.{scope}.u64", reader), ALLOWED)

    def test_different_scopes_that_are_large_enough(self):
        self.assertEqual(message("st.release.cta.u64", "ld.acquire.gpu.u64", "d0.b0"), FORBIDDEN)

    def test_one_side_is_not_enough(self):
        self.assertEqual(message("st.relaxed.gpu.u64", "ld.acquire.gpu.u64"), ALLOWED)
        self.assertEqual(message("st.release.gpu.u64", "ld.relaxed.gpu.u64"), ALLOWED)
        self.assertEqual(message("st.u64", "ld.u64"), ALLOWED)

    def test_fences(self):
        fenced = "fence.acq_rel.gpu"
        for scope, expected in (("gpu", FORBIDDEN), ("cta", ALLOWED)):
            self.assertEqual(verdict([("d0.b0", f"st.u64 [x], 1; {fenced}; st.relaxed.gpu.u64 [f], 1"),
                                      ("d0.b1", f"ld.relaxed.gpu.u64 a, [f]; fence.acq_rel.{scope}; ld.u64 b, [x]")],
                                     {"a": 1, "b": 0}), expected)

    def test_release_followed_by_a_store_to_the_same_word(self):
        first = "st.u64 [x], 1; st.release.gpu.u64 [{}], 1; st.relaxed.gpu.u64 [f], 2"
        for word, expected in (("f", FORBIDDEN), ("g", ALLOWED)):
            reader = "ld.acquire.gpu.u64 a, [f]; ld.u64 b, [x]"
            self.assertEqual(verdict([("d0.b0", first.format(word)), ("d0.b1", reader)], {"a": 2, "b": 0}), expected)

    def test_order_is_handed_on(self):
        middle = "ld.acquire.cta.u64 a, [f]; st.release.gpu.u64 [g], 1"
        for place, expected in (("d0.b0", FORBIDDEN), ("d0.b2", ALLOWED)):
            self.assertEqual(verdict([("d0.b0", "st.u64 [x], 1; st.release.cta.u64 [f], 1"), (place, middle),
                                      ("d0.b1", "ld.acquire.gpu.u64 b, [g]; ld.u64 c, [x]")],
                                     {"a": 1, "b": 1, "c": 0}), expected)

    def test_a_strong_read_of_data_hands_on_what_a_weak_one_does_not(self):
        for scope, expected in (("sys", FORBIDDEN), ("gpu", ALLOWED)):
            reader = f"ld.acquire.sys.u64 a, [x]; st.u64 [x], 2; st.release.{scope}.u64 [g], 1"
            self.assertEqual(verdict([("d0.b0", "st.release.sys.u64 [x], 1"), ("d1.b0", reader),
                                      ("d2.b0", "ld.acquire.sys.u64 b, [g]; ld.u64 c, [x]")],
                                     {"a": 1, "b": 1, "c": 1}), expected)


class Barriers(unittest.TestCase):
    def test_orders_threads_of_the_block(self):
        for place, expected in (("d0.b0", FORBIDDEN), ("d0.b1", ALLOWED)):
            self.assertEqual(verdict([("d0.b0", "st.u64 [x], 1; bar.sync 0"), (place, "bar.sync 0; ld.u64 a, [x]")],
                                     {"a": 0}), expected)
            self.assertEqual(verdict([("d0.b0", "ld.u64 a, [x]; bar.red.or.pred p, 0, q"),
                                      (place, "bar.sync 0; st.u64 [x], 1")], {"a": 1}), expected)

    def test_orders_nothing_across_another_barrier_or_another_time(self):
        self.assertEqual(verdict([("d0.b0", "st.u64 [x], 1; bar.sync 0"), ("d0.b0", "bar.sync 1; ld.u64 a, [x]")],
                                 {"a": 0}), ALLOWED)
        self.assertEqual(verdict([("d0.b0", "bar.sync 0; st.u64 [x], 1"), ("d0.b0", "bar.sync 0; ld.u64 a, [x]")],
                                 {"a": 0}), ALLOWED)

    def test_twice_store_buffering(self):
        self.assertEqual(verdict([("d0.b0", "st.u64 [x], 1; bar.sync 0; ld.u64 a, [y]"),
                                  ("d0.b0", "st.u64 [y], 1; bar.sync 0; ld.u64 b, [x]")], {"a": 0, "b": 0}), FORBIDDEN)


class Aliases(unittest.TestCase):
    def test_one_thread(self):
        for fence, expected in (("fence.proxy.alias;", FORBIDDEN), ("", ALLOWED)):
            thread = ("d0.b0", f"st.u64 [x], 42; {fence} ld.u64 a, [y]")
            self.assertEqual(verdict([thread], {"a": 0}, aliases={"y": "x"}), expected)

    def test_message_by_an_alias(self):
        options = {"release": "st.release.gpu.u64", "acquire": "ld.acquire.gpu.u64", "aliases": {"y": "x"}}
        self.assertEqual(message(**options), ALLOWED)
        self.assertEqual(message(between="fence.proxy.alias;", **options), FORBIDDEN)

    def test_a_fence_orders_only_what_is_on_its_path(self):
        late = "st.u64 [x], 1; st.release.gpu.u64 [f], 1; fence.proxy.alias"
        self.assertEqual(verdict([("d0.b0", late), ("d0.b1", "ld.acquire.gpu.u64 f0, [f]; ld.u64 x0, [y]")],
                                 {"f0": 1, "x0": 0}, aliases={"y": "x"}), ALLOWED)


class Coherence(unittest.TestCase):
    def test_one_thread_reads_what_it_wrote(self):
        self.assertEqual(verdict([("d0.b0", "st.u64 [x], 1; ld.u64 a, [x]")], {"a": 0}), FORBIDDEN)
        self.assertEqual(verdict([("d0.b0", "ld.u64 a, [x]; st.u64 [x], 1")], {"a": 1}), FORBIDDEN)

    def test_two_reads_of_a_word(self):
        for order, expected in (("relaxed.gpu.", FORBIDDEN), ("", ALLOWED)):
            self.assertEqual(verdict([("d0.b0", f"st.{order}u64 [x], 1; st.{order}u64 [x], 2"),
                                      ("d0.b1", f"ld.{order}u64 a, [x]; ld.{order}u64 b, [x]")],
                                     {"a": 2, "b": 1}), expected)

    def test_readers_agree_on_the_order_of_strong_writes(self):
        for write, expected in (("st.relaxed.sys.u64", FORBIDDEN), ("st.u64", ALLOWED)):
            self.assertEqual(verdict([("d0.b0", f"{write} [x], 1"), ("d0.b1", f"{write} [x], 2"),
                                      ("d0.b2", "ld.acquire.sys.u64 a, [x]; ld.acquire.sys.u64 b, [x]"),
                                      ("d0.b3", "ld.acquire.sys.u64 c, [x]; ld.acquire.sys.u64 d, [x]")],
                                     {"a": 1, "b": 2, "c": 2, "d": 1}), expected)

    def test_words_of_a_vector_have_no_order(self):
        self.assertEqual(verdict([("d0.b0", "st.relaxed.sys.v2.u64 [x], {1, 1}"),
                                  ("d0.b1", "ld.relaxed.sys.v2.u64 {a, b}, [x]")], {"a": 1, "b": 0}), ALLOWED)


class Refusals(unittest.TestCase):
    def test_what_the_model_does_not_have(self):
        for text in ("atom.relaxed.gpu.add.u64 a, [x], 1", "ld.global.nc.u64 a, [x]", "ld.volatile.u64 a, [x]",
                     "fence.sc.gpu", "st.release.u64 [x], 1"):
            with self.assertRaises(ValueError):
                verdict([("d0.b0", text)], {})


if __name__ == "__main__":
    unittest.main()
