"""Carries out what all ranks of a group have submitted and agree on. `ranks` is always each rank's description."""
import torch
import torch.distributed as dist

FUSION_BYTES = 64 << 20
_SHAPE, _OWN = 3, 6  # places in a description


class Execution:
    def __init__(self, group):
        self.group = group
        self.rank, self.size = dist.get_rank(group), dist.get_world_size(group)
        backend = group._get_backend(torch.device("cpu"))
        self.backend = getattr(backend, "wrapped_pg", backend)  # TORCH_DISTRIBUTED_DEBUG=DETAIL puts it into another

    def sum(self, requests):
        """Of requests with one fusion_key()."""
        settings = requests[0].settings
        flat = torch.cat([request.tensor.reshape(-1) for request in requests])
        scale(flat, settings["prescale"])
        operation = getattr(dist.ReduceOp, settings["op"])
        if settings["wire"] is None:
            dist.all_reduce(flat, op=operation, group=self.group)
        else:
            self.backend.allreduce_wire(flat, operation, settings["wire"])
        scale(flat, settings["postscale"])
        pieces = flat.split([request.tensor.numel() for request in requests])
        for request, piece in zip(requests, pieces):
            put(piece.view(request.output.shape), request.output)

    def broadcast(self, request, _):
        root = request.settings["root"]
        if dist.get_rank() == root and request.output is not request.tensor:
            put(request.tensor, request.output)
        with torch.inference_mode(request.output.is_inference()):
            dist.broadcast(request.output, root, group=self.group)

    def allgather(self, request, ranks):
        rows = [ranks[rank][_SHAPE][0] for rank in range(self.size)]
        request.output = request.value = self._gather_rows(request.tensor, rows)

    def _gather_rows(self, tensor, rows):
        pieces = [tensor.new_empty([count, *tensor.shape[1:]]) for count in rows]
        dist.all_gather(pieces, tensor.contiguous(), group=self.group)
        return torch.cat(pieces)

    def sparse_allreduce(self, request, ranks):
        """Everybody gets all indices and values, and adds the values of equal indices."""
        tensor = request.tensor
        entries = [ranks[rank][_OWN] for rank in range(self.size)]
        indices = self._gather_rows(tensor.indices().t(), entries).t()
        values = self._gather_rows(tensor.values(), entries)
        if request.settings["op"] == "AVG":
            values /= self.size
        request.output = request.value = torch.sparse_coo_tensor(indices, values, tensor.shape).coalesce()

    def alltoall(self, request, ranks):
        received = [ranks[rank][_OWN]["splits"][self.rank] for rank in range(self.size)]
        request.output = request.tensor.new_empty([sum(received), *request.tensor.shape[1:]])
        dist.all_to_all_single(request.output, request.tensor.contiguous(), received, request.own["splits"],
                               group=self.group)
        request.value = (request.output, torch.tensor(received, dtype=torch.int32))

    def reducescatter(self, request, _):
        """If the rows cannot be divided evenly, the first ranks get one more; the blocks of the others are padded."""
        settings, tensor = request.settings, request.tensor
        rows = rows_of(tensor.shape[0], self.size)
        padded = tensor.new_zeros([self.size, rows[0], *tensor.shape[1:]])
        for block, piece in zip(padded, tensor.split(rows)):
            block[:piece.shape[0]] = piece
        scale(padded, settings["prescale"])
        wire = settings["wire"]
        padded = padded if wire is None else padded.to(wire)
        block = padded.new_empty(padded.shape[1:])
        dist.reduce_scatter_tensor(block.view(-1), padded.view(-1), op=getattr(dist.ReduceOp, settings["op"]),
                                   group=self.group)
        block = scale(block.to(tensor.dtype), settings["postscale"])
        request.output = request.value = block[:rows[self.rank]].clone()


def rows_of(rows, ranks):
    """How many of the rows each rank gets."""
    return [rows // ranks + (1 if rank < rows % ranks else 0) for rank in range(ranks)]


def put(source, target):
    with torch.inference_mode(target.is_inference()):  # torch writes into such a tensor nowhere else
        target.copy_(source)


def scale(tensor, factor):
    if factor != 1.0:
        tensor *= factor
    return tensor


def fusion_key(description):
    """Requests of one key, next to each other, are summed together. The key is equal on all ranks."""
    name, kind, dtype, _, device, settings, _ = description
    return (kind, name) if kind != "allreduce" else (kind, dtype, device, *sorted(settings.items()))


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
