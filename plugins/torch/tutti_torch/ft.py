"""torchft on tutti: ProcessGroupTutti in the place of torchft's ProcessGroupGloo.

    manager = torchft.Manager(pg=tutti_torch.ft.ProcessGroupTutti(timeout=timedelta(seconds=5)), ...)

torchft makes a group anew for each quorum. A dead replica group is an error of the works under way on all the others, at
once, so that no process of its own is needed to be able to end them.
"""
import torch
import torch.distributed as dist
from torchft.process_group import ProcessGroupWrapper

from . import Options, ProcessGroupTutti as Backend, cuda
from .groups import wait_for_goodbyes_at_exit


class ProcessGroupTutti(ProcessGroupWrapper):
    """`options`: of the groups that are made; their timeout is this one's."""

    def __init__(self, *arguments, options=None, **named):
        super().__init__(*arguments, **named)
        self._options = options or Options()

    def _create_pg(self, store, rank, world_size):
        wait_for_goodbyes_at_exit()
        self._options._timeout = self._timeout
        self._options.label = "torchft"
        backend = Backend(store, rank, world_size, self._options)  # takes a copy of the options
        kind = dist.ProcessGroup.BackendType.CUSTOM
        group = dist.ProcessGroup(store, rank, world_size)
        group._set_default_backend(kind)
        for device in ["cpu", "cuda"] if cuda and torch.cuda.is_available() else ["cpu"]:
            group._register_backend(torch.device(device), kind, backend)
        return group

    def getBackendName(self):
        return "torchft-tutti"

    def shutdown(self):
        if self._pg is not None:
            self._pg.shutdown()
        super().shutdown()
