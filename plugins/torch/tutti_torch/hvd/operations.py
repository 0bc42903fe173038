"""Operations on named tensors. The ...async ones return a handle for poll() and synchronize()."""
import io
import itertools

import torch

from .compression import Compression
from .engine import Request
from .world import engine

Average, Sum, Min, Max, Product = "AVG", "SUM", "MIN", "MAX", "PRODUCT"
_unnamed = itertools.count()


def _name(kind, name):
    return f"{kind}.{name}" if name is not None else f"{kind}.unnamed.{next(_unnamed)}"


def allreduce_async_(tensor, average=None, name=None, op=None, prescale_factor=1.0, postscale_factor=1.0,
                     compression=Compression.none, output=None):
    if average is not None and op is not None:
        raise ValueError("give op or average, not both")
    op = op or (Sum if average is False else Average)
    if op not in (Average, Sum, Min, Max, Product):
        raise ValueError(f"{op} is none of hvd.Average, Sum, Min, Max and Product")
    if tensor.layout != torch.strided:
        raise ValueError(f"a tensor of layout {tensor.layout}; hvd sums dense ones")
    if op == Average and not tensor.is_floating_point():
        raise ValueError(f"the average of {tensor.dtype} is not defined; use hvd.Sum")
    if (prescale_factor, postscale_factor) != (1.0, 1.0) and not (tensor.is_floating_point() or tensor.is_complex()):
        raise ValueError(f"{tensor.dtype} cannot be scaled")
    return engine().submit(Request(_name("allreduce", name), "allreduce", tensor, tensor if output is None else output,
                                   op=op, prescale=prescale_factor, postscale=postscale_factor,
                                   wire=compression.wire_for(tensor)))


def allreduce_async(tensor, average=None, name=None, op=None, prescale_factor=1.0, postscale_factor=1.0,
                    compression=Compression.none):
    return allreduce_async_(tensor, average, name, op, prescale_factor, postscale_factor, compression,
                            output=torch.empty_like(tensor))


def allreduce_(tensor, average=None, name=None, op=None, prescale_factor=1.0, postscale_factor=1.0,
               compression=Compression.none):
    return allreduce_async_(tensor, average, name, op, prescale_factor, postscale_factor, compression).wait()


def allreduce(tensor, average=None, name=None, compression=Compression.none, op=None, prescale_factor=1.0,
              postscale_factor=1.0):
    return allreduce_async(tensor, average, name, op, prescale_factor, postscale_factor, compression).wait()


def grouped_allreduce(tensors, average=None, name=None, compression=Compression.none, op=None):
    """Several at once; they are summed together where types allow."""
    handles = [allreduce_async(tensor, average, None if name is None else f"{name}.{i}", op, compression=compression)
               for i, tensor in enumerate(tensors)]
    return [handle.wait() for handle in handles]


def allgather_async(tensor, name=None):
    if tensor.dim() == 0:
        tensor = tensor.reshape(1)
    return engine().submit(Request(_name("allgather", name), "allgather", tensor, tensor))


def allgather(tensor, name=None):
    """All ranks' tensors, one after the other in the first dimension, which may differ from rank to rank."""
    return allgather_async(tensor, name).wait()


def broadcast_async_(tensor, root_rank, name=None):
    return engine().submit(Request(_name("broadcast", name), "broadcast", tensor, tensor, root=root_rank))


def broadcast_async(tensor, root_rank, name=None):
    return engine().submit(
        Request(_name("broadcast", name), "broadcast", tensor, torch.empty_like(tensor), root=root_rank))


def broadcast_(tensor, root_rank, name=None):
    return broadcast_async_(tensor, root_rank, name).wait()


def broadcast(tensor, root_rank, name=None):
    return broadcast_async(tensor, root_rank, name).wait()


def poll(handle):
    return handle.done.is_set()


def synchronize(handle):
    return handle.wait()


def barrier():
    allreduce(torch.zeros(1), op=Sum, name="barrier")


def broadcast_object(value=None, root_rank=0, name=None):
    name = name or "object"
    data = torch.zeros(0, dtype=torch.uint8)
    if engine().rank == root_rank:
        buffer = io.BytesIO()
        torch.save(value, buffer)
        data = torch.frombuffer(bytearray(buffer.getvalue()), dtype=torch.uint8)
    length = broadcast(torch.tensor([data.numel()]), root_rank, f"{name}.length")
    if engine().rank != root_rank:
        data = torch.zeros(int(length), dtype=torch.uint8)
    broadcast_(data, root_rank, f"{name}.data")
    return torch.load(io.BytesIO(bytes(data.numpy())), weights_only=False)


def allgather_object(value, name=None):
    name = name or "objects"
    buffer = io.BytesIO()
    torch.save(value, buffer)
    data = torch.frombuffer(bytearray(buffer.getvalue()), dtype=torch.uint8)
    lengths = allgather(torch.tensor([data.numel()]), f"{name}.lengths").tolist()
    pieces = allgather(data, f"{name}.data").split(lengths)
    return [torch.load(io.BytesIO(bytes(piece.numpy())), weights_only=False) for piece in pieces]


def broadcast_parameters(params, root_rank):
    """Of a state_dict() or named_parameters(): every rank gets the root's, in place."""
    items = sorted(params.items()) if isinstance(params, dict) else list(params)
    handles = [broadcast_async_(tensor.data, root_rank, f"parameter.{name}")
               for name, tensor in items if torch.is_tensor(tensor)]
    for handle in handles:
        handle.wait()


def broadcast_optimizer_state(optimizer, root_rank):
    """Every rank's optimizer goes on as the root's."""
    optimizer.load_state_dict(broadcast_object(optimizer.state_dict(), root_rank, "optimizer"))
