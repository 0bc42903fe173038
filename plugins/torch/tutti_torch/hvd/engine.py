"""Named tensors, submitted in any order, carried out in one order on all ranks.

Each rank has a thread. While it has requests open it meets the other ranks' threads in rounds; without any it comes once
a second, so that those who wait learn whom they wait for. In a round every rank tells the requests that it has got since
the last one; as all ranks hear the same, all keep the same table and come to the same list of what is ready, without a
coordinator. A request that was carried out before has a number, which is told instead of its description. A rank that
has joined, because it has no more data, takes part with zeros until all have.
"""
import collections
import itertools
import json
import sys
import threading
import time

import torch
import torch.distributed as dist

from .execution import Execution, fusion_key, parts_of
from .request import DuplicateName, HorovodInternalError, disagreement, goes_on_without, stand_in

CYCLE_SECONDS = 0.001
IDLE_SECONDS = 1.0
STALL_SECONDS = 60.0
NUMBERS = 1 << 15  # descriptions that are remembered
# What arguments that make no sense raise, before anything is sent.
_REFUSALS = (AttributeError, TypeError, ValueError, NotImplementedError)
_BLOCK = 1024  # bytes of a rank in the first exchange of a round; who has more takes a second one


class Engine:
    def __init__(self, group):
        self.group, self.execution = group, Execution(group)
        self.rank, self.size, self.backend = self.execution.rank, self.execution.size, self.execution.backend
        self.members = dist.get_process_group_ranks(group)  # their ranks in the world
        self.changed = threading.Condition()
        self.fresh, self.open = [], {}
        self.stopping, self.error = False, None
        self.joining, self.joined = None, {}  # this rank's request; the ranks that have joined, in order
        self.join_began, self.join_warned = None, False
        self.timeline, self.unnamed = None, itertools.count()
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
            if request.kind == "join":
                self.joining = request
            else:
                self.fresh.append(request)
                if (timeline := self.timeline) is not None:
                    timeline.wait(request.name, request.kind)
            self.changed.notify()
        return request

    def begin_to_stop(self):
        """Takes no more requests. The thread ends when all ranks have come here."""
        with self.changed:
            self.stopping = True
            self.changed.notify()

    def stop(self, until):
        """Waits until all ranks stop, or for this time of time.monotonic(); then the group is aborted."""
        self.begin_to_stop()
        self.thread.join(max(until - time.monotonic(), 0))
        if self.thread.is_alive():
            self.backend.abort()
            self.thread.join()  # an abort ends all that it may be in

    # ---------------------------------------------------------------- the thread

    def _serve(self):
        try:
            while self._round():
                pass
        except Exception as error:  # everybody who waits hears why, on this rank and, by the abort, on the others
            self.backend.abort()
            with self.changed:
                self.error = HorovodInternalError(str(error))
                self.error.__cause__ = error
                requests, self.open = list(self.open.values()), {}
            for request in requests:
                request.finish(self.error)

    def _round(self):
        with self.changed:
            self.changed.wait_for(lambda: self.open or self.stopping, timeout=IDLE_SECONDS)
            fresh, self.fresh = self.fresh, []
            stopping, joining = self.stopping and not self.open, self.joining is not None
        told = [self._tell(request) for request in fresh]
        heard = self._exchange(json.dumps([stopping, joining, told]).encode())
        moved = False
        for rank, (_, joins, requests) in enumerate(heard):
            if joins and rank not in self.joined:
                self.joined[rank] = True
                self.join_began = self.join_began or time.monotonic()
            for told in requests:
                moved = True
                description = self.descriptions[told] if isinstance(told, int) else told
                self._hear(rank, description)
        if moved and (timeline := self.timeline) is not None and timeline.marks_rounds:
            timeline.mark("rounds", "round")
        ready = [name for name, ranks in self.table.items() if len(ranks.keys() | self.joined.keys()) == self.size]
        self._carry_out([(name, self.table.pop(name)) for name in ready])
        if len(self.joined) == self.size:
            self._end_join()
        if all(stopping for stopping, _, _ in heard):
            return False
        if not moved:
            self._watch_for_stalls()
            time.sleep(CYCLE_SECONDS)
        return True

    def _hear(self, rank, description):
        name, kind = description[:2]
        self.since.setdefault(name, time.monotonic())
        if (timeline := self.timeline) is not None:
            timeline.wait(name, kind)
            timeline.mark(name, str(self.members[rank]))
        self.table.setdefault(name, {})[rank] = description

    def _end_join(self):
        last = self.members[list(self.joined)[-1]]
        self.joined.clear()
        self.join_began, self.join_warned = None, False
        self.unnamed = itertools.count()  # ranks may have had different numbers of them
        request, self.joining = self.joining, None
        request.value = last
        self._close(request.name).finish()

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
            if (timeline := self.timeline) is not None:
                timeline.end_wait(name)
            first = next(iter(ranks.values()))
            request, error = self._request_of(name, first, ranks)
            if error is not None:
                if request is not None:
                    self._close(name).finish(error)
                continue
            if all(description == first for description in ranks.values()):
                self._number(first)
            agreed.append((request, ranks))
        for kind, members in itertools.groupby(agreed, key=lambda entry: fusion_key(next(iter(entry[1].values())))):
            self._run(kind, list(members))

    def _request_of(self, name, description, ranks):
        """This rank's request of that name, or what stands in for it if the rank has joined; and the error if it cannot
        be carried out."""
        request = self.open.get(name)
        error = disagreement(name, {self.members[rank]: told for rank, told in ranks.items()})
        if error is not None or len(ranks) == self.size:
            return request, error
        if not goes_on_without(description):
            missing = ", ".join(str(self.members[rank]) for rank in self.joined if rank not in ranks)
            return request, ValueError(f"'{name}': rank {missing} has joined, and only sums and averages go on then")
        return request or stand_in(description, self.joining.settings["device"]), None

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
                self._finish(part, lambda: self.execution.sum(part))
        else:
            for request, ranks in members:
                self._finish([request], lambda: getattr(self.execution, request.kind)(request, ranks))

    def _finish(self, requests, operation):
        error, timeline = None, self.timeline
        if timeline is not None:
            for request in requests:
                timeline.begin(request.name, request.kind.upper())
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
            if timeline is not None:
                timeline.end(request.name)
            if request.name in self.open:  # what stands in for a request of a rank that has joined is not
                self._close(request.name)
            request.finish(error)

    def _watch_for_stalls(self):
        self._watch_for_joins()
        for name, since in self.since.items():
            if name in self.warned or time.monotonic() - since < STALL_SECONDS or self.rank != 0:
                continue
            self.warned.add(name)
            missing = ", ".join(str(self.members[rank]) for rank in range(self.size)
                                if rank not in self.table[name] and rank not in self.joined)
            print(f"tutti hvd: '{name}' waits for rank {missing} for {STALL_SECONDS:.0f} s", file=sys.stderr)

    def _watch_for_joins(self):
        late = self.join_began is not None and time.monotonic() - self.join_began > STALL_SECONDS and not self.table
        if not late or self.join_warned or self.rank != 0:
            return
        self.join_warned = True
        missing = ", ".join(str(self.members[rank]) for rank in range(self.size) if rank not in self.joined)
        print(f"tutti hvd: the ranks that have joined wait for rank {missing} for {STALL_SECONDS:.0f} s", file=sys.stderr)
