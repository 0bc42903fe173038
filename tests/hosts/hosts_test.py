#!/usr/bin/env python3
"""hosts_test.py CASE TUTTI-PERF SURVIVE: tutti-perf, and examples/survive, across the hosts that tools/hosts.py makes.
Exit code 77: skipped, and why."""
# Covers net/socket.cc, net/address.cc, comm/membership/membership_linker.cc, tools/hosts.py,
# tools/probe/network_probe.cc.
import pathlib
import re
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
HOSTS = [sys.executable, str(ROOT / "tools" / "hosts.py")]
if len(sys.argv) != 4:
    sys.exit(__doc__)
PERF, SURVIVE = sys.argv[2:]
PROBE = pathlib.Path(PERF).with_name("tutti-probe")
MEASURE = [PERF, "all_reduce", "-b", "8", "-e", "1M", "-f", "8", "-n", "5"]
SKIPPED = 77
PATIENCE = 250  # seconds that nothing here takes, however loaded the machine is
TRIES = 20  # at finding the rate of a network


def fail(why, output=""):
    print(output)
    print("FAILED:", why)
    sys.exit(1)


def hosts(*arguments, timeout=PATIENCE):
    """Runs the tool; its exit code and all that was printed."""
    done = subprocess.run(HOSTS + [str(word) for word in arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, timeout=timeout)
    if done.returncode == SKIPPED and done.stdout.startswith("skipped:"):
        print(done.stdout)
        sys.exit(SKIPPED)
    return done.returncode, done.stdout


def measured(ranks, *arguments):
    """A run that must succeed with right results on so many ranks."""
    code, output = hosts(*arguments)
    if "comes with a later version" in output:
        print("skipped: there is no transport between hosts yet")
        sys.exit(SKIPPED)
    if code != 0 or f"# ranks {ranks} (from a launcher)" not in output or "# Out of bounds values : 0 OK" not in output:
        fail(f"hosts.py {' '.join(map(str, arguments))}: exit code {code}", output)
    print(output)
    return output


def test_network():
    """Hosts reach each other by both families, have their own names, and are gone afterwards, killed or not."""
    code, output = hosts("run", "-H", 3, "--", "sh", "-c", "hostname; ip -br address show dev eth0")
    for k in (1, 2, 3):
        if code != 0 or f"h{k}\n" not in output or f"10.231.0.{k}/24" not in output or f"fd00:231::{k}/64" not in output:
            fail("a host lacks its name or an address", output)
    reach = "import socket, time\n" \
            "for i in range(1000):\n" \
            "    try:\n" \
            "        socket.create_connection(('{}', 7000), 10).close()\n" \
            "        break\n" \
            "    except ConnectionRefusedError:\n" \
            "        time.sleep(0.1)\n" \
            "else: exit(1)"
    serve = "import socket; s = socket.create_server(('::', 7000), family=socket.AF_INET6, dualstack_ipv6=True)\n" \
            "for i in range(4): s.accept()"
    program = f'if [ "$RANK" = 0 ]; then exec python3 -c "{serve}"; fi\n' + "\n".join(
        f'python3 -c "{reach.format(address)}" || exit 1' for address in ("10.231.0.1", "fd00:231::1"))
    code, output = hosts("run", "-H", 3, "--", "sh", "-c", program)
    if code != 0:
        fail("hosts do not reach each other", output)
    code, output = hosts("run", "-H", 2, "--", "sh", "-c", 'exit "$((RANK * 3))"')
    if code != 3:
        fail(f"the exit code of a rank is lost: {code}", output)
    killed = subprocess.Popen(HOSTS + ["run", "-H", "2", "--", "sleep", "60"])
    space = pathlib.Path("/run/netns", f"tutti-hosts-{killed.pid}-switch")
    deadline = time.monotonic() + PATIENCE
    while not space.exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    time.sleep(0.5)
    killed.kill()
    killed.wait()
    hosts("clean")
    if list(space.parent.glob(f"tutti-hosts-{killed.pid}-*")):
        fail("a killed run leaves its network behind")


def test_urls():
    for count, per_host in ((2, 1), (2, 2), (4, 1), (4, 2)):
        measured(count * per_host, "run", "-H", count, "-n", per_host, "--", *MEASURE)
    measured(4, "run", "-H", 2, "-n", 2, "--ipv6", "--", *MEASURE)


def test_mpirun():
    for count, per_host in ((2, 2), (3, 1)):
        measured(count * per_host, "mpirun", "-H", count, "-n", per_host, "--", *MEASURE)


def test_one_id():
    """Hosts that take themselves for one, as cloned machines and some containers do: memory cannot be passed between
    them, and no rank of them shares any with another process."""
    command = ["env", "TUTTI_HOSTID=same", PERF, "all_reduce", "-b", "8", "-e", "64K", "-f", "64", "-n", "3"]
    output = measured(4, "run", "-H", 2, "-n", 2, "--", *command)
    rows = re.findall(r"^\s+\d+\s+\d+\s+float\s.*?(\w+)\s+\w+$", output, re.M)
    if not rows or set(rows) != {"tcp"}:
        fail(f"transports {rows} where only tcp is possible", output)


def test_limited():
    """1 Gbit/s: right results, and no faster than the links allow, which shows that the traffic goes over them."""
    for count, per_host in ((2, 1), (2, 2), (4, 1)):
        output = measured(count * per_host, "run", "-H", count, "-n", per_host, "-r", "1gbit", "--", PERF, "all_reduce", "-b",
                          "4M", "-e", "4M", "-n", "5")
        row = re.search(r"^\s+4194304\s+\S+\s+float\s+sum\s+\S+\s+(\S+)", output, re.M)
        seconds = float(row[1]) * 1e-6 if row else fail("no row of 4 MiB", output)
        if 2 * (count - 1) / count * 4194304 / seconds > 0.14e9:
            fail(f"{count} hosts: 4 MiB in {seconds} s is more than 1 Gbit/s carries", output)


def test_losses():
    """Links that lose a third of the packets: all ranks end well, though a goodbye has to be sent again after its sender has
    nothing else to do."""
    for _ in range(4):
        measured(8, "run", "-H", 8, "-r", "300kbit", "--burst", "4kb", "--limit", "2kb", "--", PERF, "all_reduce", "-b", "8", "-e",
                 "8", "-n", "1", "-w", "1")


def probed(count, per_host, cache, path):
    """The rate in Mbit/s that tutti-probe --hosts finds for links of 100 Mbit/s and writes to `path`, and what it printed.
    `cache`: the setting that says where."""
    code, output = hosts("run", "-H", count, "-n", per_host, "-r", "100mbit", "--", "env", cache, PROBE, "--hosts")
    if code != 0 or f"written: {path}" not in output:
        fail(f"{count} hosts: exit code {code}", output)
    found = dict(line.split() for line in path.read_text().splitlines() if not line.startswith("#"))
    if set(found) != {"network.wire_kib", "network.latency"}:
        fail(f"{count} hosts: the file has {found}", output)
    return 8192 * 1000 * 1000 / int(found["network.wire_kib"]), output


def test_probe():
    """tutti-probe --hosts finds the rate of the links, and ranks on this network then choose by what it wrote. On a machine
    that gives the ranks less than a tenth of a core it finds less, which is no fault of it, so it is asked again."""
    with tempfile.TemporaryDirectory() as folder:
        cache, path = f"XDG_CACHE_HOME={folder}", pathlib.Path(folder) / "tutti" / "network-eth0-10.231.0.0-24"
        for count, per_host in ((2, 2), (3, 1)):
            for _ in range(TRIES):
                megabits, output = probed(count, per_host, cache, path)
                if megabits >= 101:
                    fail(f"{count} hosts: {megabits} Mbit/s where the links have 100", output)
                if megabits > 50:
                    break
            else:
                fail(f"{count} hosts: {TRIES} times at most half of the 100 Mbit/s of the links", output)
        code, output = hosts("run", "-H", 2, "--", "env", "TUTTI_TRANSPORT=tcp", PROBE, "--hosts", "--print")
        if code == 0 or "hides which ranks share a host" not in output:
            fail(f"TUTTI_TRANSPORT=tcp: exit code {code}", output)
        chosen = {}
        for what, text in (("slow hops", "network.latency 2000000000\nnetwork.wire_kib 1000\n"),
                           ("slow bytes", "network.latency 1000\nnetwork.wire_kib 80000000\n")):
            path.write_text(text)
            output = measured(4, "run", "-H", 4, "--", "env", cache, PERF, "all_reduce", "-b", "256K", "-e", "256K", "-n", "2")
            (row,) = [line.split() for line in output.splitlines() if line.split() and line.split()[0] == "262144"]
            chosen[what] = row[-1]
        if chosen["slow hops"] != "all_pairs" or chosen["slow bytes"] == "all_pairs":
            fail(f"chosen: {chosen}")


class Yardstick:
    """How much longer than when idle this machine takes to sleep for a millisecond and to run an empty program: the worst
    round since its begin. A promise may take longer by as much."""
    IDLE_ROUND = 0.1  # seconds, with much to spare

    def __init__(self):
        self.longest, self.began, self.stop = 0.0, time.monotonic(), False
        self.thread = threading.Thread(target=self.run)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.stop = True
        self.thread.join()

    def run(self):
        while not self.stop:
            time.sleep(0.001)
            subprocess.run(["true"], check=True)
            now = time.monotonic()
            self.longest, self.began = max(self.longest, now - self.began), now

    def limit(self, promised, slack=3):
        """`slack` is what the end of a program adds."""
        return (promised + slack) * max(1, self.longest / self.IDLE_ROUND)


class Rank:
    """A program on a host whose output is read as it comes, and the time of its end."""

    def __init__(self, command):
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.output, self.ended = "", None
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        for line in self.process.stdout:
            self.output += line
        self.process.wait()
        self.ended = time.monotonic()

    def wait(self, seconds=PATIENCE):
        self.reader.join(seconds)
        return self.ended is not None


def start_pair(name, operations, environment):
    """Two hosts that all-reduce for some seconds, once they have begun."""
    program = " ".join(["env", *environment, PERF, "all_reduce", "-b", "1M", "-e", "1M", "-n", str(operations)])
    ranks = []
    for rank in range(2):
        place = f"RANK={rank} WORLD_SIZE=2 LOCAL_RANK=0 MASTER_ADDR=10.231.0.1 MASTER_PORT=29500 exec {program}"
        ranks.append(Rank(HOSTS + ["exec", name, str(rank + 1), "--", "sh", "-c", place]))
    end = time.monotonic() + PATIENCE
    # The table's head: all ranks have joined.
    while "# ranks 2 (from a launcher)" not in ranks[0].output and not any(rank.ended for rank in ranks) and time.monotonic() < end:
        time.sleep(0.01)
    time.sleep(0.5)  # in the midst of it, most likely
    if any(rank.ended for rank in ranks) or time.monotonic() >= end:
        output = "".join(rank.output for rank in ranks)
        if "comes with a later version" in output:
            print("skipped: there is no transport between hosts yet")
            sys.exit(SKIPPED)
        fail("it ended before anything was done to it, or did not begin", output)
    return ranks


def ends_of(ranks, begin):
    """How each rank has ended: its exit code, after how many seconds, what it printed."""
    for rank in ranks:
        if not rank.wait():
            rank.process.kill()
            fail("a rank does not end", rank.output)
    return [(rank.process.returncode, rank.ended - begin, rank.output) for rank in ranks]


def with_cable(pause, operations, environment):
    """Two hosts that all-reduce for some seconds; soon the second host's cable is out for `pause`, or until both have
    ended. How they ended, and the machine's yardstick."""
    hosts("check")
    # Limited links: how long it takes is known.
    name = hosts("up", "-H", 2, "-r", "1gbit")[1].strip()
    try:
        ranks = start_pair(name, operations, environment)
        with Yardstick() as yardstick:
            hosts("link", name, 2, "down")
            begin = time.monotonic()
            while time.monotonic() < begin + pause and not all(rank.ended for rank in ranks):
                time.sleep(0.01)
            hosts("link", name, 2, "up")
            return ends_of(ranks, begin), yardstick
    finally:
        hosts("down", name)


def test_strange_addresses():
    """A killed rank is known at once, also where hosts offer addresses that lead nowhere: one without a route, one whose
    packets vanish, and one that both hosts have, at which each reaches its own hub (the ports are the same)."""
    hosts("check")
    name = hosts("up", "-H", 2, "-r", "1gbit")[1].strip()
    try:
        for k in (1, 2):
            for device, address in (("alone", f"10.232.{k}.1/24"), ("dumb", f"10.233.0.{k}/24"), ("docker0", "172.17.0.1/16")):
                for words in (["link", "add", device, "type", "bridge"], ["address", "add", address, "dev", device],
                              ["link", "set", device, "up"]):
                    subprocess.run(["ip", "-n", f"{name}-h{k}", *words], check=True)
            subprocess.run(["ip", "-n", f"{name}-h{k}", "neigh", "add", f"10.233.0.{3 - k}", "lladdr", "02:00:00:00:00:01", "dev",
                            "dumb"], check=True)
        for victim in (0, 1):
            ranks = start_pair(name, 100000, ["TUTTI_PORT_RANGE=20000-20003", "TUTTI_RECONNECT=20", "TUTTI_LOG=info"])
            with Yardstick() as yardstick:
                begin = time.monotonic()
                ranks[victim].process.kill()
                ends = ends_of(ranks, begin)
            code, seconds, output = ends[1 - victim]
            offered = ends[0][2] + ends[1][2]  # the one that dialled tells
            if not all(address in offered for address in ("10.232.", "10.233.", "172.17.0.1")):
                fail("the strange addresses were not offered", offered)
            if code == 0 or seconds > yardstick.limit(1) or f"rank {victim}" not in output:
                fail(f"rank {1 - victim} ended with {code} after {seconds:.1f} s", output)
            print(f"rank {1 - victim} knew after {seconds:.2f} s")
    finally:
        hosts("down", name)


def test_link_pause():
    """A cable that is out for a second costs a second, not the communicator."""
    for code, seconds, output in with_cable(1, 600, ["TUTTI_RECONNECT=100"])[0]:
        if code != 0 or "warn: " in output.replace("admits whoever", "") and "failed" in output:
            fail(f"a rank ended with {code} after {seconds:.1f} s", output)
    print("both ranks went on")


def test_link_down():
    """One that stays out is an error on both sides within the reconnect time and a second, and names the other."""
    ends, yardstick = with_cable(30, 100000, ["TUTTI_RECONNECT=2"])
    for rank, (code, seconds, output) in enumerate(ends):
        if code == 0 or seconds > yardstick.limit(2 + 1) or f"rank {1 - rank}" not in output:
            fail(f"rank {rank} ended with {code} after {seconds:.1f} s", output)
        print(f"rank {rank} knew after {seconds:.1f} s")


def go_on_without(reconnect, promised):
    """Three hosts that train; soon the third one's cable is out, and each side goes on by itself to the right result.
    `promised`: within so many seconds."""
    name = hosts("up", "-H", 3)[1].strip()
    try:
        ranks = []
        for rank in range(3):
            place = f"RANK={rank} WORLD_SIZE=3 LOCAL_RANK=0 MASTER_ADDR=10.231.0.1 MASTER_PORT=29500"
            program = f"{place} TUTTI_RECONNECT={reconnect} TUTTI_LOG=info exec {SURVIVE} -s 800 -p 5"
            ranks.append(Rank(HOSTS + ["exec", name, str(rank + 1), "--", "sh", "-c", program]))
        end = time.monotonic() + PATIENCE
        while not all("joined: 3 ranks" in rank.output for rank in ranks) and time.monotonic() < end:
            time.sleep(0.01)
        time.sleep(0.5)
        with Yardstick() as yardstick:
            hosts("link", name, 3, "down")
            ends = ends_of(ranks, time.monotonic())
        for rank, (code, _, output) in enumerate(ends):
            left, lost = (2, 1) if rank < 2 else (1, 2)
            took = re.search(f"3 ranks became {left} in ([0-9.]+) ms", output)
            if code != 0 or not took:
                fail(f"rank {rank} ended with {code}, and has not gone on", output)
            if rank != 1 and f"survive: {left} ranks, 800 steps, {lost} lost, 0 joined; right" not in output:
                fail(f"rank {rank} has no right result", output)
            seconds = float(took[1]) / 1000
            if seconds > yardstick.limit(promised, slack=0):
                fail(f"rank {rank} went on after {seconds} s", output)
            print(f"TUTTI_RECONNECT={reconnect}: rank {rank} went on after {seconds:.2f} s")
    finally:
        hosts("down", name)


def test_host_lost():
    """When a host is gone, the others shrink and go on: 2.5 s after their last sum with TUTTI_RECONNECT=0, which learns by
    silence, else 1.5 s after the reconnect time."""
    hosts("check")
    go_on_without(0, 2.5)
    go_on_without(2, 2 + 1.5)


if __name__ == "__main__":
    globals()[f"test_{sys.argv[1]}"]()
