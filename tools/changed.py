#!/usr/bin/env python3
"""What changed since a commit, for tools/test.sh.

changed.py base [COMMIT]: the commit that changes are counted from: COMMIT, or where this branch left main, or on main itself
  the commit before the last.
changed.py labels [COMMIT]: the labels of CTest's tests that the changes since then touch, by the includes of the files: a
  changed source touches all files that include its header, directly or not. Changes of the build touch everything.
"""
import pathlib
import posixpath
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDERS = ("src", "include", "tests", "tools", "bench", "examples")
SUFFIXES = {".h", ".cc", ".c", ".cu", ".cuh"}
INCLUDE = re.compile(r'^\s*#\s*include\s+["<]([^">]+)[">]', re.M)
# The tests of a folder, longest folder first. A room without tests of its own is tested by those that use it.
LABELS = {
    "src/collectives": ["schedule"], "src/executor": ["executor", "device", "cuda_binary", "memory_model", "ptx"], "src/comm": ["comm", "api", "device", "fault", "hostile", "shortage", "steps", "wiretap"],
    "src/core": ["core"], "src/net": ["net", "comm", "hostile", "wiretap"], "src/device": ["device", "memory_model", "ptx"], "src/schedule": ["schedule"],
    "src/transport": ["transport", "hostile"], "src/kernels": ["kernels", "cuda_binary", "ptx"],
    "include": ["api", "install"], "examples": ["examples"], "tools/perf": ["perf"], "tools/plan": ["plan"],
    "tools/sim": ["sim"], "tools/probe": ["probe"], "tools/model": ["plan", "sim", "probe"], "tests/tools": ["tools"],
    "tests/cases": ["api", "device", "mpi"], "tests/collectives": ["schedule"], "tests/connections": ["comm"], "tests/api/device": ["device"],
    "tests/bench": ["device"], "tests/ptx/word_interpreter.cu": ["ptx", "memory_model"], "tests/comm/device": ["device"], "tests/executor/device": ["device"], "tests/support/device": ["device", "ptx"],
    "tests/transport/device": ["device"], "bench/peers": ["perf"], "tools/hosts.py": ["hosts"], "tools/gpu_report.py": ["tools"],
    "tools/device_kernels.py": ["cuda_binary"], "tests/run_cases.py": ["tools"], "tools/changed.py": ["tools"], "tools/check_style.py": ["tools"], "tools/figures.py": ["tools"], "tools/figures_gpu.py": ["tools"], "tools/figures_text.py": ["tools"], "tools/measured.py": ["tools"],
}
PROGRAMS = ("api", "comm", "core", "device", "executor", "fault", "hostile", "hosts", "install", "kernels", "launch", "memory_model", "mpi", "net", "perf", "plan",
            "probe", "ptx", "schedule", "shortage", "sim", "steps", "tools", "transport",
            "wiretap")
BUILD = re.compile(r"(^|/)CMakeLists\.txt$|\.cmake$|^CMakePresets\.json$|^src/tutti\.map$")


def git(*words):
    done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True)
    return done.stdout.strip() if done.returncode == 0 else None


def base(commit):
    if commit:
        found = git("rev-parse", "--verify", "--quiet", commit + "^{commit}")
        return found or sys.exit(f"changed.py: there is no commit '{commit}'")
    head = git("rev-parse", "HEAD")
    for name in ("main", "origin/main"):
        left = git("merge-base", "HEAD", name)
        if left and left != head:
            return left
    return git("rev-parse", "--verify", "--quiet", "HEAD~1") or git("hash-object", "-t", "tree", "/dev/null")


def changed_since(commit):
    tracked = (git("diff", "--name-only", commit) or "").splitlines()
    return set(tracked + (git("ls-files", "--others", "--exclude-standard") or "").splitlines())


def includers():
    """Which files include a file, directly."""
    files = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*") if path.suffix in SUFFIXES]
    names = {path.relative_to(ROOT).as_posix() for path in files}
    found = {}
    for path in files:
        name = path.relative_to(ROOT).as_posix()
        for included in INCLUDE.findall(path.read_text()):
            places = [f"{folder}/{included}" for folder in ("src", "include", "tests", "tools", "bench")]
            places.append(posixpath.normpath(posixpath.join(path.parent.relative_to(ROOT).as_posix(), included)))
            for place in places:
                if place in names:
                    found.setdefault(place, set()).add(name)
    return names, found


def touched(changed):
    """The changed files, and those that include them or the headers of changed sources, directly or not."""
    names, found = includers()
    todo, seen = list(changed), set()
    while todo:
        name = todo.pop()
        if name in seen:
            continue
        seen.add(name)
        if name in changed and name.endswith((".cc", ".cu")):
            header = name.rsplit(".", 1)[0] + ".h"
            todo += [header] if header in names else []
        todo += found.get(name, ())
    return seen


def labels(changed):
    if any(BUILD.search(name) for name in changed):
        return sorted({*PROGRAMS, "examples", "cuda_binary"})
    wanted = set()
    for name in touched(changed):
        for folder in sorted(LABELS, key=len, reverse=True):
            if name == folder or name.startswith(folder + "/"):
                wanted.update(LABELS[folder])
                break
        else:
            part = name.split("/")
            if part[0] == "tests" and len(part) > 2 and part[1] in PROGRAMS:
                wanted.add(part[1])
    return sorted(wanted)


def main():
    if len(sys.argv) not in (2, 3) or sys.argv[1] not in ("base", "labels"):
        sys.exit(__doc__)
    commit = base(sys.argv[2] if len(sys.argv) == 3 else "")
    if sys.argv[1] == "base":
        print(commit)
        return
    changed = changed_since(commit)
    if any(name.startswith("plugins/torch/") for name in changed):
        print("plugins/torch has changed: run tools/test.sh torch as well", file=sys.stderr)
    if any(name.startswith("plugins/python/") for name in changed):
        print("plugins/python has changed: run tools/test.sh python as well", file=sys.stderr)
    print(*labels(changed))


if __name__ == "__main__":
    main()
