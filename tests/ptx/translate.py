#!/usr/bin/env python3
"""Translates a PTX module into C++ that runs on the host, on the machine of machine.h.
usage: translate.py MODULE.ptx NAME OUTPUT.cc [--plant OLD NEW]...
The output defines tutti::ptx::Module NAME. A planted fault replaces a text, which has to be there, before the translation:
with it a test shows that it would notice. An instruction that is not known is an error, and nothing is written."""
import argparse
import collections
import pathlib
import re
import sys

from ptx_forms import Forms
from ptx_operands import Scope, identifier, unsigned
from ptx_text import PtxError, read_module, variable_of

# Where the first shared variable lies: a place that is not 0, as on a device.
SHARED_BEGIN = 1024


def place_shared(variables):
    """Names to places, and the place after the last."""
    places, end = {}, SHARED_BEGIN
    for one in variables:
        end = (end + one.align - 1) // one.align * one.align
        places[one.name] = end
        end += one.size
    return places, end


def early_loads(body):
    """The registers that a load from a named place in shared memory fills, and that nothing but the choice of a selp soon
    after uses. The compiler makes such loads of conditional ones; a race with one whose value is dropped is none."""
    uses = collections.Counter(name for one in body for name in re.findall(r"%\w+", one.text + " " + one.predicate))
    found = set()
    for i, one in enumerate(body):
        load = re.match(r"ld\.shared\.\w+ (%\w+), \[[^%]", one.text)
        if not load or uses[load[1]] != 2:
            continue
        choices = [re.match(r"selp\.\w+ %\w+, ([^,]+), ([^,]+), ", later.text) for later in body[i + 1:i + 4]]
        if any(choice and load[1] in choice.groups() for choice in choices):
            found.add(load[1])
    return found


class FunctionWriter:
    """Writes one function."""

    def __init__(self, function, shared, names, source):
        self.function = function
        self.scope = Scope(shared)
        self.forms = Forms(self.scope, names)
        self.forms.early = dict.fromkeys(early_loads(function.body), "")
        self.source = source
        self.lines = []
        for i, one in enumerate(function.parameters):
            self.scope.memory[one.name] = f"a{i}"

    @staticmethod
    def signature(function):
        given = ", ".join(f"[[maybe_unused]] std::byte* a{i}" for i in range(len(function.parameters)))
        return f"static void k_{function.name}([[maybe_unused]] Thread& t{', ' if given else ''}{given})"

    def write(self):
        for statement in self.function.body:
            try:
                self.statement(statement)
            except PtxError as problem:
                raise PtxError(f"line {statement.line}: {problem}: {statement.text}") from problem
        registers = [f"  [[maybe_unused]] {unsigned(kind)} {identifier(name)}{{}};"
                     for name, kind in sorted(self.scope.used.items())]
        return "\n".join([self.signature(self.function) + " {", *registers, *self.lines, "}"])

    def statement(self, one):
        if one.kind == "label":
            self.lines.append(f"{one.text.replace('$', '')}:;")
        elif one.kind == "open":
            self.scope.registers.append({})
            self.lines.append("{")
        elif one.kind == "close":
            self.scope.registers.pop()
            self.lines.append("}")
        elif one.kind == "register":
            self.register(one.text)
        elif one.kind == "memory":
            self.memory(one)
        else:
            text = self.forms.translate(one.text)
            if one.predicate:
                given = self.scope.read(one.predicate, "pred")
                text = f"if ({'!' if one.negated else ''}{given}) {{ {text} }}"
            self.lines.append(f'#line {one.line} "{self.source}"\n  {text}')

    def register(self, text):
        kind, names = re.match(r"\.(\w+)\s+(.*)$", text).groups()
        for name in (part.strip() for part in names.split(",")):
            family = re.match(r"(.*)<\d+>$", name)
            if family:
                self.scope.families[family[1]] = kind
                continue
            self.scope.registers[-1][name] = kind
            self.lines.append(f"  [[maybe_unused]] {unsigned(kind)} {identifier(name)};")

    def memory(self, one):
        variable = variable_of(one.text, one.line)
        name = identifier(variable.name)
        self.scope.memory[variable.name] = name
        self.lines.append(f"  alignas({variable.align}) std::byte {name}[{variable.size}];")


def plant(text, faults):
    for old, new in faults:
        if old not in text:
            raise PtxError(f"there is nothing to plant a fault in: {old}")
        text = text.replace(old, new)
    return text


def translate(text, name, source):
    """The C++ of a module, and how many instructions it has and of how many forms."""
    module = read_module(text)
    shared, end = place_shared(module.shared)
    names = {function.name for function in module.functions}
    bodies = [FunctionWriter(function, shared, names, source).write() for function in module.functions]
    kernels = [f'    {{"{one.name}", k_{one.name}, {one.threads}, {end if shared else 0}, {one.parameters[0].size}}},'
               for one in module.functions if one.is_entry]
    parts = ['#include "ptx/machine.h"', "namespace tutti::ptx {", "namespace {"]
    parts += [FunctionWriter.signature(one).replace("static ", "") + ";" for one in module.functions]
    parts += [body.replace("static ", "", 1) for body in bodies]
    parts += [f"const Kernel kernels_of_{name}[] = {{", *kernels, "};", "}  // namespace"]
    parts += [f"extern const Module {name};", f"const Module {name}{{kernels_of_{name}}};", "}  // namespace tutti::ptx"]
    opcodes = [statement.text.split()[0] for one in module.functions for statement in one.body
               if statement.kind == "instruction"]
    return "\n".join(parts) + "\n", len(opcodes), len(set(opcodes))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("module", type=pathlib.Path)
    parser.add_argument("name")
    parser.add_argument("output", type=pathlib.Path)
    parser.add_argument("--plant", nargs=2, action="append", default=[], metavar=("OLD", "NEW"))
    given = parser.parse_args()
    try:
        text, count, forms = translate(plant(given.module.read_text(), given.plant), given.name, given.module.name)
    except PtxError as problem:
        sys.exit(f"{given.module}: {problem}")
    given.output.write_text(text)
    print(f"{given.module.name}: {count} instructions of {forms} forms")


if __name__ == "__main__":
    main()
