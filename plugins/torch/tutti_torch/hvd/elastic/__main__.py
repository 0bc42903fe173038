"""Starts the workers of an elastic job."""
import argparse
import datetime
import os
import signal
import socket
import sys
import time

import torch.distributed as dist

from .host import Host
from .job import Job, tell

LOOK_SECONDS = 0.02
GOODBYE_SECONDS = 12


def parse():
    parser = argparse.ArgumentParser(
        prog="python -m tutti_torch.hvd.elastic",
        description="Starts workers that train together by tutti_torch.hvd, goes on without those that die, and starts others "
        "in their place.")
    parser.add_argument("-np", "--num-proc", type=int, required=True,
                        help="workers to start here; training begins when all are there")
    parser.add_argument("--min-np", type=int, help="training stops below this number (default: as many as -np)")
    parser.add_argument("--max-np", type=int, default=1 << 30,
                        help="at most so many train, others wait until one of them dies (no limit)")
    parser.add_argument("--replacements", type=int, default=3,
                        help="workers that are started here in place of others that failed (3)")
    parser.add_argument("--elastic-timeout", type=float, default=600, metavar="S",
                        help="a worker that keeps the others waiting for S seconds is killed (600)")
    parser.add_argument("--start-timeout", type=float, default=600, metavar="S",
                        help="training stops if -np or --min-np workers have not come within S seconds (600)")
    parser.add_argument("--port", type=int, default=0, help="where the workers meet (a free one)")
    parser.add_argument("--join", metavar="HOST:PORT", help="adds these workers to the job that was started there; "
                        "--min-np, --max-np and the timeouts are that job's")
    parser.add_argument("command", nargs=argparse.REMAINDER, metavar="program.py ...",
                        help="for Python, or any program after --")
    options = parser.parse_args()
    own = options.command[:1] == ["--"]
    if options.join is not None and not options.join.rpartition(":")[2].isdecimal():
        parser.error(f"--join {options.join}: HOST:PORT")
    options.command = options.command[1:] if own else [sys.executable, *options.command]
    if len(options.command) < (1 if own else 2):
        parser.error("which program?")
    if options.min_np is None:
        options.min_np = options.num_proc
    if not 1 <= options.min_np <= options.num_proc <= options.max_np:
        parser.error("--min-np must be 1 at least and not exceed -np, which must not exceed --max-np")
    if options.replacements < 0 or options.elastic_timeout <= 0 or options.start_timeout <= 0:
        parser.error("--replacements must not be negative, the timeouts must be positive")
    return options


def lead(options):
    """The job, with the workers of this host."""
    store = dist.TCPStore("0.0.0.0", options.port, is_master=True, wait_for_workers=False)
    store.set("timeout", str(options.elastic_timeout))
    tell(f"others join with --join {socket.gethostname()}:{store.port}")
    host = Host(store, f"127.0.0.1:{store.port}", options.command, options.elastic_timeout, options.replacements)
    job = Job(store, options.num_proc, options.min_np, options.max_np, options.elastic_timeout, options.start_timeout)
    outcome = "the first launcher was told to end"
    try:
        for _ in range(options.num_proc):
            host.start()
        while job.look():
            host.look_after()
            time.sleep(LOOK_SECONDS)
        outcome = job.failure or ""
    finally:
        handle_signals(signal.SIG_IGN)  # until all workers have ended
        host.end()
        store.set("over", outcome)
        end = time.monotonic() + GOODBYE_SECONDS  # the other hosts hear of it by this process's Store
        while time.monotonic() < end and not all(store.check([f"gone/{n}"]) for n in range(store.add("hosts", 0))):
            time.sleep(LOOK_SECONDS)
    if job.failure:
        sys.exit(f"tutti hvd: {job.failure}")


def join(options):
    """Workers of this host for a job that another one leads."""
    address, port = options.join.rsplit(":", 1)
    store = dist.TCPStore(address, int(port), is_master=False, timeout=datetime.timedelta(seconds=60))
    host = Host(store, options.join, options.command, float(store.get("timeout")), options.replacements)
    try:
        for _ in range(options.num_proc):
            host.start()
        while not store.check(["over"]):
            host.look_after()
            time.sleep(LOOK_SECONDS)
        failure = store.get("over").decode()
    finally:
        handle_signals(signal.SIG_IGN)
        host.end()
    if failure:
        sys.exit(f"tutti hvd: {failure}")


def stop(number, frame):
    sys.exit(128 + number)


def handle_signals(handler):
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
        signal.signal(number, handler)


if __name__ == "__main__":
    handle_signals(stop)
    chosen = parse()
    try:
        lead(chosen) if chosen.join is None else join(chosen)
    except (OSError, dist.DistError) as error:
        sys.exit(f"tutti hvd: {str(error).splitlines()[0]}")
