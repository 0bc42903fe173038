"""Named tensors, submitted in any order, carried out in one order on all ranks.

Each rank has a thread. While it has requests open it meets the other ranks' threads in rounds; without any it comes once
a second, so that those who wait learn whom they wait for. In a round every rank tells the requests that it has got since
the last one; as all ranks hear the same, all keep the same table and come to the same list of what is ready, without a
coordinator. A request that was carried out before has a number, which is told instead of its description.
"""
import collections
import itertools
import json
import sys
import threading
import time

import torch
import torch.distributed as dist

FUSION_BYTES = 64 << 20
CYCLE_SECONDS = 0.001
IDLE_SECONDS = 1.0
STALL_SECONDS = 60.0
NUMBERS = 1 << 15  # descriptions that are remembered
# What arguments that make no sense raise, before anything is sent.
_REFUSALS = (AttributeError, TypeError, ValueError, NotImplementedError)
_BLOCK = 1024  # bytes of a rank in the first exchange of a round; who has more takes a second one


class DuplicateName(ValueError):
    """A tensor was submitted under a name that is still open on this rank."""


class Disagreement(ValueError):
    """Ranks submitted different things under one name. Raised on all ranks; nothing was moved."""


class Request:
    def __init__(self, name, kind, tensor, output, **settings):
        self.name, self.kind, self.tensor, self.output, self.settings = name, kind, tensor, output, settings
        self.ready = None
        if tensor.is_cuda:
            self.ready = torch.cuda.Event()
            self.ready.record()
        self.done = threading.Event()
        self.error = None

    def description(self):
        shape = list(self.tensor.shape)
        return [self.name, self.kind, str(self.tensor.dtype), shape, self.tensor.device.type,
                {key: str(value) for key, value in sorted(self.settings.items())}]

    def wait(self):
        self.done.wait()
        if self.error is not None:
            raise self.error
        return self.output

    def finish(self, error=None):
        self.error = error
        self.tensor = self.tensor if error is None else None
        self.done.set()


class Engine:
    def __init__(self, group):
        self.group = group
        self.rank, self.size = dist.get_rank(group), dist.get_world_size(group)
        backend = group._get_backend(torch.device("cpu"))
        self.backend = getattr(backend, "wrapped_pg", backend)  # TORCH_DISTRIBUTED_DEBUG=DETAIL puts it into another
        self.changed = threading.Condition()
        self.fresh, self.open = [], {}
        self.stopping, self.error = False, None
        self.table = {}  # name -> {rank: description}, in the order in which names were first heard of
        self.since, self.warned = {}, set()
        # Alike on all ranks: description <-> number, the one that was used last at the end.
        self.numbers, self.descriptions, self.next_number = collections.OrderedDict(), {}, 0
        self.thread = threading.Thread(target=self._serve, name="tutti-hvd", daemon=True)
        self.thread.start()

    def submit(self, request):
        with self.changed:
            if self.error is not None:
                raise self.error
            if self.stopping:
                raise RuntimeError("hvd was shut down")
            if request.name in self.open:
                raise DuplicateName(f"rank {self.rank}: '{request.name}' is submitted again before it is done")
            self.open[request.name] = request
            self.fresh.append(request)
            self.changed.notify()
        return request

    def stop(self, seconds):
        """Takes part until all ranks stop, at most so long; then the group is aborted."""
        with self.changed:
            self.stopping = True
            self.changed.notify()
        self.thread.join(seconds)
        if self.thread.is_alive():
            self.backend.abort()
            self.thread.join(seconds)

    # ---------------------------------------------------------------- the thread

    def _serve(self):
        try:
            while self._round():
                pass
        except Exception as error:  # the group failed: everybody who waits hears why
            with self.changed:
                self.error = error
                requests, self.open = list(self.open.values()), {}
            for request in requests:
                request.finish(error)

    def _round(self):
        with self.changed:
            self.changed.wait_for(lambda: self.open or self.stopping, timeout=IDLE_SECONDS)
            fresh, self.fresh = self.fresh, []
            stopping = self.stopping and not self.open
        told = [self._tell(request) for request in fresh]
        heard = self._exchange(json.dumps([stopping, told]).encode())
        moved = False
        for rank, (_, requests) in enumerate(heard):
            for told in requests:
                moved = True
                description = self.descriptions[told] if isinstance(told, int) else told
                self.table.setdefault(description[0], {})[rank] = description
                self.since.setdefault(description[0], time.monotonic())
        ready = [name for name, ranks in self.table.items() if len(ranks) == self.size]
        self._carry_out([(name, self.table.pop(name)) for name in ready])
        if all(stopping for stopping, _ in heard):
            return False
        if not moved:
            self._watch_for_stalls()
            time.sleep(CYCLE_SECONDS)
        return True

    def _tell(self, request):
        description = request.description()
        number = self.numbers.get(json.dumps(description))
        return description if number is None else number

    def _exchange(self, message):
        """Every rank's message."""
        block = torch.zeros(_BLOCK, dtype=torch.uint8)
        head = len(message).to_bytes(4, "little") + message[:_BLOCK - 4]
        block[:len(head)] = torch.frombuffer(bytearray(head), dtype=torch.uint8)
        blocks = torch.empty(self.size * _BLOCK, dtype=torch.uint8)
        dist.all_gather_into_tensor(blocks, block, group=self.group)
        raw = [bytes(piece.numpy()) for piece in blocks.view(self.size, _BLOCK)]
        lengths = [int.from_bytes(piece[:4], "little") for piece in raw]
        messages = [piece[4:4 + length] for piece, length in zip(raw, lengths)]
        longest = max(lengths)
        if longest > _BLOCK - 4:
            block = torch.zeros(longest, dtype=torch.uint8)
            block[:len(message)] = torch.frombuffer(bytearray(message), dtype=torch.uint8)
            blocks = torch.empty(self.size * longest, dtype=torch.uint8)
            dist.all_gather_into_tensor(blocks, block, group=self.group)
            messages = [bytes(piece.numpy())[:length] for piece, length in zip(blocks.view(self.size, longest), lengths)]
        return [json.loads(message) for message in messages]

    def _carry_out(self, ready):
        """In the order of the names' first mention, which is the same on all ranks."""
        agreed = []
        for name, ranks in ready:
            self.since.pop(name)
            self.warned.discard(name)
            error = disagreement(name, ranks)
            if error is not None:
                self._close(name).finish(error)
                continue
            if all(ranks[rank] == ranks[0] for rank in ranks):
                self._number(ranks[0])
            agreed.append((self.open[name], ranks))
        for kind, members in itertools.groupby(agreed, key=lambda entry: fusion_key(entry[0])):
            self._run(kind, list(members))

    def _number(self, description):
        key = json.dumps(description)
        if key in self.numbers:
            return self.numbers.move_to_end(key)
        self.numbers[key] = self.next_number
        self.descriptions[self.next_number] = description
        self.next_number += 1
        if len(self.numbers) > NUMBERS:
            _, oldest = self.numbers.popitem(last=False)
            del self.descriptions[oldest]

    def _close(self, name):
        with self.changed:
            return self.open.pop(name)

    def _run(self, kind, members):
        for request, _ in members:
            if request.ready is not None:
                request.ready.synchronize()
        if kind[0] == "allreduce":
            for part in parts_of([request for request, _ in members]):
                self._finish(part, lambda: self._sum(part))
        else:
            for request, ranks in members:
                self._finish([request], lambda: getattr(self, "_" + request.kind)(request, ranks))

    def _finish(self, requests, operation):
        error = None
        try:
            with torch.no_grad():
                operation()
        except _REFUSALS as refusal:
            # The ranks agreed on the arguments, so each of them comes by here. If one does not, its call meets this
            # barrier, and that ends the group.
            self.backend.barrier().wait()
            error = refusal
        for request in requests:
            if error is None and request.output.is_cuda:
                torch.cuda.current_stream(request.output.device).synchronize()
            self._close(request.name).finish(error)

    def _sum(self, requests):
        settings = requests[0].settings
        flat = torch.cat([request.tensor.reshape(-1) for request in requests])
        if settings["prescale"] != 1.0:
            flat *= settings["prescale"]
        operation = getattr(dist.ReduceOp, settings["op"])
        if settings["wire"] is None:
            dist.all_reduce(flat, op=operation, group=self.group)
        else:
            self.backend.allreduce_wire(flat, operation, settings["wire"])
        if settings["postscale"] != 1.0:
            flat *= settings["postscale"]
        pieces = flat.split([request.tensor.numel() for request in requests])
        for request, piece in zip(requests, pieces):
            request.output.copy_(piece.view(request.output.shape))

    def _broadcast(self, request, _):
        source = dist.get_global_rank(self.group, request.settings["root"])
        if self.rank == request.settings["root"] and request.output is not request.tensor:
            request.output.copy_(request.tensor)
        dist.broadcast(request.output, source, group=self.group)

    def _allgather(self, request, ranks):
        shapes = [ranks[rank][3] for rank in range(self.size)]
        pieces = [request.tensor.new_empty(shape) for shape in shapes]
        dist.all_gather(pieces, request.tensor.contiguous(), group=self.group)
        request.output = torch.cat(pieces)

    def _watch_for_stalls(self):
        for name, since in self.since.items():
            if name in self.warned or time.monotonic() - since < STALL_SECONDS or self.rank != 0:
                continue
            self.warned.add(name)
            missing = ", ".join(str(rank) for rank in range(self.size) if rank not in self.table[name])
            print(f"tutti hvd: '{name}' waits for rank {missing} for {STALL_SECONDS:.0f} s", file=sys.stderr)


def fusion_key(request):
    """Requests of one key, next to each other, are summed together."""
    if request.kind != "allreduce":
        return (request.kind, request.name)
    return (request.kind, request.tensor.dtype, request.tensor.device) + tuple(sorted(
        (key, str(value)) for key, value in request.settings.items()))


def parts_of(requests):
    """Runs of requests of at most FUSION_BYTES together."""
    part, size = [], 0
    for request in requests:
        nbytes = request.tensor.numel() * request.tensor.element_size()
        if part and size + nbytes > FUSION_BYTES:
            yield part
            part, size = [], 0
        part.append(request)
        size += nbytes
    yield part


_FIELDS = ("name", "operation", "type", "shape", "device", "settings")


def disagreement(name, ranks):
    """The error of ranks that submitted different things as `name`; the culprits are those who differ from most."""
    def essence(description):
        description = list(description)
        if description[1] == "allgather":
            description[3] = description[3][1:]  # the first dimension may differ
        return json.dumps(description)

    kinds = {}
    for rank in sorted(ranks):
        kinds.setdefault(essence(ranks[rank]), []).append(rank)
    if len(kinds) == 1:
        return None
    usual = max(kinds.values(), key=len)
    culprits = [rank for rank in sorted(ranks) if rank not in usual]
    mine, theirs = ranks[culprits[0]], ranks[usual[0]]
    field = next(i for i in range(len(_FIELDS)) if mine[i] != theirs[i])
    return Disagreement(
        f"'{name}': rank {', '.join(map(str, culprits))} submitted {_FIELDS[field]} {mine[field]} where rank "
        f"{', '.join(map(str, usual))} submitted {_FIELDS[field]} {theirs[field]}")
