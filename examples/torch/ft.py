"""Training under torchft: two replica groups of a process each, of which one is killed and started again, while the other goes
on. A lighthouse says who takes part in which step; who comes back gets the parameters from the other. Times a step and a failure.

    pip install torchft-nightly
    python examples/torch/ft.py [--backend tutti] [--hidden 128]
"""
import argparse
import collections
import multiprocessing
import multiprocessing.connection
import statistics
import sys
import time
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import nn

import digits

STEPS_TO_THE_END = 200  # from when both are there again; they hear of it on the way


def make_group(backend):
    if backend == "tutti":
        from tutti_torch.ft import ProcessGroupTutti
        return ProcessGroupTutti(timeout=timedelta(seconds=5))
    from torchft import ProcessGroupGloo
    return ProcessGroupGloo(timeout=timedelta(seconds=5))


def replica(number, lighthouse, options, reports):
    """Reports (step, participants, time) after each step, until it is told the last one; then the parameters."""
    import torchft

    torch.set_num_threads(1)
    torch.manual_seed(number)  # who comes later gets the others' parameters all the same
    store = dist.TCPStore("localhost", 0, is_master=True, wait_for_workers=False)  # of this replica group
    model = digits.Perceptron(options.hidden)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    manager = torchft.Manager(
        pg=make_group(options.backend), min_replica_size=1, replica_id=f"replica_{number}",
        state_dict=lambda: {"model": model.state_dict(), "optimizer": optimizer.state_dict()},
        load_state_dict=lambda state: (model.load_state_dict(state["model"]),
                                       optimizer.load_state_dict(state["optimizer"])),
        timeout=timedelta(seconds=10), lighthouse_addr=lighthouse, rank=0, world_size=1, store_addr="localhost",
        store_port=store.port)
    parallel, steps = torchft.DistributedDataParallel(manager, model), torchft.Optimizer(manager, optimizer)
    images, labels = digits.load()[0].tensors
    last = None
    while last is None or manager.current_step() < last:
        if reports.poll():
            last = reports.recv()
        first = (manager.current_step() * 2 + number) * 16 % (len(labels) - 16)
        steps.zero_grad()
        nn.functional.cross_entropy(parallel(images[first:first + 16]), labels[first:first + 16]).backward()
        steps.step()
        reports.send((manager.current_step(), manager.num_participants(), time.monotonic()))
    reports.send(nn.utils.parameters_to_vector(model.parameters()).detach().tolist())
    time.sleep(1)  # the other one may still be in this step
    manager.shutdown(wait=False)


class Job:
    def __init__(self, options):
        from torchft.coordination import LighthouseServer

        self.options = options
        self.context = multiprocessing.get_context("forkserver")
        self.context.set_forkserver_preload(["torch", "torchft", "digits", "sklearn.datasets"])
        self.lighthouse = LighthouseServer(bind="127.0.0.1:0", min_replicas=1, join_timeout_ms=100, quorum_tick_ms=10,
                                           heartbeat_timeout_ms=500)
        self.processes, self.reports = [None, None], [None, None]
        self.read = [collections.deque(), collections.deque()]

    def start(self, number):
        self.reports[number], theirs = self.context.Pipe()
        self.read[number].clear()
        address = self.lighthouse.address().replace("http://localhost", "http://127.0.0.1")
        self.processes[number] = self.context.Process(target=replica, args=(number, address, self.options, theirs))
        self.processes[number].start()
        theirs.close()

    def next_report(self, number):
        """Reads those of both replicas: one that nobody reads would stand still when its pipe is full."""
        end = time.monotonic() + 60
        while not self.read[number]:
            ready = multiprocessing.connection.wait([pipe for pipe in self.reports if pipe], max(0, end - time.monotonic()))
            if not ready or time.monotonic() > end:
                raise TimeoutError(f"replica {number} has not come to the end of a step for 60 s")
            for pipe in ready:
                place = self.reports.index(pipe)
                try:
                    self.read[place].append(pipe.recv())
                except (EOFError, ConnectionResetError):
                    self.reports[place] = None  # it was killed, or has ended
        return self.read[number].popleft()

    def await_participants(self, count):
        """The report of replica 0's first step with so many."""
        while True:
            report = self.next_report(0)
            if report[1] == count:
                return report

    def run(self):
        try:
            return self.lose_and_regain()
        finally:
            for process in self.processes:
                process.kill()

    def lose_and_regain(self):
        self.start(0)
        self.start(1)
        last = self.await_participants(2)
        times = []
        for _ in range(20):
            report = self.next_report(0)
            times.append(report[2] - last[2])
            last = report
        killed = time.monotonic()
        self.processes[1].kill()
        alone = self.await_participants(1)
        self.start(1)
        began = time.monotonic()
        again = self.await_participants(2)
        for report in self.reports:
            report.send(again[0] + STEPS_TO_THE_END)
        ends = [self.end(number) for number in (0, 1)]
        same = ends[0] == ends[1]
        print(f"{self.options.backend}: a step {statistics.median(times) * 1e3:.1f} ms, the next one without replica 1 "
              f"{(alone[2] - killed) * 1e3:.0f} ms after its death, with it again {(again[2] - began) * 1e3:.0f} ms after its start; "
              f"{'the same' if same else 'DIFFERENT'} parameters", flush=True)
        for process in self.processes:
            process.join(30)
        return 0 if same else 1

    def end(self, number):
        while True:
            report = self.next_report(number)
            if isinstance(report, list):
                return report


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--backend", default="tutti", choices=("tutti", "gloo"))
    parser.add_argument("--hidden", type=int, default=128, help="width of the network: how much travels")
    sys.exit(Job(parser.parse_args()).run())
