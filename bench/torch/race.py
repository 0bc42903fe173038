"""tutti against gloo (and mpi, where torch has it) through torch.distributed, on this host.

    python bench/torch/race.py                          all_reduce, 2 ranks, 4 B to 64 MiB
    python bench/torch/race.py --step --ranks 4         the step of a small ResNet with DistributedDataParallel

Paired: in each of many rounds every backend makes some calls, in turn, in the same processes. What is shown is the median over
rounds of the slowest rank's time, and of each round's ratio. Results are checked.

Beside the step with each backend: with a hook that moves nothing, the bound; with one that only has the ranks meet, so that no
more than waiting for the slower one is added; with one that has them meet, and then adds and copies as much as an
all_reduce must, but from memory of its own; without DistributedDataParallel; and on tutti with gradients that are views of the buckets, with
one bucket, and with both.
"""
import argparse
import datetime
import json
import os
import statistics
import sys
import tempfile
import time

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
import torch.multiprocessing as mp  # noqa: E402

import tutti_torch  # noqa: E402,F401


def backends():
    return ["tutti", "gloo"] + (["mpi"] if dist.is_mpi_available() else [])


def slowest(seconds, group):
    """The slowest rank's time, on every rank."""
    value = torch.tensor([seconds], dtype=torch.float64)
    dist.all_reduce(value, op=dist.ReduceOp.MAX, group=group)
    return value.item()


def compare(rank, cases, rounds, groups):
    """cases: {label: {backend: function that runs it and returns seconds}}"""
    rows = []
    for label, runs in cases.items():
        for run in runs.values():  # warm up
            run()
        times = {name: [] for name in runs}
        for round_ in range(rounds):
            names = list(runs)[::1 if round_ % 2 == 0 else -1]
            for name in names:
                dist.barrier(group=groups["tutti"])
                times[name].append(slowest(runs[name](), groups["tutti"]))
        row = {"case": label}
        for name in runs:
            row[name] = statistics.median(times[name])
            row[f"tutti/{name}"] = statistics.median(t / o for t, o in zip(times["tutti"], times[name]))
        rows.append(row)
        if rank == 0:
            text = "  ".join(f"{name} {row[name] * 1e6:11.1f} us" for name in runs)
            ratio = "  ".join(f"tutti/{name} {row[f'tutti/{name}']:.3f}" for name in runs if name != "tutti")
            print(f"{label:>12}  {text}\n{'':>12}  {ratio}" if len(runs) > 3 else f"{label:>12}  {text}  {ratio}", flush=True)
    return rows


def all_reduce_run(size, group, calls):
    tensor = torch.full((max(size // 4, 1),), float(dist.get_rank()))
    dist.all_reduce(tensor, group=group)
    ranks = dist.get_world_size(group)
    assert tensor.eq(ranks * (ranks - 1) / 2).all()
    tensor.fill_(0)  # sums stay zero, however many

    def run():
        begin = time.perf_counter()
        for _ in range(calls):
            dist.all_reduce(tensor, group=group)
        return (time.perf_counter() - begin) / calls
    return run


class Block(torch.nn.Module):
    def __init__(self, channels, out, stride):
        super().__init__()
        nn = torch.nn
        self.body = nn.Sequential(nn.Conv2d(channels, out, 3, stride, 1, bias=False), nn.BatchNorm2d(out), nn.ReLU(),
                                  nn.Conv2d(out, out, 3, 1, 1, bias=False), nn.BatchNorm2d(out))
        self.short = nn.Conv2d(channels, out, 1, stride) if stride != 1 or channels != out else nn.Identity()

    def forward(self, images):
        return torch.relu(self.body(images) + self.short(images))


def resnet():
    nn = torch.nn
    return nn.Sequential(nn.Conv2d(3, 64, 3, 1, 1), Block(64, 64, 2), Block(64, 128, 2), Block(128, 256, 2),
                         Block(256, 512, 2), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 10))


def move_nothing(_, bucket):
    done = torch.futures.Future()
    done.set_result(bucket.buffer())
    return done


def only_meet(group):
    """A hook that sums one element a bucket: the ranks wait for each other, and nothing else is moved."""
    elements = {}

    def hook(_, bucket):
        element = elements.setdefault(bucket.index(), torch.zeros(1))
        buffer = bucket.buffer()
        return dist.all_reduce(element, group=group, async_op=True).get_future().then(lambda _: buffer)
    return hook


def only_memory(group):
    """A hook that has the ranks meet, and then adds and copies into the bucket what an all_reduce must add and copy: a part of each
    other rank's bucket, and of the sums all other parts. It takes them from memory of its own, so the gradients are wrong."""
    element, others = torch.zeros(1), {}

    def hook(_, bucket):
        buffer = bucket.buffer()
        size, ranks = buffer.numel(), dist.get_world_size(group)
        if size not in others:
            others[size] = torch.zeros_like(buffer)
        dist.all_reduce(element, group=group)
        other, part = others[size], size // ranks
        for peer in range(1, ranks):
            buffer[:part].add_(other[peer * part:(peer + 1) * part])
        buffer[part:].copy_(other[part:])
        return move_nothing(_, bucket)
    return hook


def step_run(steps, group=None, hook=None, **options):
    """Without a group there is no DistributedDataParallel, whose options are `options`."""
    torch.manual_seed(0)
    model = resnet()
    if group is not None:
        model = torch.nn.parallel.DistributedDataParallel(model, process_group=group, **options)
    if hook is not None:
        model.register_comm_hook(None, hook)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    images, labels = torch.randn(4, 3, 32, 32), torch.randint(0, 10, (4,))

    def run():
        begin = time.perf_counter()
        for _ in range(steps):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(images), labels).backward()
            optimizer.step()
        return (time.perf_counter() - begin) / steps
    return run


def worker(rank, arguments, store):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=arguments.ranks,
                            timeout=datetime.timedelta(seconds=120))
    groups = {name: dist.new_group(backend=name) for name in backends()}
    cases = {}
    if arguments.step:
        parameters = sum(p.numel() for p in resnet().parameters())
        views, whole = {"gradient_as_bucket_view": True}, {"bucket_cap_mb": parameters * 4 // 2**20 + 1}
        tutti = groups["tutti"]
        cases["DDP step"] = {
            **{name: step_run(3, group) for name, group in groups.items()},
            "nothing": step_run(3, tutti, move_nothing), "meet": step_run(3, tutti, only_meet(tutti)),
            "memory": step_run(3, tutti, only_memory(tutti)), "alone": step_run(3),
            "views": step_run(3, tutti, **views), "whole": step_run(3, tutti, **whole),
            "both": step_run(3, tutti, **views, **whole),
            "both, nothing": step_run(3, tutti, move_nothing, **views, **whole),
        }
        if rank == 0:
            print(f"{parameters / 1e6:.1f} million parameters; 'nothing': a hook that moves nothing; 'meet': one that only has the"
                  " ranks meet; 'memory': one that has them meet, and adds and copies from memory of its own; 'alone': without DDP;"
                  " 'views': gradients are views of buckets; 'whole': one bucket; 'both': the two")
    else:
        for size in arguments.sizes:
            calls = max(1, min(100, (4 << 20) // size))
            cases[f"{size} B"] = {name: all_reduce_run(size, group, calls) for name, group in groups.items()}
    rows = compare(rank, cases, arguments.rounds, groups)
    if rank == 0 and arguments.json:
        with open(arguments.json, "w") as file:
            json.dump({"ranks": arguments.ranks, "torch": torch.__version__, "load": os.getloadavg()[0], "rows": rows},
                      file, indent=1)
    dist.destroy_process_group()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=41)
    parser.add_argument("--sizes", type=int, nargs="*",
                        default=[4, 64, 1024, 16384, 262144, 1 << 20, 4 << 20, 16 << 20, 64 << 20])
    parser.add_argument("--step", action="store_true")
    parser.add_argument("-J", "--json", help="a file for what was measured")
    arguments = parser.parse_args()
    print(f"load before: {os.getloadavg()[0]:.2f}; torch {torch.__version__}; {arguments.ranks} ranks, "
          f"{os.cpu_count()} cores", file=sys.stderr)
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(worker, (arguments, os.path.join(folder, "store")), nprocs=arguments.ranks)


if __name__ == "__main__":
    main()
