#!/usr/bin/env python3
"""junit_counts.py RESULTS STAGE: CTest's JUnit file as tab-separated lines that tools/test.sh adds up; what failed
tests printed goes to stderr."""
import re
import sys
import xml.etree.ElementTree

passed, failed, skipped = 0, [], []
for case in xml.etree.ElementTree.parse(sys.argv[1]).getroot().iter("testcase"):
    name = f"{sys.argv[2]}: {case.get('name')}"
    status = case.get("status")
    if status == "run":
        passed += 1
    elif status in ("notrun", "disabled") or case.find("skipped") is not None:
        text = case.findtext("system-out") or ""
        reason = re.search(r"(?:Skipped\n|skipped: )([^\n]+)", text)
        skipped.append((name, reason.group(1) if reason else case.find("skipped").get("message", "no reason given")))
    else:
        failed.append(name)
        output = (case.findtext("system-out") or "").rstrip().split("\n")
        print("\n    ".join([f"  FAILED: {name}"] + output[-60:]), file=sys.stderr)
print(f"counts\t{passed} {len(failed)} {len(skipped)}")
for name in failed:
    print(f"failed\t{name}")
for name, reason in skipped:
    print(f"skipped\t{name}\t{reason}")
