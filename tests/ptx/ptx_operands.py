"""The operands of PTX instructions as expressions of C++, and results as assignments to registers."""
import re

from ptx_text import SIZES, PtxError

SPECIAL = {"%tid.x": "t.tid()", "%ctaid.x": "t.ctaid()", "%nctaid.x": "t.nctaid()"}
ADDRESS = re.compile(r"\[\s*(%?[\w$]+)\s*(?:\+\s*(-?\d+))?\s*\]$")


def is_float(kind):
    return kind[0] == "f"


def unsigned(kind):
    """The C++ type of a register with values of this PTX type."""
    return "bool" if kind == "pred" else kind if is_float(kind) else f"u{8 * SIZES[kind]}"


def value_type(kind):
    """The C++ type as which an instruction of this type sees a value."""
    return kind.replace("b", "u") if kind[0] == "b" else "bool" if kind == "pred" else kind


def identifier(name):
    return "r_" + name.lstrip("%").replace("$", "_")


def split_list(text):
    """Splits at commas outside of braces and brackets."""
    parts, depth = [""], 0
    for letter in text:
        depth += letter in "{[(" 
        depth -= letter in "}])"
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts]


def converted(expression, have, want):
    """An expression of a register's type `have` as a value of the type `want` of the same size."""
    if have == want or {have, want} == {"pred"}:
        return expression
    if is_float(have):
        return converted(f"bits({expression})", f"b{8 * SIZES[have]}", want)
    if is_float(want):
        return f"real({expression})"
    return expression if value_type(want) == unsigned(have) else f"{value_type(want)}({expression})"


class Scope:
    """The names that a function's statements use: registers by scope, and memory."""

    def __init__(self, shared):
        self.registers = [{}]   # scopes of names to types
        self.families = {}      # prefixes of numbered registers to types
        self.memory = {}        # names of parameters and local memory to C++ pointers
        self.shared = shared    # names of shared memory to places in the block's
        self.used = {}          # numbered registers that are used, to types

    def type_of(self, name):
        for scope in reversed(self.registers):
            if name in scope:
                return scope[name]
        family = self.families.get(re.sub(r"\d+$", "", name))
        if family and name[-1].isdigit():
            self.used[name] = family
            return family
        return None

    def literal(self, text, kind):
        size = SIZES[kind]
        real = re.fullmatch(r"0[fd]([0-9A-Fa-f]+)", text)
        if real and len(real[1]) == 2 * size:
            bits = f"u{8 * size}(0x{real[1]}u)"
            return converted(bits, f"b{8 * size}", kind)
        if not re.fullmatch(r"-?(0x[0-9A-Fa-f]+|\d+)", text) or is_float(kind) or kind == "pred":
            raise PtxError(f"an operand of a form that is not known: {text} as {kind}")
        value = int(text, 0) & ((1 << (8 * size)) - 1)
        return converted(f"u{8 * size}({value:#x}u)", f"b{8 * size}", kind)

    def read(self, text, kind):
        """The operand as a value of a type of the same size."""
        have = self.type_of(text)
        if have:
            if SIZES[have] != SIZES[kind] or (have == "pred") != (kind == "pred"):
                raise PtxError(f"{text} is a register of {have} and is read as {kind}")
            return converted(identifier(text), have, kind)
        if text in SPECIAL and SIZES[kind] == 4:
            return converted(SPECIAL[text], "b32", kind)
        if text == "%globaltimer" and SIZES[kind] == 8:
            return converted("t.globaltimer()", "b64", kind)
        if text in self.memory and SIZES[kind] == 8:
            return f"address({self.memory[text]})"
        if text in self.shared and SIZES[kind] == 4:
            return f"u32({self.shared[text]}u)"
        return self.literal(text, kind)

    def low_part(self, text, kind):
        """The operand, of which an instruction takes the lowest bits only, as conversions and stores do."""
        have = self.type_of(text)
        if not have or SIZES[have] == SIZES[kind]:
            return self.read(text, kind)
        if SIZES[have] < SIZES[kind] or is_float(have):
            raise PtxError(f"{text} is a register of {have} and is read as {kind}")
        return f"{value_type(kind)}({identifier(text)})"

    def write(self, text, kind, expression):
        """Assigns a value of a type of the same size."""
        have = self.type_of(text)
        if not have or SIZES[have] != SIZES[kind] or (have == "pred") != (kind == "pred"):
            raise PtxError(f"{text} is a register of {have} and a result of {kind} is written to it")
        if is_float(have):
            value = expression if is_float(kind) else f"real({expression})"
        else:
            value = f"bits({expression})" if is_float(kind) else f"{unsigned(have)}({expression})"
        return f"{identifier(text)} = {value};"

    def write_extended(self, text, kind, expression):
        """Assigns a value that may be smaller than the register, with its sign if it has one."""
        have = self.type_of(text)
        if not have or SIZES[have] <= SIZES[kind] or is_float(have) or is_float(kind):
            return self.write(text, kind, expression)
        wide = f"s{8 * SIZES[have]}" if kind[0] == "s" else unsigned(have)
        return f"{identifier(text)} = {unsigned(have)}({wide}({expression}));"

    def address(self, text, space):
        """The address in an operand in brackets, as a host's address, or as a place in shared memory."""
        found = ADDRESS.match(text)
        if not found:
            raise PtxError(f"an address of a form that is not known: {text}")
        kind = "u32" if space == "shared" else "u64"
        base = self.read(found[1], kind)
        offset = int(found[2] or 0)
        return base if offset == 0 else f"{base} + {self.literal(str(offset), kind)}"
