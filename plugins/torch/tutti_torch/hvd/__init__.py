"""Training in Horovod's manner on Tutti: `import tutti_torch.hvd as hvd` in the place of `import horovod.torch as hvd`.

    hvd.init()
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)

Tensors have names. Ranks may submit them in any order; a thread of each rank finds out which ones all ranks have
submitted, checks that they agree on type, shape and operation, and sums small ones together. See docs/torch.md.
"""
from .operations import (Average, Max, Min, Product, Sum, allgather, allgather_async, allgather_object, allreduce,
                         allreduce_, allreduce_async, allreduce_async_, barrier, broadcast, broadcast_, broadcast_async,
                         broadcast_async_, broadcast_object, broadcast_optimizer_state, broadcast_parameters,
                         grouped_allreduce, poll, synchronize)
from .compression import Compression
from .optimizer import DistributedOptimizer
from .world import (cross_rank, cross_size, init, is_initialized, local_rank, local_size, rank, shutdown, size)
from .engine import DuplicateName, Disagreement

__all__ = [name for name in dir() if not name.startswith("_")]
