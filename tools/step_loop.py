"""The loop over the steps of a schedule, in the machine code of an interpreter: what every thread runs for each step."""
import re

BRANCH = re.compile(r"0x([0-9a-f]+)")


class StepLoop:
    """`code`: (address, opcode, operands, whether it depends on a predicate) of each instruction of a kernel, with the
    functions after it that it calls. The loop is all that lies on a way from a vote of the block back to that vote, and
    the functions called there, except for those that load 128 bits at a time: they move the data."""

    def __init__(self, code):
        self.code = {address: (opcode, operands, predicated) for address, opcode, operands, predicated in code}
        order = [line[0] for line in code]
        self.after = dict(zip(order, order[1:]))
        self.meetings = self._meetings()
        inside = self._loop(order[0]) if order else set()
        for entry in sorted({target for address in inside if (target := self.call(address)) is not None}):
            inside |= self._called(entry)
        opcodes = [self.code[address][0].split(".")[0] for address in inside]
        self.instructions = len(opcodes)
        self.loads, self.stores = opcodes.count("LDL"), opcodes.count("STL")

    def call(self, address):
        opcode, operands, _ = self.code[address]
        return self.target(operands) if opcode.startswith("CALL.REL") else None

    @staticmethod
    def target(operands):
        found = BRANCH.findall(operands)
        return int(found[-1], 16) if found else None

    def _meetings(self):
        """Where the threads that BSYNC has gathered go on: at what the BSSY of the same barrier names."""
        named = {}
        for opcode, operands, _ in self.code.values():
            if opcode.startswith("BSSY"):
                named.setdefault(operands.split(",")[0].strip(), []).append(self.target(operands))
        meetings = {}
        for address, (opcode, operands, _) in self.code.items():
            if opcode.startswith("BSYNC"):
                later = [place for place in named.get(operands.split(";")[0].strip(), []) if place >= address]
                meetings[address] = min(later, default=None)
        return meetings

    def successors(self, address):
        opcode, operands, predicated = self.code[address]
        kind = opcode.split(".")[0]
        if kind in ("BRA", "BSYNC"):
            place = self.target(operands) if kind == "BRA" else self.meetings[address]
            if place is not None:
                yield place
            conditional = predicated or "," in operands  # BRA.U UP0, 0x10
        else:
            conditional = predicated or kind not in ("EXIT", "RET", "BRX")
        if conditional and address in self.after:
            yield self.after[address]

    def reachable(self, starts, successors):
        seen, todo = set(), list(starts)
        while todo:
            here = todo.pop()
            if here not in seen and here in self.code:
                seen.add(here)
                todo += successors(here)
        return seen

    def _loop(self, entry):
        own = self.reachable([entry], self.successors)
        before = {}
        for address in own:
            for place in self.successors(address):
                before.setdefault(place, []).append(address)
        loops = [set()]
        for vote in (address for address in own if self.code[address][0].startswith("BAR.RED")):
            loops.append(self.reachable(self.successors(vote), self.successors) &
                         self.reachable(before.get(vote, []), lambda place: before.get(place, [])))
        return max(loops, key=len)

    def _called(self, entry):
        """A function and all that it calls, without those that move data."""
        body = self.reachable([entry], self.successors)
        if any(re.match(r"LDG?\.E?\.?.*128", self.code[address][0]) for address in body):
            return set()
        for deeper in {target for address in body if (target := self.call(address)) is not None} - {entry}:
            body |= self._called(deeper)
        return body
