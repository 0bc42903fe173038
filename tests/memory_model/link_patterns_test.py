#!/usr/bin/env python3
"""The links between kernels are right under NVIDIA's memory model, with the instructions that the compiled kernel has.

Its arguments are the source folder, nvcc and its flags. It compiles the interpreter with one reduction, and with
TEST_DEPTH=all those of all groups of types. Its exit code is 77 if there is no nvcc.
"""

# Covers src/device/device_word.h, src/executor/device/device_port.h and tests/memory_model/ptx_code.py.

import os
import subprocess
import sys
import tempfile
import unittest

import link_patterns as links
import ptx_code
from link_patterns import OTHER_DEVICE, SAME_DEVICE
from ptx_code import forms

PARTNERS = (("gpu", SAME_DEVICE), ("sys", SAME_DEVICE), ("sys", OTHER_DEVICE))


class KernelCase(unittest.TestCase):
    code = None    # LinkInstructions
    kernel = None  # ptx_code.Function

    def forbids(self, litmus, what):
        self.assertFalse(litmus.allows_outcome(), f"{what} is allowed: {litmus}")

    def allows(self, litmus, what):
        self.assertTrue(litmus.allows_outcome(), f"{what} is forbidden: {litmus}")

    def holds(self, make):
        """The pattern's outcome is forbidden among all partners, and allowed as soon as anything is lacking."""
        for scope, reader in PARTNERS:
            litmus = make(scope, reader)
            self.forbids(litmus, f"{scope} to {reader}")
            twins = links.weaker_twins(litmus, scope if reader == OTHER_DEVICE else "gpu")
            for lacking, twin in twins.items():
                self.allows(twin, f"{scope} to {reader} without {lacking}")


class Patterns(KernelCase):
    def test_data_of_a_slot_is_there_when_it_is_announced(self):
        for outcome in ({"head": 1, "a": 0}, {"head": 1, "b": 0}):
            self.holds(lambda scope, reader: links.published_slot(self.code, scope, reader, outcome=outcome))

    def test_mark_of_a_slot_is_there_when_it_is_announced(self):
        for scope, reader in PARTNERS:
            litmus = links.published_slot(self.code, scope, reader, outcome={"head": 1, "mark": 0})
            self.forbids(litmus, f"{scope} to {reader}")
            for order in ("release", "acquire"):
                self.allows(links.weakened(litmus, rf"\.{order}\b", ".relaxed"), f"without {order}")

    def test_device_scope_is_not_enough_between_devices(self):
        for make in (links.credit, links.credit_of_cell, links.lent_until_released):
            self.allows(make(self.code, "gpu", OTHER_DEVICE), make.__name__)
        self.allows(links.published_slot(self.code, "gpu", OTHER_DEVICE, outcome={"head": 1, "b": 0}), "a slot")

    def test_nothing_is_overwritten_before_it_is_read(self):
        self.holds(lambda scope, reader: links.credit(self.code, scope, reader))
        self.holds(lambda scope, reader: links.credit_of_cell(self.code, scope, reader))

    def test_words_of_a_cell_need_no_order(self):
        for reader in (SAME_DEVICE, OTHER_DEVICE):
            for old in (links.flagged(1, 0), links.flagged(0, 7)):
                self.forbids(links.cell(self.code, reader, {"b": old}), "half a word")
            self.allows(links.cell(self.code, reader, {"a": links.flagged(1, 7), "b": 0}), "one word of a pair alone")
            self.allows(links.flag_apart(self.code, reader), "a flag before the word that it stands for")

    def test_threads_of_a_block_share_what_is_in_cells(self):
        for outcome in ({"data": 0}, {"d": 0}):
            litmus = links.cell(self.code, OTHER_DEVICE, outcome)
            self.forbids(litmus, outcome)
            self.allows(links.weakened(litmus, r"^bar.*", ""), f"{outcome} without barriers")

    def test_mark_by_an_alias_needs_the_fence(self):
        for multimem in (True, False):
            self.forbids(links.mark_by_alias(self.code, multimem), "an old mark")
            self.allows(links.mark_by_alias(self.code, multimem, fence=False), "an old mark without the fence")
            data = links.mark_by_alias(self.code, multimem, fence=False, outcome={"head": 1, "b": 0})
            self.forbids(data, "old data, which have one address")
            self.allows(links.weakened(data, r"\.acquire\b", ".relaxed"), "old data without acquire")

    def test_by_the_letter_of_the_text_an_alias_announces_nothing(self):
        self.allows(links.mark_by_alias(self.code, True, aliases_overlap=False), "an old mark by the letter")

    def test_credit_for_an_alias_needs_the_fence(self):
        self.forbids(links.credit_by_alias(self.code), "a mark from later")
        self.allows(links.credit_by_alias(self.code, fence=False), "a mark from later without the fence")

    def test_lent_data_stay_until_all_have_released_them(self):
        self.holds(lambda scope, reader: links.lent_until_released(self.code, scope, reader))

    def test_what_a_call_used_is_the_callers_when_its_end_is_seen(self):
        for outcome in ({"d": 0}, {"b": 2}):
            litmus = links.said_end(self.code, OTHER_DEVICE, outcome)
            self.forbids(litmus, outcome)
            for lacking, twin in links.weaker_twins(litmus, "sys").items():
                self.allows(twin, f"{outcome} without {lacking}")

    def test_the_model_does_not_order_reads_of_lent_data_before_the_stop_word(self):
        for scope, reader in PARTNERS:
            self.allows(links.lent_until_stopped(self.code, scope, reader), "what the model does not promise")
            self.forbids(links.lent_until_stopped(self.code, scope, reader, strong=True), "a seqlock")


class Places(KernelCase):
    """The instructions stand in the kernel where the patterns have them."""

    def find(self, opcode, *functions):
        found = self.kernel.find(opcode, *functions)
        self.assertTrue(found, f"{opcode} inside {functions}")
        return found

    def separates(self, barriers, first, second):
        self.assertTrue(self.kernel.reaches(first, second))
        self.assertFalse(self.kernel.reaches(first, second, avoiding=barriers))

    def setUp(self):
        self.votes = self.find(r"bar\.red", "any")
        self.barriers = self.find(r"bar\.sync", "sync")
        self.data = self.find(r"call", "compute")  # of the functions that move data
        self.heads = self.find(r"(multimem\.)?st\.release", "publish")
        self.credits = self.find(r"st\.release", "release")

    def test_a_barrier_is_between_data_and_what_is_announced(self):
        self.separates(self.barriers, self.data, self.heads)
        self.separates(self.barriers, self.data, self.credits)
        self.separates(self.barriers, self.data, self.find(r"ld\.acquire", "is_still_lent"))
        self.separates(self.barriers, self.data, self.find(r"ld\.global", "fill_cell"))
        self.separates(self.barriers, self.data, self.find(r"st\.release", "say_end"))
        self.separates(self.barriers, self.find(r"ld\.acquire", "await_released"), self.find(r"st\.release", "say_end"))

    def test_a_barrier_is_between_what_was_awaited_and_data(self):
        for function in ("await_slot", "await_release"):
            self.separates(self.votes, self.find(r"ld\.acquire", function), self.data)
        self.separates(self.votes, self.find(r"st\.global", "take_pair"), self.data)
        self.separates(self.votes, self.find(r"ld\.relaxed", "take_pair", "load_pair"), self.credits)
        filled = self.find(r"(multimem\.)?st", "fill_pair")
        self.separates(self.votes, self.find(r"ld\.acquire", "await_release"), filled)

    def test_a_mark_is_stored_before_its_head(self):
        marks = self.find(r"multimem\.st\.relaxed", "publish") + self.find(r"st\.global", "publish")
        self.separates(self.heads, marks, self.data)
        self.separates(marks, self.barriers, self.heads)

    def test_alias_fences_are_between_acquires_and_what_they_order(self):
        """Both fences may be left out, where nothing has an alias; so there are paths past them."""
        marks = self.find(r"ld\.global", "await_slot")
        multicast = self.find(r"multimem", "fill_pair") + self.find(r"multimem", "publish")
        for function, ordered in (("await_slot", marks), ("await_credit", multicast)):
            acquires = self.find(r"ld\.acquire", function)
            fences = self.find(r"fence\.proxy\.alias", function)
            self.assertTrue(self.kernel.reaches(acquires, fences, avoiding=self.votes + ordered))
            self.assertTrue(self.kernel.reaches(fences, ordered, avoiding=acquires))
            if function == "await_slot":  # a thread may wait for the credits of several messages, each of its own link
                self.assertFalse(self.kernel.reaches(fences, acquires, avoiding=self.votes + ordered))
        acquires, fences = self.find(r"ld\.acquire", "await_slot"), self.find(r"fence", "await_slot")
        self.assertFalse(self.kernel.reaches(marks, fences, avoiding=self.votes + acquires))

    def test_data_are_read_and_written_by_weak_accesses_alone(self):
        for form in self.code.data_accesses:
            self.assertRegex(form, r"^(ld|st)\.global(\.v[24])?\.[usbf]\d+$")

    def test_nothing_else_shares_memory(self):
        known = {*self.code.await_head.values(), *self.code.publish_head.values(), self.code.multicast_head,
                 self.code.multicast_mark, self.code.say_end, self.code.read_pair, self.code.write_pair, self.code.set_stop,
                 "ld.relaxed.sys.u64", self.code.alias_fence, *forms(self.votes), *forms(self.barriers)}
        strong = r"(ld|st)\.(relaxed|acquire|release|volatile|mmio)"
        shared = self.kernel.find(rf"(@\S+ )?(bar|barrier|fence|membar|atom|red|multimem|{strong})\b")
        self.assertEqual(set(forms(shared)) - known, set())


def compile_kernel(source, nvcc, flags, group, folder):
    """Compiles the interpreter of a group of types as the library does, with the lines of the source besides."""
    file = "tests/ptx/word_interpreter.cu" if group == "words" else f"src/executor/device/interpreter_{group}.cu"
    target = os.path.join(folder, f"{group}.ptx")
    subprocess.run([nvcc, "-ptx", "-arch=compute_90", "-std=c++20", "-O3", "-lineinfo", *flags,
                    f"-I{source}/src", f"-I{source}/include",
                    f"{source}/{file}", "-o", target], check=True)
    return ptx_code.read(target)


def suite_of(group, functions):
    """All cases for the kernel of a group of types."""
    kernels = [function for function in functions if function.is_kernel]
    assert len(kernels) == 1, f"{group} has {len(kernels)} kernels"
    code = links.LinkInstructions(kernels[0], [function for function in functions if not function.is_kernel])
    suite = unittest.TestSuite()
    for case in (Patterns, Places):
        members = {"code": code, "kernel": kernels[0], "__qualname__": f"{case.__name__}Of_{group}"}
        suite.addTests(unittest.defaultTestLoader.loadTestsFromTestCase(type(case.__name__, (case,), members)))
    return suite


def main(source, nvcc="", *flags):
    if not nvcc:
        print("Skipped\nno nvcc, so that there is no kernel whose instructions could be checked")
        return 77
    whole = os.environ.get("TEST_DEPTH", "all") == "all"
    groups = ("words", "reals", "integers", "small_floats", "trees") if whole else ("words",)
    suite = unittest.TestSuite()
    with tempfile.TemporaryDirectory() as folder:
        for group in groups:
            suite.addTests(suite_of(group, compile_kernel(source, nvcc, flags, group, folder)))
    return 0 if unittest.TextTestRunner(verbosity=2).run(suite).wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
