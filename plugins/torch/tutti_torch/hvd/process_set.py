"""A part of the ranks, whose tensors have names of their own."""
import torch.distributed as dist


class ProcessSet:
    """`ranks` are those of the world that belong to it. It can be used after add_process_set() or init() has got it on
    all ranks. `process_set_id` counts the sets from 1; the set of all ranks has 0."""

    def __init__(self, ranks):
        self.ranks = sorted(ranks)
        if len(set(self.ranks)) != len(self.ranks) or not self.ranks or self.ranks[0] < 0:
            raise ValueError(f"a process set of the ranks {self.ranks}")
        self.process_set_id = None
        self.engine, self.group = None, None

    def __repr__(self):
        return f"ProcessSet({self.ranks}, id {self.process_set_id})"

    def included(self):
        """Whether this rank belongs to it."""
        self._check_open()
        return dist.get_rank() in self.ranks

    def rank(self):
        """This rank's place in it."""
        self._check_open()
        if not self.included():
            raise ValueError(f"rank {dist.get_rank()} is not in {self}")
        return self.ranks.index(dist.get_rank())

    def size(self):
        self._check_open()
        return len(self.ranks)

    def _check_open(self):
        if self.process_set_id is None:
            raise ValueError(f"{self} was not added")
