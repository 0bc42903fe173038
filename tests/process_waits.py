"""Where processes are that do not end."""
import pathlib
import re
import shutil
import subprocess


MOST_PROCESSES = 8  # are told of


def processes_of(session, states="RSD"):
    """The processes of a session in these states; if not told otherwise, those that a test has stopped are left out."""
    found = []
    for path in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rsplit(")", 1)[1].split()
        except (OSError, IndexError):
            continue
        if int(fields[3]) == session and fields[0] in states:
            found.append(int(path.parent.name))
    return sorted(found)


def waits_of(session):
    """Where the processes of a session are that do not end: the calls of each thread if gdb is there, else what the kernel
    says of it."""
    told = []
    for process in processes_of(session, "RSDTt")[:MOST_PROCESSES]:
        told.append(f"process {process}:")
        told += stacks_by_gdb(process) or stacks_by_kernel(process)
    return told


def stacks_by_gdb(process):
    if shutil.which("gdb") is None:
        return []
    try:
        done = subprocess.run(["gdb", "-p", str(process), "-batch", "-nx", "-ex", "set pagination off", "-ex", "thread apply all bt 10"],
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, timeout=60,
                              errors="replace")
    except subprocess.TimeoutExpired:
        return []
    return [line[:300] for line in done.stdout.splitlines() if re.match(r"(Thread |#\d)", line)]


def stacks_by_kernel(process):
    told = []
    for thread in sorted(pathlib.Path(f"/proc/{process}/task").glob("[0-9]*")):
        try:
            state = thread.joinpath("stat").read_text().rsplit(")", 1)[1].split()[0]
            told.append(f"  thread {thread.name}: {state}, in {thread.joinpath('wchan').read_text()},"
                        f" call {thread.joinpath('syscall').read_text().strip()}")
        except OSError:
            continue
    return told
