"""Reads the text of a PTX module: functions with their parameters and registers, and the statements of their bodies."""
import dataclasses
import re


class PtxError(Exception):
    """Something in a PTX module that has no translation yet."""


@dataclasses.dataclass
class Variable:
    """A parameter, or memory of a state space."""
    name: str
    align: int
    size: int


@dataclasses.dataclass
class Statement:
    line: int
    kind: str  # instruction, label, register, memory, open or close
    text: str  # an instruction without its predicate, the name of a label, what a directive declares
    predicate: str = ""
    negated: bool = False


@dataclasses.dataclass
class Function:
    name: str
    is_entry: bool
    parameters: list  # and behind them what it returns
    threads: int = 0
    body: list = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class Module:
    functions: list
    shared: list


SIZES = {"b8": 1, "u8": 1, "s8": 1, "b16": 2, "u16": 2, "s16": 2, "b32": 4, "u32": 4, "s32": 4, "f32": 4, "b64": 8,
         "u64": 8, "s64": 8, "f64": 8, "pred": 1}
HEADER = re.compile(r"(?P<flags>(?:\.\w+\s+)*?)\.(?P<kind>func|entry)\s+(?:\((?P<result>[^)]*)\)\s*)?(?P<name>[\w$]+)\s*"
                    r"(?:\((?P<list>[^)]*)\))?"
                    r"(?P<rest>[^;{]*)$")
VARIABLE = re.compile(r"(?:\.align\s+(?P<align>\d+)\s+)?\.(?P<type>[bsuf]\d+)\s+(?P<name>[\w$]+)(?:\[(?P<count>\d+)\])?$")
LABEL = re.compile(r"\s*([\w$]+):")
PREAMBLE = re.compile(r"^\.(version|target|address_size)\b[^\n]*", re.MULTILINE)


def variable_of(text, line):
    """What a declaration without its state space says."""
    found = VARIABLE.match(text.strip())
    if not found:
        raise PtxError(f"line {line}: a declaration of a form that is not known: {text}")
    size = SIZES[found["type"]]
    return Variable(found["name"], int(found["align"] or size), size * int(found["count"] or 1))


def parts_of(text):
    """Splits a module into pairs of a line number and a text, which is a statement without its semicolon, the header of
    a function, `{` or `}`. Braces within a statement hold the operands of vectors and stay in it."""
    pending, begin, line, depth = "", 1, 1, 0
    for token in re.findall(r"\n|[^\S\n]+|[{};:]|[^\s{};:]+", text):
        if token == "\n":
            line += 1
        if not pending and token.isspace():
            continue
        if not pending:
            begin = line
        if token == "{" and (not pending or re.search(r"\.(func|entry)\s", pending)):
            if pending:
                yield begin, pending.strip()
            yield line, "{"
            pending = ""
        elif token == "}" and not pending:
            yield line, "}"
        elif token == ";" and depth == 0:
            yield begin, pending.strip()
            pending = ""
        elif token == ":" and LABEL.fullmatch(pending + ":"):
            yield begin, pending + ":"
            pending = ""
        else:
            depth += {"{": 1, "}": -1}.get(token, 0)
            pending += " " if token.isspace() else token
    if pending.strip():
        raise PtxError(f"line {begin}: a statement without an end: {pending}")


def header_of(found, line):
    """A function without its body."""
    if "(" in found["rest"] or ".extern" in found["flags"]:
        raise PtxError(f"line {line}: functions without bodies are not translated: {found['name']}")
    parameters = []
    for one in filter(str.strip, [*(found["list"] or "").split(","), found["result"] or ""]):
        if not one.strip().startswith(".param"):
            raise PtxError(f"line {line}: a parameter outside of the space for parameters: {one}")
        parameters.append(variable_of(one.strip()[len(".param"):], line))
    function = Function(found["name"], found["kind"] == "entry", parameters)
    threads = re.search(r"\.maxntid\s+(\d+)\s*,\s*1\s*,\s*1", found["rest"])
    function.threads = int(threads[1]) if threads else 0
    if function.is_entry and not threads:
        raise PtxError(f"line {line}: a kernel that does not say how many threads a block has: {function.name}")
    return function


def statement_of(text, line):
    if text.endswith(":"):
        return Statement(line, "label", text[:-1])
    if text.startswith(".reg "):
        return Statement(line, "register", text[len(".reg "):].strip())
    if text.startswith((".local ", ".param ")):
        return Statement(line, "memory", text[len(".local "):].strip())
    if text.startswith("."):
        raise PtxError(f"line {line}: a directive that is not known: {text}")
    predicate = re.match(r"@(!?)(%?\w+)\s+", text)
    if not predicate:
        return Statement(line, "instruction", text)
    return Statement(line, "instruction", text[predicate.end():], predicate[2], bool(predicate[1]))


def read_module(text):
    """The functions that have bodies, in the order of the text, and the shared memory that they name."""
    module = Module([], [])
    function, depth = None, 0
    for line, part in parts_of(PREAMBLE.sub("", re.sub(r"//[^\n]*", "", text))):
        header = HEADER.match(part) if depth == 0 else None
        if header:
            function = header_of(header, line)
        elif part == "{":
            depth += 1
            if depth == 1:
                module.functions.append(function)
            else:
                function.body.append(Statement(line, "open", ""))
        elif part == "}":
            depth -= 1
            if depth > 0:
                function.body.append(Statement(line, "close", ""))
        elif part.startswith(".shared "):
            module.shared.append(variable_of(part[len(".shared "):], line))
        elif part.startswith(".pragma"):
            continue  # advice to the assembler
        elif depth == 0:
            raise PtxError(f"line {line}: a directive that is not known: {part}")
        else:
            function.body.append(statement_of(part, line))
    return module
