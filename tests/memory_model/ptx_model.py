"""NVIDIA's PTX memory model, as far as the kernels use it: which outcomes of a small program does it allow?

The axioms are those of the PTX ISA's chapter "Memory Consistency Model", and, for addresses that are aliases, of
D. Lustig et al., "Mixed-Proxy Extensions for the NVIDIA PTX Memory Consistency Model" (ISCA 2022). All executions of a
program are enumerated: each read may take its value from each write to its location, and each pair of writes that the
model orders at all may have either order. An outcome is allowed if one execution that shows it breaks no axiom.

Programs have loads, stores, fences and barriers of thread blocks. There are no atomic read-modify-writes and no
fence.sc, because no kernel uses them, and the values that are stored are constants, so that none can come out of thin
air.
"""

import dataclasses
import itertools
import re

SCOPES = {"cta": 2, "gpu": 1, "sys": 0}  # how many parts of a thread's place the scope's threads share


@dataclasses.dataclass(frozen=True)
class Event:
    """One operation of a thread. A vector access is several events."""
    index: int
    thread: int
    place: tuple          # the device and the block
    kind: str             # read, write, fence, alias_fence or barrier
    address: str = ""
    location: str = ""    # the memory that the address means; aliases have one location
    value: int = 0
    register: str = ""
    order: str = "weak"
    scope: str = ""
    occurrence: tuple = ()  # which barrier, and the how manieth time

    def is_memory(self):
        return self.kind in ("read", "write")

    def is_strong(self):
        return self.kind == "fence" or self.is_memory() and self.order != "weak"

    def reaches(self, other):
        """Whether the scope of this operation includes the thread of the other one."""
        shared = SCOPES[self.scope]
        return self.place[:shared] == other.place[:shared]


@dataclasses.dataclass(frozen=True)
class Litmus:
    """A program and an outcome. `threads` are pairs of a place, such as "d0.b1" for block 1 of device 0, and PTX
    instructions, in which names stand for addresses and numbers for values. `aliases` says of addresses which other
    address means the same memory. All memory is 0 at first."""
    threads: tuple
    outcome: dict         # the values of registers
    aliases: dict = dataclasses.field(default_factory=dict)
    # The ISA's text says that operations overlap if they use the same address; so by the letter no release by an alias
    # is ever observed. NVIDIA's formal model compares locations there, which is what this is by default.
    aliases_overlap: bool = True

    def allows_outcome(self):
        events = list(_events(self))
        program = _program_order(events)
        reads = [event for event in events if event.kind == "read"]
        sources = [_sources(event, events, self.outcome) for event in reads]
        for choice in itertools.product(*sources):
            source = dict(zip(reads, choice))
            if _is_consistent(_Execution(self, events, program, source)):
                return True
        return False


def instruction(text):
    """Takes a PTX instruction apart: its operation, its qualifiers and its operands."""
    operation, _, operands = text.strip().rstrip(";").partition(" ")
    parts = operation.split(".")
    return parts[0], parts[1:], re.sub(r"\s", "", operands)


def _events(litmus):
    index = itertools.count()
    for thread, (place, program) in enumerate(litmus.threads):
        barriers = {}
        for text in program:
            for fields in _operations(text, barriers):
                name, dot, word = fields.get("address", "").partition(".")
                fields["location"] = litmus.aliases.get(name, name) + dot + word
                yield Event(next(index), thread, tuple(place.split(".")), **fields)


def _operations(text, barriers):
    name, qualifiers, operands = instruction(text)
    if name == "multimem":
        name, qualifiers = qualifiers[0], qualifiers[1:]
    if name in ("bar", "barrier"):
        number = operands.split(",")[1] if "red" in qualifiers else operands
        barriers[number] = barriers.get(number, 0) + 1
        return [{"kind": "barrier", "occurrence": (number, barriers[number])}]
    if name == "fence" and qualifiers == ["proxy", "alias"]:
        return [{"kind": "alias_fence"}]
    if name == "fence" and qualifiers[:1] == ["acq_rel"]:
        return [{"kind": "fence", "order": "acq_rel", "scope": qualifiers[1]}]
    if name not in ("ld", "st") or {"nc", "volatile", "mmio", "shared", "local", "param"} & set(qualifiers):
        raise ValueError(f"the model has no {text!r}")
    order = next((part for part in qualifiers if part in ("relaxed", "acquire", "release")), "weak")
    scope = next((part for part in qualifiers if part in SCOPES), "")
    if (order == "weak") != (scope == ""):
        raise ValueError(f"{text!r} needs both an order and a scope, or neither")
    address = re.search(r"\[(.*?)\]", operands).group(1)
    values = re.sub(r"\[.*?\]", "", operands).strip(",").strip("{}").split(",")
    addresses = [address] if len(values) == 1 else [f"{address}.{i}" for i in range(len(values))]
    common = {"order": order, "scope": scope}
    if name == "ld":
        return [{"kind": "read", "address": a, "register": v, **common} for a, v in zip(addresses, values)]
    return [{"kind": "write", "address": a, "value": int(v), **common} for a, v in zip(addresses, values)]


def _sources(read, events, outcome):
    """The writes from which a read can take a value that fits the outcome; None is the value at first."""
    writes = [None] + [e for e in events if e.kind == "write" and e.location == read.location]
    wanted = outcome.get(read.register)
    return [w for w in writes if wanted is None or (w.value if w else 0) == wanted]


def _program_order(events):
    return {(a, b) for a in events for b in events if a.thread == b.thread and a.index < b.index}


def _closure(pairs):
    after = {}
    for a, b in pairs:
        after.setdefault(a, set()).add(b)
    for middle in list(after):
        for successors in after.values():
            if middle in successors:
                successors |= after[middle]
    return {(a, b) for a, successors in after.items() for b in successors}


class _Execution:
    """A program of which it is decided from which write each read takes its value."""

    def __init__(self, litmus, events, program, source):
        self.litmus = litmus
        self.events = events
        self.program = program
        self.source = source
        self.read_from = {(write, read) for read, write in source.items() if write}
        self.observation = {(w, r) for w, r in self.read_from if self.is_morally_strong(w, r)}
        self.base = _closure(program | self._synchronized() | self._barriers())
        self.causality = self._causality()

    def overlap(self, a, b):
        return a.address == b.address or self.litmus.aliases_overlap and a.location == b.location

    def is_morally_strong(self, a, b):
        if a.is_memory() and b.is_memory() and not self.overlap(a, b):
            return False
        return a.thread == b.thread or a.is_strong() and b.is_strong() and a.reaches(b) and b.reaches(a)

    def _synchronized(self):
        """From the first operation of a release pattern to the last of an acquire pattern."""
        pairs = set()
        for write, read in self.observation:
            for first in self._releases(write):
                for last in self._acquires(read):
                    if self.is_morally_strong(first, last):
                        pairs.add((first, last))
        return pairs

    def _releases(self, write):
        if not write.is_strong():
            return []
        before = [e for e in self.events if (e, write) in self.program or e is write]
        return [e for e in before
                if e.kind == "fence" or e.kind == "write" and e.order == "release" and e.address == write.address]

    def _acquires(self, read):
        if not read.is_strong():
            return []
        behind = [e for e in self.events if (read, e) in self.program or e is read]
        return [e for e in behind
                if e.kind == "fence" or e.kind == "read" and e.order == "acquire" and e.address == read.address]

    def _barriers(self):
        barriers = [e for e in self.events if e.kind == "barrier"]
        return {(a, b) for a in barriers for b in barriers
                if a is not b and a.place == b.place and a.occurrence == b.occurrence}

    def _causality(self):
        fences = [e for e in self.events if e.kind == "alias_fence"]
        preserved = set()
        for a, b in self.base:
            if not (a.is_memory() and b.is_memory() and a.location == b.location):
                continue
            fenced = any((a, f) in self.base and (f, b) in self.base for f in fences)
            if a.address == b.address or fenced:
                preserved.add((a, b))
        observed = {(w, b) for w, r in self.observation for a, b in preserved if a is r}
        return preserved | observed

    def coherence_orders(self):
        """The orders in which memory may have taken the writes. What the model does not order stays without order,
        since any further order could only forbid more."""
        writes = [e for e in self.events if e.kind == "write"]
        given = {(a, b) for a, b in self.causality if a.kind == "write" and b.kind == "write"}
        free = [(a, b) for a, b in itertools.combinations(writes, 2)
                if a.location == b.location and self.is_morally_strong(a, b)]
        for turned in itertools.product((False, True), repeat=len(free)):
            chosen = {(b, a) if turn else (a, b) for (a, b), turn in zip(free, turned)}
            order = _closure(given | chosen)
            if all(a is not b for a, b in order):
                yield order

    def reads_before(self, order):
        """Which write each read precedes, because it has taken an older value."""
        pairs = set()
        for read, source in self.source.items():
            for write in self.events:
                if write.kind != "write" or write.location != read.location:
                    continue
                if source is None or (source, write) in order:
                    pairs.add((read, write))
        return pairs


def _is_consistent(execution):
    """Whether the execution breaks neither causality nor the order of operations on one location. The axiom of
    coherence holds by the way in which the orders are made."""
    for order in execution.coherence_orders():
        before = execution.reads_before(order)
        if any((b, a) in execution.causality for a, b in execution.read_from | before):
            continue
        strong = {(a, b) for a, b in execution.read_from | before | order if execution.is_morally_strong(a, b)}
        local = {(a, b) for a, b in execution.program
                 if a.is_memory() and b.is_memory() and a.address == b.address}
        if all(a is not b for a, b in _closure(strong | local)):
            return True
    return False
