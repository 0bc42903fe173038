#!/usr/bin/env python3
"""Several hosts on one machine: network namespaces joined by a bridge, each link limited in both directions.

  hosts.py run    -H 4 -n 2 [-r 1gbit [--burst 70kb] [--limit 3kb]] [--ipv6] -- COMMAND...   ranks as torchrun would start them, for env://
  hosts.py mpirun -H 4 -n 2 [-r 1gbit] [-o "OPTIONS"] -- COMMAND...   the same through Open MPI's mpirun
  hosts.py up     -H 4 [-r 1gbit]                               prints the network's name; it stays
  hosts.py exec   NAME HOST -- COMMAND...                       runs a command on host 1, 2, ...
  hosts.py link   NAME HOST down|up                             pulls a host's cable, or puts it back
  hosts.py down   NAME        hosts.py clean                    one network; those whose maker is gone
  hosts.py check                                                exit code 77 and a reason without the privilege

Host k has 10.231.0.k/24 and fd00:231::k/64 on eth0, and its own host name. Nothing of it is visible outside: the bridge
lives in a namespace of its own, so that networks do not clash. With COMMAND, HOSTS_NETWORK names the network to it and
the exit code is the first that is not 0.
"""
import argparse
import atexit
import ctypes
import os
import pathlib
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import time

PREFIX = "tutti-hosts-"
NAMESPACES = pathlib.Path("/run/netns")
SKIPPED = 77
GRACE = 5  # seconds for the other ranks to tell what they know, once one has failed
# A bucket that takes the largest packet whole (64 KiB before the card cuts it), and a queue of 20 ms at 1 Gbit/s.
BURST, LIMIT = "256kb", "2500kb"
CLONE_NEWUTS, CLONE_NEWNET, PR_SET_PDEATHSIG = 0x04000000, 0x40000000, 1
libc = ctypes.CDLL(None, use_errno=True)


def host_space(name, host):
    return f"{name}-h{host}"


def ip_batch(lines, space=None):
    command = ["ip"] + (["-n", space] if space else []) + ["-batch", "-"]
    subprocess.run(command, input="\n".join(lines) + "\n", text=True, check=True)


def up(name, hosts, rate, burst=BURST, limit=LIMIT):
    """The bridge's namespace NAME-switch, with port pK to host K."""
    switch = f"{name}-switch"
    ip_batch([f"netns add {switch}"] + [f"netns add {host_space(name, k)}" for k in range(1, hosts + 1)])
    ports = [f"link add p{k} type veth peer name eth0 netns {host_space(name, k)}" for k in range(1, hosts + 1)]
    ports += [f"link set p{k} master bridge up" for k in range(1, hosts + 1)]
    ip_batch(["link add bridge type bridge stp_state 0 forward_delay 0", "link set bridge up"] + ports, switch)
    for k in range(1, hosts + 1):
        ip_batch(["link set lo up", f"address add 10.231.0.{k}/24 dev eth0",
                  f"address add fd00:231::{k}/64 dev eth0 nodad", "link set eth0 up"], host_space(name, k))
        if rate:
            for space, device in ((host_space(name, k), "eth0"), (switch, f"p{k}")):
                subprocess.run(["tc", "-n", space, "qdisc", "add", "dev", device, "root", "tbf", "rate", rate,
                                "burst", burst, "limit", limit], check=True)


def down(name):
    """Whatever still runs there ends: a namespace lives as long as its processes."""
    for space in NAMESPACES.glob(f"{name}-*"):
        pids = subprocess.run(["ip", "netns", "pids", space.name], capture_output=True, text=True).stdout.split()
        for pid in pids:
            try:
                os.kill(int(pid), signal.SIGKILL)
            except ProcessLookupError:
                pass
        subprocess.run(["ip", "netns", "delete", space.name], check=False)


def clean():
    """Removes networks of `run` and `mpirun` that were killed before they could."""
    for switch in NAMESPACES.glob(f"{PREFIX}*-switch"):
        maker = re.fullmatch(rf"{PREFIX}(\d+)-switch", switch.name)
        if maker and not pathlib.Path("/proc", maker[1]).exists():
            down(f"{PREFIX}{maker[1]}")


def enter(name, host):
    """Moves this process, which is about to run a program, to a host."""
    with open(NAMESPACES / host_space(name, host), "rb") as space:
        if libc.setns(space.fileno(), CLONE_NEWNET) != 0 or libc.unshare(CLONE_NEWUTS) != 0:
            raise OSError(ctypes.get_errno(), "cannot enter the host")
    own_name = f"h{host}".encode()
    libc.sethostname(own_name, len(own_name))


def start(name, host, command, environment):
    parent = os.getpid()

    def prepare():
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)
        enter(name, host)

    return subprocess.Popen(command, env={**os.environ, **environment, "HOSTS_NETWORK": name}, preexec_fn=prepare)


def wait_for_all(processes):
    """The first exit code that is not 0; the others then have GRACE seconds."""
    result, deadline = 0, None
    while processes:
        for process in list(processes):
            code = process.poll()
            if code is None:
                continue
            processes.remove(process)
            if code != 0 and result == 0:
                result, deadline = code if code > 0 else 128 - code, time.monotonic() + GRACE
        if deadline and time.monotonic() > deadline:
            for process in processes:
                process.kill()
        time.sleep(0.005)
    return result


def run(name, options):
    ranks, master = options.hosts * options.per_host, "fd00:231::1" if options.ipv6 else "10.231.0.1"
    processes = []
    for rank in range(ranks):
        host, local = divmod(rank, options.per_host)
        environment = {"RANK": rank, "WORLD_SIZE": ranks, "LOCAL_RANK": local, "LOCAL_WORLD_SIZE": options.per_host,
                       "GROUP_RANK": host, "MASTER_ADDR": master, "MASTER_PORT": 29500}
        environment = {key: str(value) for key, value in environment.items()}
        processes.append(start(name, host + 1, options.command, environment))
    return wait_for_all(processes)


def mpirun(name, options):
    """mpirun on host 1; its agent, instead of ssh, enters the namespace."""
    with tempfile.TemporaryDirectory(prefix=name) as folder:
        agent, hostfile = pathlib.Path(folder, "agent"), pathlib.Path(folder, "hosts")
        tool = shlex.quote(str(pathlib.Path(__file__).resolve()))
        agent.write_text(f'#!/bin/sh\nhost=${{1##*.}}\nshift\nexec {shlex.quote(sys.executable)} {tool} exec {name} "$host" -- '
                         'sh -c "$*"\n')
        agent.chmod(0o755)
        hostfile.write_text("".join(f"10.231.0.{k} slots={options.per_host}\n" for k in range(1, options.hosts + 1)))
        command = ["mpirun", "--allow-run-as-root", "--hostfile", str(hostfile), "--map-by", "slot", "--bind-to", "none",
                   "--mca", "plm", "rsh", "--mca", "plm_rsh_agent", str(agent), "--mca", "plm_rsh_no_tree_spawn", "1",
                   "--mca", "oob_tcp_if_include", "eth0", "--mca", "btl_tcp_if_include", "eth0",
                   "-x", "HOSTS_NETWORK", "-n", str(options.hosts * options.per_host)]
        return wait_for_all([start(name, 1, command + shlex.split(options.options) + options.command, {})])


def why_not():
    """Why there can be no hosts here; None: there can."""
    for program in ("ip", "tc"):
        if subprocess.run(["sh", "-c", f"command -v {program}"], capture_output=True).returncode != 0:
            return f"there is no program {program} (Debian: iproute2)"
    probe = f"{PREFIX}{os.getpid()}-probe"
    made = subprocess.run(["ip", "netns", "add", probe], capture_output=True, text=True)
    if made.returncode != 0:
        return "network namespaces cannot be made here: " + made.stderr.strip().replace("\n", " ")
    try:
        dummy = subprocess.run(["ip", "-n", probe, "link", "add", "bridge", "type", "bridge"], capture_output=True, text=True)
        return None if dummy.returncode == 0 else "no bridge can be made here: " + dummy.stderr.strip()
    finally:
        subprocess.run(["ip", "netns", "delete", probe], check=False)


def with_network(action, options):
    """A network for the time of one command, whatever ends it."""
    name = f"{PREFIX}{os.getpid()}"
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda number, frame: sys.exit(128 + number))
    clean()
    atexit.register(down, name)
    up(name, options.hosts, options.rate, options.burst, options.limit)
    return action(name, options)


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    actions = parser.add_subparsers(dest="action", required=True)
    for action in ("run", "mpirun", "up"):
        one = actions.add_parser(action)
        one.add_argument("-H", "--hosts", type=int, default=2)
        one.add_argument("-r", "--rate", default="", help="of each link and direction, as tc writes it: 1gbit; none: unlimited")
        one.add_argument("--burst", default=BURST, help=f"what an idle link may save up; less than 70kb cuts large packets (default {BURST})")
        one.add_argument("--limit", default=LIMIT,
                         help=f"what waits at a link at most (default {LIMIT}); with a few packets it loses packets")
        if action == "up":
            continue
        one.add_argument("-n", "--per-host", type=int, default=1, help="ranks a host")
        if action == "run":
            one.add_argument("--ipv6", action="store_true", help="meet at host 1's IPv6 address")
        else:
            one.add_argument("-o", "--options", default="", help="more options of mpirun, as one word")
        one.add_argument("command", nargs="+")
    one = actions.add_parser("exec")
    one.add_argument("name")
    one.add_argument("host", type=int)
    one.add_argument("command", nargs="+")
    one = actions.add_parser("link")
    one.add_argument("name")
    one.add_argument("host", type=int)
    one.add_argument("state", choices=("down", "up"))
    actions.add_parser("down").add_argument("name")
    actions.add_parser("clean")
    actions.add_parser("check")
    return parser.parse_args(arguments)


def main():
    options = parse(sys.argv[1:])
    if options.action == "exec":
        enter(options.name, options.host)
        os.execvp(options.command[0], options.command)
    if options.action == "link":
        subprocess.run(["ip", "-n", f"{options.name}-switch", "link", "set", f"p{options.host}", options.state], check=True)
        return 0
    if options.action == "down":
        down(options.name)
        return 0
    if options.action == "clean":
        clean()
        return 0
    reason = why_not()
    if reason or options.action == "check":
        print(f"skipped: {reason}" if reason else "hosts can be made here")
        return SKIPPED if reason else 0
    if options.action == "up":
        name = f"{PREFIX}kept-{os.urandom(3).hex()}"
        up(name, options.hosts, options.rate, options.burst, options.limit)
        print(name)
        return 0
    return with_network(run if options.action == "run" else mpirun, options)


if __name__ == "__main__":
    sys.exit(main())
