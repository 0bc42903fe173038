"""Objects, parameters and optimizers, which travel as tensors."""
import io

import torch

from .operations import allgather, broadcast, broadcast_, broadcast_async_
from .world import global_process_set


def _bytes_of(value):
    buffer = io.BytesIO()
    torch.save(value, buffer)
    return torch.frombuffer(bytearray(buffer.getvalue()), dtype=torch.uint8)


def _value_of(data):
    return torch.load(io.BytesIO(bytes(data.numpy())), weights_only=False)


def broadcast_object(obj=None, root_rank=0, name=None, process_set=global_process_set):
    """Anything that can be pickled."""
    name = name or "object"
    is_root = process_set.ranks[process_set.rank()] == root_rank
    data = _bytes_of(obj) if is_root else torch.zeros(0, dtype=torch.uint8)
    length = broadcast(torch.tensor([data.numel()]), root_rank, f"{name}.length", process_set)
    if not is_root:
        data = torch.zeros(int(length), dtype=torch.uint8)
    return _value_of(broadcast_(data, root_rank, f"{name}.data", process_set))


def allgather_object(obj, name=None, process_set=global_process_set):
    """A list of all ranks' objects."""
    name = name or "objects"
    data = _bytes_of(obj)
    lengths = allgather(torch.tensor([data.numel()]), f"{name}.lengths", process_set).tolist()
    return [_value_of(piece) for piece in allgather(data, f"{name}.data", process_set).split(lengths)]


def broadcast_parameters(params, root_rank, process_set=global_process_set):
    """Of a state_dict(), named_parameters() or parameters(): every rank gets the root's, in place."""
    items = sorted(params.items()) if isinstance(params, dict) else list(params)
    items = [(str(i), item) if torch.is_tensor(item) else item for i, item in enumerate(items)]
    handles = [broadcast_async_(tensor.data, root_rank, f"parameter.{name}", process_set)
               for name, tensor in items if torch.is_tensor(tensor)]
    for handle in handles:
        handle.wait()


def broadcast_optimizer_state(optimizer, root_rank, process_set=global_process_set):
    """Every rank's optimizer goes on as the root's."""
    optimizer.load_state_dict(broadcast_object(optimizer.state_dict(), root_rank, "optimizer", process_set))
