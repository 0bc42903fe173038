"""What float32 tensors travel as."""
import torch


class _Wire:
    """Tutti's wire types: rounded once to travel, added as float32, rounded once more, see tutti.h."""

    def __init__(self, dtype):
        self.dtype = dtype

    def wire_for(self, tensor):
        return self.dtype if tensor.dtype == torch.float32 else None


class Compression:
    none = _Wire(None)
    fp16 = _Wire(torch.float16)
    bf16 = _Wire(torch.bfloat16)
