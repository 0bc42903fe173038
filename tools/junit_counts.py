#!/usr/bin/env python3
"""junit_counts.py STAGE RESULTS... [--times FILE]: JUnit files, or folders of them, as tab-separated lines that
tools/test.sh adds up. A test of CTest's that has a file of its own in a folder, with its cases, is counted by these. What
failed tests printed goes to stderr; seconds and names of all cases are added to FILE."""
import argparse
import pathlib
import re
import sys
import xml.etree.ElementTree

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tests"))
sys.dont_write_bytecode = True
from run_cases import shown_of  # noqa: E402

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("stage")
parser.add_argument("results", nargs="+", type=pathlib.Path)
parser.add_argument("--times", type=pathlib.Path)
options = parser.parse_args()

files = [file for path in options.results for file in (sorted(path.glob("*.xml")) if path.is_dir() else [path])]
by_cases = {file.stem for path in options.results if path.is_dir() for file in path.glob("*.xml")}
passed, failed, skipped, times = 0, [], [], []
for file in files:
    for case in xml.etree.ElementTree.parse(file).getroot().iter("testcase"):
        if case.get("name") in by_cases and case.get("name") != file.stem:
            continue
        name = f"{options.stage}: {case.get('name')}"
        times.append(f"{float(case.get('time')):8.2f} s  {name}")
        if case.find("skipped") is not None or case.get("status") in ("notrun", "disabled"):
            text = case.findtext("system-out") or ""
            reason = re.search(r"(?:Skipped\n|skipped: )([^\n]+)", text)
            skip = case.find("skipped")
            skipped.append((name, reason[1] if reason else skip.get("message") if skip is not None else "no reason given"))
        elif case.find("failure") is not None or case.get("status", "run") != "run":
            failed.append(name)
            shown = shown_of(case.findtext("system-out") or "")
            print("\n    ".join([f"  FAILED: {name}", *shown]), file=sys.stderr)
        else:
            passed += 1
print(f"counts\t{passed} {len(failed)} {len(skipped)}")
for name in failed:
    print(f"failed\t{name}")
for name, reason in skipped:
    print(f"skipped\t{name}\t{reason}")
if options.times:
    with options.times.open("a") as file:
        file.writelines(line + "\n" for line in times)
