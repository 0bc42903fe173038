"""Runs a training function anew until it has come to its end."""
import functools

import torch.distributed as dist

from .. import worker, world
from ..request import HorovodInternalError


class HostsUpdatedInterrupt(RuntimeError):
    """Workers have come, who are taken in now. Raised on all ranks by the same commit."""


def run(function):
    """Makes of `function(state, ...)` one that outlives the other workers. It begins with state.sync(). After a failed call
    of hvd or torch.distributed the state is restored to the last commit. Then, as after HostsUpdatedInterrupt, the workers
    meet again, the state's reset callbacks run, and the function is called anew. Returns what the function returns. In a
    process that `python -m tutti_torch.hvd.elastic` has not started, errors are raised as ever."""
    @functools.wraps(function)
    def runs(state, *arguments, **named):
        met_again = False
        while True:
            try:
                if met_again:
                    state.on_reset()
                state.sync()
                return function(state, *arguments, **named)
            except HostsUpdatedInterrupt:
                pass
            except (HorovodInternalError, dist.DistBackendError) as error:
                if not worker.launched():
                    raise
                worker.this().tell_of(error)
                state.restore()
            except Exception:
                if worker.launched():
                    world.abort()  # so that the others need not wait for this worker's end
                raise
            world.shutdown()
            world.init()
            met_again = True
    return runs
