"""Reads the PTX of a kernel that was compiled with -lineinfo: its instructions, from which functions of the source each
was inlined, and which instructions can follow which."""

import bisect
import re

FUNCTION = re.compile(r"^(?:\.visible )?(?:\.weak )?\.(entry|func)\s+(?:\(.*?\)\s*)?([\w$]+)")
LOCATION = re.compile(r"\.loc\s+(\d+) (\d+) (\d+)"
                      r"(?:, function_name \$L__info_string(\d+), inlined_at (\d+) (\d+) (\d+))?")
STRING = re.compile(r"\$L__info_string(\d+):")


class Instruction:
    def __init__(self, text, functions):
        self.text = text
        self.functions = functions  # mangled, the innermost first
        self.successors = []

    def is_inside(self, *names):
        """Whether it was inlined from functions of all these names."""
        return all(any(f"{len(name)}{name}" in function for function in self.functions) for name in names)


class Function:
    """A kernel, or a function that it calls."""

    def __init__(self, name, is_kernel):
        self.name = name
        self.is_kernel = is_kernel
        self.instructions = []

    def find(self, opcode, *functions):
        """The instructions whose text begins as the expression `opcode` says."""
        return [i for i in self.instructions if re.match(opcode, i.text) and i.is_inside(*functions)]

    def reaches(self, starts, goals, avoiding=()):
        """Whether some path leads from behind one of `starts` to one of `goals`, and through none of `avoiding`."""
        goals, seen, todo = set(goals), set(avoiding), [s for start in starts for s in start.successors]
        while todo:
            here = todo.pop()
            if here in seen:
                continue
            if here in goals:
                return True
            seen.add(here)
            todo += here.successors
        return False


def read(path):
    """All functions of a PTX file."""
    with open(path, encoding="utf-8") as file:
        lines = file.read().split("\n")
    names = _names(lines)
    functions, at = [], 0
    while at < len(lines):
        found = FUNCTION.match(lines[at])
        body = _body(lines, at) if found else None
        if body:
            functions.append(_function(found.group(2), found.group(1) == "entry", lines[body[0]:body[1]], names))
            at = body[1]
        at += 1
    return functions


def _body(lines, at):
    """The lines between the braces of the function that begins there; None if it is only declared."""
    while lines[at].strip() != "{":
        if lines[at].rstrip().endswith(";"):
            return None
        at += 1
    return at + 1, lines.index("}", at)


def _names(lines):
    """The strings of the debug information by their numbers."""
    names, number = {}, None
    for line in lines:
        label = STRING.match(line)
        if label:
            number = label.group(1)
            names[number] = bytearray()
        elif number and line.strip().startswith(".b8"):
            names[number] += bytes(int(part) for part in line.strip()[3:].split(","))
        elif line.strip() and not line.startswith("$"):
            number = None
    return {number: bytes(text).split(b"\0")[0].decode() for number, text in names.items()}


def _function(name, is_kernel, lines, names):
    function = Function(name, is_kernel)
    labels, callers, place = {}, {}, None
    for line in _statements(lines):
        location = LOCATION.match(line)
        if location:
            place = location.groups()[:3]
            callers[place] = (location.group(4), location.groups()[4:])
        elif line.endswith(":"):
            labels[line[:-1]] = len(function.instructions)
        elif not line.startswith(("//", ".", "{", "}", "$")):
            function.instructions.append(Instruction(re.sub(r"\s+", " ", line), _chain(place, callers, names)))
    _link(function.instructions, labels)
    return function


def _statements(lines):
    """Joins what is on several lines, as calls are."""
    text = ""
    for line in lines:
        text = f"{text} {line.strip()}".strip()
        if not text.startswith(("call", "@")) or text.endswith(";"):
            if text:
                yield text
            text = ""


def _chain(place, callers, names):
    chain = []
    while place in callers and callers[place][0] is not None and len(chain) < 100:
        number, place = callers[place]
        chain.append(names[number])
    return tuple(chain)


def _link(instructions, labels):
    starts = sorted(set(labels.values()))
    for at, instruction in enumerate(instructions):
        branch = re.match(r"(@\S+ )?(?:bra(?:\.uni)?|brx)\s+([$\w]+)", instruction.text)
        ends = re.match(r"(ret|exit|trap)\b", instruction.text)
        if "brx" in instruction.text.split(".")[0].split():
            for start in starts:  # which labels a table names is not read: any may follow
                instruction.successors += instructions[start:start + 1]
        elif branch and branch.group(2) in labels:
            target = labels[branch.group(2)]
            instruction.successors += instructions[target:target + 1]
        if not ends and not (branch and not branch.group(1)):
            instruction.successors += instructions[at + 1:at + 2]


def forms(instructions):
    """The different opcodes, without operands, sorted."""
    return sorted({re.sub(r"^@\S+ ", "", i.text).split(" ")[0].rstrip(";") for i in instructions})
