#!/usr/bin/env python3
"""tools/device_kernels.py on machine code made up here: it accepts a good kernel and finds each planted fault."""
# Covers tools/device_kernels.py.
import json
import os
import pathlib
import stat
import subprocess
import sys
import tempfile
import unittest

TOOL = pathlib.Path(__file__).resolve().parents[2] / "tools/device_kernels.py"
NAME = "_ZN5tutti6device13reduce_kernelINS_8portable4RealIfEENS2_3AddEEEvNS0_7BuffersE"
GOOD = ["LDG.E.128 R4, desc[UR4][R2.64]", "@P0 LDG.E.128 R8, desc[UR4][R6.64]", "FADD R4, R4, R8",
        "STG.E.128 desc[UR4][R2.64], R4", "@P0 BRA 0x0000", "EXIT"]


INTERPRETER = "_ZN5tutti8run_callINS_12_GLOBAL__N_15PairsEEEvNS_10DeviceCallE"


def run(verb, code, usage="REG:40 STACK:0 SHARED:0", name=NAME, path="some.o"):
    """(exit code, output) of the tool where cuobjdump prints this."""
    sass = "\n".join(["arch = sm_90", f"\t\tFunction : {name}"] +
                     [f"        /*{16 * i:04x}*/                   {line} ;" for i, line in enumerate(code)])
    resources = f"arch = sm_90\n Function {name}:\n  {usage} LOCAL:0"
    with tempfile.TemporaryDirectory() as folder:
        fake = pathlib.Path(folder) / "cuobjdump"
        fake.write_text(f"#!/bin/sh\nif [ $1 = -sass ]; then cat <<'END'\n{sass}\nEND\nelse cat <<'END'\n{resources}\nEND\nfi\n",
                        encoding="utf-8")
        fake.chmod(fake.stat().st_mode | stat.S_IXUSR)
        found = subprocess.run([sys.executable, TOOL, verb, path], capture_output=True, text=True,
                               env={**os.environ, "CUOBJDUMP": str(fake)})
    return found.returncode, found.stdout


class DeviceKernels(unittest.TestCase):
    def test_accepts_a_good_kernel(self):
        code, text = run("check", GOOD)
        self.assertEqual((code, text.strip()), (0, "1 kernels, 0 violations"))

    def test_finds_what_is_missing(self):
        for missing, words in ((0, "no 128-bit load"), (3, "no 128-bit store")):
            kind = GOOD[missing].split(".")[0]
            code, text = run("check", [line.replace(".128", "") if kind in line else line for line in GOOD])
            self.assertEqual(code, 1)
            self.assertIn(f"sm_90 sum float32: {words}", text)

    def test_finds_what_must_not_be(self):
        for bad in ("STL [R1], R4", "@!P0 LDL.64 R4, [R1]", "LD.E.128 R4, desc[UR4][R2.64]", "ST.E desc[UR4][R2.64], R4"):
            code, text = run("check", [*GOOD, bad])
            self.assertEqual(code, 1, bad)
            self.assertIn("sm_90 sum float32: has ", text)
        code, text = run("check", GOOD, "REG:40 STACK:8 SHARED:0")
        self.assertEqual(code, 1)
        self.assertIn("8 bytes of stack", text)

    def test_interpreters_have_bounds(self):
        code = ["LD.E R4, desc[UR4][R2.64]", "STL [R1], R4", "LDL R4, [R1]", "EXIT"]
        trees = "folder/interpreter_trees.cu.o"
        self.assertEqual(run("check", code, "REG:128 STACK:64 SHARED:1336", INTERPRETER, trees)[0], 0)
        for usage, words in (("REG:129 STACK:64 SHARED:1336", "129 registers"), ("REG:128 STACK:1304 SHARED:1336", "1304 stack"),
                             ("REG:128 STACK:64 SHARED:30000", "30000 shared")):
            found, text = run("check", code, usage, INTERPRETER, trees)
            self.assertEqual(found, 1, usage)
            self.assertIn(f"sm_90 interpreter_trees: {words}, at most", text)
        found, text = run("check", code[:2] * 2000, "REG:128 STACK:64 SHARED:1336", INTERPRETER, trees)
        self.assertEqual(found, 1)
        self.assertIn("2000 spills", text)
        integers = run("check", code, "REG:128 STACK:304 SHARED:1336", INTERPRETER, "interpreter_integers.cu.o")
        self.assertIn("sm_90 interpreter_integers: 304 stack, at most", integers[1])

    def test_counts_the_loop_over_the_steps(self):
        """The loop goes around a vote. A function that it calls counts, one that moves data does not, and neither do
        votes outside of the loop."""
        code = ["BAR.RED.OR.DEFER_BLOCKING 0x0, P0", "BSSY B0, 0x0060", "@P0 BRA 0x0050", "STL [R1], R4",
                "CALL.REL.NOINC 0x00d0", "BSYNC B0", "BAR.RED.OR.DEFER_BLOCKING 0x0, P0", "CALL.REL.NOINC 0x00f0",
                "@P1 BRA 0x0010", "BAR.RED.OR.DEFER_BLOCKING 0x0, P0", "STL [R1], R4", "EXIT", "NOP",
                "LDL R4, [R1]", "RET.REL.NODEC R2 0x0000", "LDG.E.128 R4, desc[UR4][R2.64]", "RET.REL.NODEC R2 0x0000"]
        _, text = run("json", code, "REG:40 STACK:8 SHARED:0", INTERPRETER, "folder/interpreter_reals.cu.o")
        row = json.loads(text)["results"][0]
        self.assertEqual((row["step_loop"], row["step_loop_local"]), (8 + 2, 2))
        code[3:4] = ["STL [R1], R4"] * 500  # the loop's end stays where it is: jumps name it
        jumps = {"0x0060": 0x60 + 499 * 16, "0x0050": 0x50 + 499 * 16, "0x00d0": 0xd0 + 499 * 16, "0x00f0": 0xf0 + 499 * 16}
        moved = [next((line.replace(old, f"0x{new:04x}") for old, new in jumps.items() if old in line), line) for line in code]
        found, text = run("check", moved, "REG:40 STACK:8 SHARED:0", INTERPRETER, "interpreter_reals.cu.o")
        self.assertEqual(found, 1)
        self.assertIn("501 step_loop_local, at most", text)

    def test_no_kernel_is_a_failure(self):
        self.assertEqual(run("check", [])[0], 1)

    def test_report(self):
        row = {"kernel": "sum float32", "architecture": "sm_90", "registers": 40, "stack": 0, "shared": 0, "spills": 0,
               "per_pack": None, "instructions": 6}
        self.assertEqual(json.loads(run("json", GOOD)[1])["results"], [row])
        # Eight loads inside a loop: four packs of two sources.
        loop = [GOOD[0]] * 8 + [GOOD[2]] * 3 + [GOOD[3]] * 4 + ["@P0 BRA 0x0000"]
        self.assertEqual(json.loads(run("json", loop)[1])["results"], [{**row, "per_pack": 4, "instructions": 16}])


if __name__ == "__main__":
    unittest.main()
