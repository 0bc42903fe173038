"""The patterns in which kernels of several ranks share memory, as programs for the checker.

Their instructions are those that the compiled kernel has in the function of the library that each pattern names, so
that a pattern cannot say anything else than the code.
"""

import re

from ptx_code import forms
from ptx_model import Litmus

SAME_DEVICE = "d0.b1"
OTHER_DEVICE = "d1.b0"


class LinkInstructions:
    """The instructions by which the kernel uses a link. The accesses to data are vectors of four words in the kernel.
    Here they have two, as the model takes the words of a vector for accesses of their own."""

    def __init__(self, kernel, functions):
        self.kernel = kernel
        self.publish_head = self.scoped(r"st\.release", "publish", "store_release")
        self.publish_mark = self.only(r"st\.(?!release|relaxed)", "publish")
        self.multicast_head = self.only(r"multimem", "publish", "multicast_release")
        self.multicast_mark = self.only(r"multimem", "publish", "multicast_relaxed")
        self.await_head = self.scoped(r"ld\.acquire", "await_slot", "load_acquire")
        self.read_mark = self.only(r"ld\.global", "await_slot")
        self.release_credit = self.scoped(r"st\.release", "release", "store_release")
        self.await_credit = self.scoped(r"ld\.acquire", "await_release", "load_acquire")
        self.await_readers = self.scoped(r"ld\.acquire", "await_released", "load_acquire")
        self.read_stop = self.scoped(r"ld\.acquire", "is_still_lent", "load_acquire")
        self.set_stop = self.only(r"st\.", "store_relaxed", code=[f for f in functions if "4fail" in f.name])
        self.say_end = self.only(r"st\.release", "say_end", "store_release")
        self.read_pair = self.only(r"ld\.relaxed", "take_pair", "load_pair")
        self.write_pair = self.only(r"st\.", "fill_pair", "store_pair")
        self.land_pair = self.only(r"st\.global", "take_pair")
        self.read_outgoing = self.only(r"ld\.global", "fill_cell")
        self.alias_fence = self.only(r"fence", "await_slot", "alias_fence")
        self.alias_fence_of_credit = self.only(r"fence", "await_credit", "alias_fence")
        self.vote = self.only(r"bar", "any") + " p, 0, q"
        self.barrier = self.only(r"bar", "sync") + " 0"
        accesses = [access for function in functions for access in function.find(r"(ld|st)\.global")]
        self.data_accesses = forms(accesses + kernel.find(r"(ld|st)\.global", "compute"))
        self.read_data = self.two_words("ld")
        self.write_data = self.two_words("st")

    def only(self, opcode, *functions, code=None):
        """The one form that the instructions have which were inlined from these functions, in the kernel or in `code`."""
        found = forms([one for function in code or [self.kernel] for one in function.find(opcode, *functions)])
        if len(found) != 1:
            raise AssertionError(f"{opcode} inside {' and '.join(functions)}: {found}")
        return found[0]

    def scoped(self, opcode, *functions):
        """The form for partners on this device and the one for partners anywhere, by the scope."""
        found = forms(self.kernel.find(opcode, *functions))
        by_scope = {form.split(".")[2]: form for form in found}
        if len(found) != 2 or set(by_scope) != {"gpu", "sys"}:
            raise AssertionError(f"{opcode} inside {' and '.join(functions)}: {found}")
        return by_scope

    def two_words(self, name):
        vectors = [form for form in self.data_accesses if form.startswith(name) and ".v4." in form]
        if len(vectors) != 1:
            raise AssertionError(f"vectors of data: {vectors}")
        return vectors[0].replace(".v4.", ".v2.")


def published_slot(code, scope, reader, mark=None, head=None, before_mark=(), **options):
    """One thread writes the data, another publishes, a third one awaits the message, a fourth one reads the data."""
    return Litmus((
        ("d0.b0", (f"{code.write_data} [data], {{1, 1}}", code.barrier)),
        ("d0.b0", (code.barrier, mark or f"{code.publish_mark} [mark], 1",
                   head or f"{code.publish_head[scope]} [head], 1")),
        (reader, (f"{code.await_head[scope]} head, [head]", *before_mark, f"{code.read_mark} mark, [mark]", code.vote)),
        (reader, (code.vote, f"{code.read_data} {{a, b}}, [data]"))), **options)


def credit(code, scope, reader):
    """The other way: after the writer has the credit, none of its threads overwrites what a thread still reads."""
    return Litmus((
        (reader, (f"{code.read_data} {{a, b}}, [data]", code.barrier)),
        (reader, (code.barrier, f"{code.release_credit[scope]} [credit], 1")),
        ("d0.b0", (f"{code.await_credit[scope]} credit, [credit]", code.vote)),
        ("d0.b0", (code.vote, f"{code.write_data} [data], {{2, 2}}"))), {"credit": 1, "b": 2})


def credit_of_cell(code, scope, reader):
    """The same for a cell, which is filled after the step's second barrier."""
    return Litmus((
        (reader, (f"{code.read_pair} {{a, b}}, [cell]", code.vote, code.barrier)),
        (reader, (code.vote, code.barrier, f"{code.release_credit[scope]} [credit], 1")),
        ("d0.b0", (f"{code.await_credit[scope]} credit, [credit]", code.vote, code.barrier)),
        ("d0.b0", (code.vote, code.barrier, f"{code.write_pair} [cell], {{2, 2}}"))), {"credit": 1, "b": 2})


def flagged(flag, data):
    """A word of a cell: its flag and half of its data."""
    return flag << 32 | data


def cell(code, reader, outcome):
    """A pair of a cell, whose words each carry their own flag, taken by one thread and used by another."""
    word = flagged(1, 7)
    return Litmus((
        ("d0.b0", (f"{code.write_data} [outgoing], {{1, 1}}", code.barrier)),
        ("d0.b0", (code.barrier, f"{code.read_outgoing} data, [outgoing.1]",
                   f"{code.write_pair} [cell], {{{word}, {word}}}")),
        (reader, (f"{code.read_pair} {{a, b}}, [cell]", f"{code.land_pair} [landing.1], 1", code.vote)),
        (reader, (code.vote, f"{code.read_data} {{c, d}}, [landing]"))), outcome)


def flag_apart(code, reader):
    """What a cell would be if one word were the flag of another one."""
    write, read = code.write_pair.replace(".v2", ""), code.read_pair.replace(".v2", "")
    return Litmus((("d0.b0", (f"{write} [data], 7", f"{write} [flag], 1")),
                   (reader, (f"{read} flag, [flag]", f"{read} data, [data]"))), {"flag": 1, "data": 0})


def mark_by_alias(code, multimem, fence=True, **options):
    """A slot whose mark and head are stored by an address of the mirrors, and loaded by another one."""
    mark = f"{code.multicast_mark if multimem else code.publish_mark} [to_mark], 1"
    head = f"{code.multicast_head if multimem else code.publish_head['sys']} [to_head], 1"
    options.setdefault("outcome", {"head": 1, "mark": 0})
    return published_slot(code, "sys", OTHER_DEVICE, mark, head, (code.alias_fence,) if fence else (),
                          aliases={"to_mark": "mark", "to_head": "head"}, **options)


def credit_by_alias(code, fence=True):
    """The mark of a slot is overwritten by an address of the mirrors, after the reader has given it back."""
    fences = (code.alias_fence_of_credit,) if fence else ()
    return Litmus((
        (OTHER_DEVICE, (f"{code.read_mark} mark, [mark]", code.vote, code.barrier)),
        (OTHER_DEVICE, (code.vote, code.barrier, f"{code.release_credit['sys']} [credit], 1")),
        ("d0.b0", (f"{code.await_credit['sys']} credit, [credit]", *fences, code.vote, code.barrier,
                   f"{code.multicast_mark} [to_mark], 2"))), {"credit": 1, "mark": 2}, {"to_mark": "mark"})


def lent_until_released(code, scope, reader):
    """A kernel that has lent its caller's buffer ends when all have read it. What comes next on the stream, which is
    the last store here, may overwrite the buffer."""
    return Litmus((
        (reader, (f"{code.read_data} {{a, b}}, [lent]", code.barrier)),
        (reader, (code.barrier, f"{code.release_credit[scope]} [credit], 1")),
        ("d0.b0", (f"{code.await_readers[scope]} credit, [credit]", f"{code.write_data} [lent], {{2, 2}}"))),
        {"credit": 1, "b": 2})


def lent_until_stopped(code, scope, reader, strong=False):
    """A kernel that was stopped gives the buffer back at once, and the reader looks at the stop word after it has read.
    The outcome is that it has read what came later and sees no stop. If `strong`, accesses and fences are those of a
    seqlock."""
    read, write, fence = f"{code.read_data} {{a, b}}", code.write_data, ()
    if strong:
        read, write = f"ld.relaxed.{scope}.v2.u32 {{a, b}}", f"st.relaxed.{scope}.v2.u32"
        fence = (f"fence.acq_rel.{scope}",)
    return Litmus((
        ("d0.b0", (f"{code.set_stop} [stop], 1", *fence, f"{write} [lent], {{2, 2}}")),
        (reader, (f"{read}, [lent]", *fence, code.barrier)),
        (reader, (code.barrier, f"{code.read_stop[scope]} stop, [stop]"))), {"stop": 0, "b": 2})


def said_end(code, host, outcome):
    """A thread of the block uses a buffer of the caller's, another one says that the call has ended, and the host, here a
    thread of another device, uses the buffer."""
    see = code.await_head["sys"]
    return Litmus((
        ("d0.b0", (f"{code.read_data} {{a, b}}, [input]", f"{code.write_data} [output], {{1, 1}}", code.barrier)),
        ("d0.b0", (code.barrier, f"{code.say_end} [end], 1")),
        (host, (f"{see} end, [end]", f"{code.read_data} {{c, d}}, [output]", f"{code.write_data} [input], {{2, 2}}"))),
        {"end": 1, **outcome})


def weakened(litmus, pattern, replacement):
    """The same program with some instructions changed; those that become empty are left out."""
    threads = tuple((place, tuple(text for text in (re.sub(pattern, replacement, line) for line in program) if text))
                    for place, program in litmus.threads)
    if threads == litmus.threads:
        raise AssertionError(f"{pattern} is nowhere in {litmus.threads}")
    return Litmus(threads, litmus.outcome, litmus.aliases, litmus.aliases_overlap)


def weaker_twins(litmus, scope):
    """Programs that each lack one thing which the pattern needs, by the name of what is lacking."""
    twins = {"a release": weakened(litmus, r"\.release\b", ".relaxed"),
             "an acquire": weakened(litmus, r"\.acquire\b", ".relaxed")}
    for place in sorted({place for place, _ in litmus.threads}):
        threads = [(p, program) for p, program in litmus.threads if p == place]
        if len(threads) == 2:
            bare = tuple((p, tuple(line for line in program if not line.startswith("bar")) if p == place else program)
                         for p, program in litmus.threads)
            twins[f"the barrier of {place}"] = Litmus(bare, litmus.outcome, litmus.aliases, litmus.aliases_overlap)
    if scope == "sys":
        twins["scope"] = weakened(litmus, r"\.(release|acquire)\.sys", r".\1.gpu")
    return twins
