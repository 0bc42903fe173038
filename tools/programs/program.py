"""Runs somebody else's program on Gloo and, unchanged, on Tutti by TUTTI_TORCH_AS=gloo; compares results and times.

Each other file of this folder is such a program: NAME.py [--rounds N] [-J FILE]. Its packages come from PyPI into an
environment of its own, build/programs/NAME, which sees the torch of tools/torch.sh and what is installed there
(tools/torch.sh setup, tools/torch.sh build).
"""
import argparse
import dataclasses
import json
import os
import pathlib
import re
import shutil
import signal
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDER = ROOT / "build" / "programs"


@dataclasses.dataclass
class Program:
    name: str
    package: str  # whose version is told
    what: str  # what is run, for the table
    command: list  # {python} stands for the environment's interpreter
    packages: list = dataclasses.field(default_factory=list)  # of PyPI, or wheels of this tree; none: the package alone
    results: str = r"^RESULT (.*)$"  # lines that are to be the same on both, but for what `near` allows
    near: float = 0  # relative difference of numbers that is allowed: sums of floats are formed in another order
    environment: dict = dataclasses.field(default_factory=dict)
    plain_command: list | None = None  # without Tutti, where that is not the same command without the switch
    against: str = "Gloo"  # what Tutti is compared with
    by: str = "TUTTI_TORCH_AS=gloo"


def torchrun(*command, ranks=2):
    return ["{python}", "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks), *map(str, command)]


def packages_of(program):
    found = []
    for package in program.packages or [program.package]:
        wheels = [str(path) for path in sorted(ROOT.glob(package))] if package.endswith(".whl") else [package]
        found += wheels or sys.exit(f"there is no {package}: tools/wheels.sh --comm makes it")
    return found


def interpreter(program):
    """That of the program's environment, which is made if it is not there."""
    with_torch = subprocess.run([ROOT / "tools" / "torch.sh", "python"], capture_output=True, text=True).stdout.strip()
    if not with_torch:
        sys.exit("there is no torch: tools/torch.sh setup, then tools/torch.sh build")
    python = FOLDER / program.name / "bin" / "python"
    packages = packages_of(program)
    wanted = repr([(package, os.path.getmtime(package) if package.endswith(".whl") else 0) for package in packages])
    made = FOLDER / program.name / "made"
    if not made.exists() or made.read_text() != wanted:
        shutil.rmtree(FOLDER / program.name, ignore_errors=True)
        subprocess.run([with_torch, "-m", "venv", FOLDER / program.name], check=True)
        site = "import sysconfig; print(sysconfig.get_paths()['purelib'])"
        torchs, own = (subprocess.run([which, "-c", site], capture_output=True, text=True, check=True).stdout.strip()
                       for which in (with_torch, python))
        pathlib.Path(own, "torch_of.pth").write_text(torchs + "\n")
        subprocess.run([python, "-m", "pip", "install", "--quiet", *packages], check=True)
        made.write_text(wanted)
    return python


@dataclasses.dataclass
class Outcome:
    seconds: float  # of what the program times itself (a line "SECONDS x"), or else of the whole program
    results: list
    log_lines: int  # of Tutti


def run(program, python, switched):
    logs = FOLDER / f"{program.name}-logs"
    logs.mkdir(parents=True, exist_ok=True)
    for old in logs.iterdir():
        old.unlink()
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TUTTI_")}
    environment |= {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "", "TUTTI_LOG": "info", "TUTTI_LOG_FILE": str(logs / "%p"),
                    "PATH": f"{python.parent}:{os.environ['PATH']}", **program.environment}
    if switched and program.plain_command is None:
        environment["TUTTI_TORCH_AS"] = "gloo"
    command = program.command if switched or program.plain_command is None else program.plain_command
    command = [part.replace("{python}", str(python)) for part in command]
    begin = time.monotonic()
    running = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=FOLDER,
                               start_new_session=True)
    try:
        out, err = running.communicate(timeout=600)
    except subprocess.TimeoutExpired:
        os.killpg(running.pid, signal.SIGKILL)  # its ranks too
        out, err = running.communicate()
    seconds = time.monotonic() - begin
    if running.returncode != 0:
        sys.exit(f"{program.name} on {'Tutti' if switched else program.against} ended with {running.returncode} after "
                 f"{seconds:.0f} s:\n{out[-4000:]}\n{err[-4000:]}")
    told = re.findall(r"^SECONDS (\S+)$", out, re.MULTILINE)
    return Outcome(float(told[0]) if told else seconds, re.findall(program.results, out, re.MULTILINE),
                   sum(path.read_text(errors="replace").count("tutti info") for path in logs.iterdir()))


NUMBER = re.compile(r"-?\d+\.?\d*(?:e[-+]?\d+)?")


def same(ours, theirs, near):
    """Whether the lines are equal, in any order of lines, but for numbers that are near to each other."""
    if sorted(NUMBER.sub("#", line) for line in ours) != sorted(NUMBER.sub("#", line) for line in theirs):
        return False
    numbers = [[float(number) for line in sorted(lines, key=lambda line: (NUMBER.sub("#", line), line))
                for number in NUMBER.findall(line)] for lines in (ours, theirs)]
    return all(abs(one - other) <= near * max(abs(one), abs(other)) for one, other in zip(*numbers))


def main(program):
    parser = argparse.ArgumentParser(description=f"{program.package}: {program.what}, on Gloo and on Tutti")
    parser.add_argument("--rounds", type=int, default=3, help="how often each runs, in turn; medians are told (3)")
    parser.add_argument("-J", "--json", help="writes the record there")
    arguments = parser.parse_args()
    rounds = arguments.rounds
    python = interpreter(program)
    theirs, ours = [], []
    for _ in range(rounds):
        theirs.append(run(program, python, switched=False))
        ours.append(run(program, python, switched=True))
    if any(outcome.log_lines for outcome in theirs) or not all(outcome.log_lines for outcome in ours):
        sys.exit(f"{program.name}: Tutti made no group where it was asked for, or one where it was not")
    wanted = theirs[0].results
    if not wanted or not all(same(outcome.results, wanted, program.near) for outcome in ours):
        sys.exit(f"{program.name}: other results:\n{wanted}\n{[outcome.results for outcome in ours]}")
    version = subprocess.run([python, "-c", "import importlib.metadata, sys; print(importlib.metadata.version(sys.argv[1]))",
                              program.package], capture_output=True, text=True, check=True).stdout.strip()
    record = {"package": program.package, "version": version, "what": program.what, "by": program.by,
              "against": program.against, "rounds": rounds, "equal_results": len(wanted),
              "their_s": round(statistics.median(outcome.seconds for outcome in theirs), 3),
              "tutti_s": round(statistics.median(outcome.seconds for outcome in ours), 3)}
    if arguments.json:
        pathlib.Path(arguments.json).write_text(json.dumps(record) + "\n")
    print(f"{program.package} {version}, {program.what}: {len(wanted)} results equal; {program.against} "
          f"{record['their_s']} s, Tutti {record['tutti_s']} s", flush=True)
