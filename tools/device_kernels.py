#!/usr/bin/env python3
"""Looks at the machine code of the CUDA kernels, for which no GPU is needed.

device_kernels.py check OBJECT...: every kernel of every architecture loads and stores 128 bits at a time in global memory
  and uses no local memory, generic addresses or shared memory; averages of small types take few instructions; the
  interpreters of schedules and the passes before and after them stay within BOUNDS. Exit code 1 and one line a violation.
device_kernels.py json OBJECT...: the registers, spills and instructions of each kernel; `per_pack` are those in the loop over
  two sources for each pack of 16 bytes of the result, `step_loop` those of an interpreter's loop over the steps
  (step_loop.py). bench/measure.sh kernels puts them into docs/measured.

Needs cuobjdump and, in PATH, the nvdisasm that it calls: CUOBJDUMP, or found in PATH, beside nvcc or in the triton package of this Python or of tools/torch.sh's.
Exit code 77 without it.
"""
import importlib.util
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

from step_loop import StepLoop

TYPES = {"signed char": "int8", "unsigned char": "uint8", "short": "int16", "unsigned short": "uint16", "int": "int32",
         "unsigned int": "uint32", "long": "int64", "unsigned long": "uint64", "float": "float32", "double": "float64",
         "HalfCodec": "float16", "BrainCodec": "bfloat16", "Float8e4m3Codec": "float8e4m3", "Float8e5m2Codec": "float8e5m2"}
ORDERED = {"(short)31744": "float16", "(short)32640": "bfloat16", "(signed char)126": "float8e4m3",
           "(signed char)124": "float8e5m2"}
OPERATIONS = {"Add": "sum", "Mean": "avg", "Multiply": "prod", "Largest": "max", "LargestReal": "max", "Smallest": "min",
              "SmallestReal": "min", "And": "and", "Or": "or", "Xor": "xor"}
# Kernels that wait, call functions and move data at any address: what one may have at most, which is what it had when the
# bound was written. `spills`: instructions that store to local memory. `step_loop` are those of the loop over the steps,
# `step_loop_local` those of them that load from or store to local memory.
BOUNDS = {"interpreter_integers": {"registers": 128, "stack": 16, "shared": 21000, "spills": 4, "step_loop": 2520,
                                   "step_loop_local": 0},
          "interpreter_reals": {"registers": 128, "stack": 16, "shared": 21000, "spills": 4, "step_loop": 2330,
                                "step_loop_local": 0},
          "interpreter_small_floats": {"registers": 128, "stack": 16, "shared": 21000, "spills": 4, "step_loop": 2400,
                                       "step_loop_local": 0},
          "interpreter_trees": {"registers": 128, "stack": 1280, "shared": 21000, "spills": 445, "step_loop": 2620,
                                "step_loop_local": 184},
          "pass": {"registers": 64, "stack": 0, "shared": 1024, "spills": 0},
          "rows": {"registers": 40, "stack": 0, "shared": 1024, "spills": 0}}

# What an H100 has time for while it moves a pack is 470 instructions; these kernels came near that once.
MOST_A_PACK = {"avg int8": 220, "avg uint8": 220}
MOST_A_PACK_SM_90 = {"avg float16": 220, "avg float8e4m3": 280, "avg float8e5m2": 280}


# Where tools/setup.sh --test puts what a CUDA toolkit lacks.
TOOLS = pathlib.Path(__file__).resolve().parent.parent / "build/cuda-tools"


def find_tool():
    places = [os.environ.get("CUOBJDUMP"), shutil.which("cuobjdump")]
    nvcc = shutil.which("nvcc")
    if nvcc:
        places.append(str(pathlib.Path(nvcc).resolve().parent / "cuobjdump"))
    triton = importlib.util.find_spec("triton")
    if triton and triton.origin:
        places.append(str(pathlib.Path(triton.origin).parent / "backends/nvidia/bin/cuobjdump"))
    root = pathlib.Path(os.environ.get("TUTTI_TORCH_VENV", pathlib.Path(__file__).resolve().parent.parent / "build/torch-venv"))
    places += map(str, root.glob("lib/*/site-packages/triton/backends/nvidia/bin/cuobjdump"))
    places += map(str, TOOLS.glob("nvidia/*/bin/cuobjdump"))
    return next((place for place in places if place and os.access(place, os.X_OK)), None)


def run(*command, text=None):
    return subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout


class Kernel:
    def __init__(self, path, name, architecture):
        self.file, self.name, self.architecture = pathlib.Path(path).name.split(".")[0], name, architecture
        self.instructions = self.wide_loads = self.wide_stores = 0
        self.wide_load_places, self.jumps = [], []  # numbers of instructions; (from, to) as addresses
        self.places = {}  # the number of the instruction at an address
        self.wrong = set()  # what it must not have
        self.registers = self.shared = self.stack = None
        self.spills = 0
        self.code = []
        self.step_loop = self.step_loop_local = None

    def count(self, address, predicate, code, operands):
        """One instruction, such as LDG.E.128."""
        self.places[address] = self.instructions
        self.code.append((address, code, operands, predicate is not None))
        parts = code.split(".")
        if parts[0] == "LDG" and "128" in parts:
            self.wide_loads += 1
            self.wide_load_places.append(self.instructions)
        if parts[0] == "BRA" and (target := re.search(r"0x([0-9a-f]+)", operands)):
            self.jumps.append((address, int(target[1], 16)))
        self.instructions += 1
        self.wide_stores += parts[0] == "STG" and "128" in parts
        self.spills += parts[0] == "STL"
        if parts[0] in ("LDL", "STL", "LD", "ST", "LDS", "STS"):
            self.wrong.add(code)

    def count_steps(self):
        loop = StepLoop(self.code)
        self.step_loop, self.step_loop_local = loop.instructions, loop.loads + loop.stores

    def per_pack(self):
        """Instructions of the loop over two sources, for each pack of the result: that loop alone has two loads for each
        of its four (where formats widen: two) packs. Divisions that need more than their common case are elsewhere."""
        loops = {}
        for source, target in self.jumps:
            if target < source:
                first, last = self.places[target], self.places[source]
                loads = sum(first <= place <= last for place in self.wide_load_places)
                loops[loads] = max(loops.get(loads, 0), last - first + 1)
        loads = 8 if 8 in loops else 4
        return round(loops[loads] / (loads // 2)) if loads in loops else None

    def violations(self):
        where = f"{self.architecture} {label(self)}"
        if bounds := BOUNDS.get(label(self)):
            for what, most in bounds.items():
                if (getattr(self, what) or 0) > most:
                    yield f"{where}: {getattr(self, what)} {what}, at most {most}"
            return
        if not self.wide_loads:
            yield f"{where}: no 128-bit load"
        if not self.wide_stores:
            yield f"{where}: no 128-bit store"
        if self.wrong:
            yield f"{where}: has {', '.join(sorted(self.wrong))}"
        most = MOST_A_PACK | (MOST_A_PACK_SM_90 if self.architecture == "sm_90" else {})
        if (a_pack := self.per_pack()) and a_pack > most.get(label(self), a_pack):
            yield f"{where}: {a_pack} instructions a pack, at most {most[label(self)]}"
        if self.stack or self.shared:
            yield f"{where}: {self.stack} bytes of stack, {self.shared} of shared memory"


def read(tool, path, kernels):
    """Adds the kernels of an object file."""
    architecture = kernel = None
    for line in run(tool, "-sass", path).splitlines():
        if found := re.match(r"\s*arch = (\S+)", line):
            architecture = found[1]
        elif found := re.search(r"Function : (\S+)", line):
            kernel = kernels.setdefault((architecture, found[1]), Kernel(path, found[1], architecture))
        elif found := re.match(r"\s+/\*([0-9a-f]{4,})\*/\s+(@!?U?P\w+ )?([A-Z][A-Z0-9_.]*)([^;]*)", line):
            kernel.count(int(found[1], 16), *found.groups()[1:])
    name = None
    for line in run(tool, "-res-usage", path).splitlines():
        if found := re.match(r"\s*arch = (\S+)", line):
            architecture = found[1]
        elif found := re.match(r"\s*Function (\S+):", line):
            name = found[1]
        elif found := re.search(r"REG:(\d+) STACK:(\d+) SHARED:(\d+)", line):
            kernel = kernels[architecture, name]
            kernel.registers, kernel.stack, kernel.shared = map(int, found.groups())


def label(kernel):
    """What a kernel computes: "sum float32", by its demangled name; else the name."""
    plain = kernel.name.replace("tutti::portable::", "").replace("tutti::device::", "")
    if "copy_buffers" in plain:
        return "copy"
    if "run_call<" in plain:  # the same name for every group of types
        return kernel.file
    if "run_pass(" in plain or "copy_rows(" in plain:
        return "pass" if "run_pass(" in plain else "rows"
    found = re.search(r"reduce_kernel<(.*), (\w+)>\(", plain)
    if not found:
        return plain
    form, operation = found[1], OPERATIONS[found[2]]
    if form == "Truth":
        return operation + " bool"
    inner = re.match(r"(\w+)<(.*)>", form)
    if inner[1] == "Ordered":
        return f"{operation} {ORDERED[inner[2].split(', ')[1]]}"
    if operation in ("and", "or", "xor"):
        return operation + " integers"
    return f"{operation} {TYPES[inner[2]]}"


def all_kernels(tool, paths):
    kernels = {}
    for path in paths:
        read(tool, path, kernels)
    names = "\n".join(kernel.name for kernel in kernels.values())
    for kernel, name in zip(kernels.values(), run("c++filt", text=names).splitlines()):
        kernel.name = name
        if "step_loop" in BOUNDS.get(label(kernel), {}):
            kernel.count_steps()
    return sorted(kernels.values(), key=lambda kernel: (label(kernel), kernel.architecture))


def compiler():
    nvcc = shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc"
    found = re.search(r"V([\d.]+)", run(nvcc, "--version")) if os.access(nvcc, os.X_OK) else None
    return "nvcc " + (found[1] if found else "of an unknown version")


def report(kernels):
    rows = [{"kernel": label(kernel), "architecture": kernel.architecture, "registers": kernel.registers, "stack": kernel.stack,
             "shared": kernel.shared, "spills": kernel.spills,
             "per_pack": None if label(kernel) in BOUNDS else kernel.per_pack(), "instructions": kernel.instructions}
            for kernel in kernels]
    for row, kernel in zip(rows, kernels):
        if kernel.step_loop is not None:
            row |= {"step_loop": kernel.step_loop, "step_loop_local": kernel.step_loop_local}
    return json.dumps({"compiler": compiler(), "results": rows}, indent=1)


def main():
    if sys.argv[1:] == ["tool"]:
        tool = find_tool()
        print(tool or "none")
        return 0 if tool else 77
    if len(sys.argv) < 3 or sys.argv[1] not in ("check", "json"):
        print(__doc__, file=sys.stderr)
        return 2
    tool = find_tool()
    if tool is None:
        print("skipped: cuobjdump was not found")
        return 77
    kernels = all_kernels(tool, sys.argv[2:])
    if sys.argv[1] == "json":
        print(report(kernels))
        return 0
    violations = [line for kernel in kernels for line in kernel.violations()]
    print("\n".join(violations + [f"{len(kernels)} kernels, {len(violations)} violations"]))
    return 1 if violations or not kernels else 0


if __name__ == "__main__":
    sys.exit(main())
