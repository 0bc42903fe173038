"""Training that goes on when workers die or come, in the manner of Horovod's elastic.

    @hvd.elastic.run
    def train(state):
        for state.batch in range(state.batch, batches):
            ...
            state.commit()

    train(hvd.elastic.TorchState(model=model, optimizer=optimizer, batch=0))

    python -m tutti_torch.hvd.elastic -np 4 --min-np 2 train.py

A failed call raises HorovodInternalError on all workers that are left: they take their state back to the last commit, meet again without the
dead, and go on from what rank 0 has. Who comes later is taken in at the next commit. See docs/torch.md.
"""
from ..request import HorovodInternalError
from .run import HostsUpdatedInterrupt, run
from .sampler import ElasticSampler
from .state import ObjectState, State, TorchState

__all__ = ["ElasticSampler", "HorovodInternalError", "HostsUpdatedInterrupt", "ObjectState", "State", "TorchState", "run"]
