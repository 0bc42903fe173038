"""Data parallelism as Apex does it: gradients of one type are flattened into buckets in the order in which they come, a
full bucket's sum is begun during the backward pass; or all of it waits for the end of the pass (--delay). Gradients of 16
bits may be added as float32 (--fp32).

    torchrun --nproc-per-node 2 examples/torch/flat_buckets.py --fp32
"""
import argparse

import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader, DistributedSampler

import digits
import tutti_torch  # noqa: F401


class FlatBuckets:
    def __init__(self, model, bucket_elements=1200, delay=False, in_float32=False):
        self.model, self.bucket_elements = model, bucket_elements
        self.delay, self.in_float32 = delay, in_float32
        self.ready, self.under_way, self.begun = {}, [], 0
        for parameter in model.parameters():
            dist.broadcast(parameter.data, 0)
            parameter.register_post_accumulate_grad_hook(self._came)

    def _came(self, parameter):
        bucket = self.ready.setdefault(parameter.dtype, [])
        bucket.append(parameter)
        if not self.delay and sum(p.numel() for p in bucket) >= self.bucket_elements:
            self._begin(parameter.dtype)

    def _begin(self, dtype):
        parameters = self.ready.pop(dtype)
        flat = torch.cat([p.grad.reshape(-1) for p in parameters])
        if self.in_float32:
            flat = flat.float()
        flat /= dist.get_world_size()
        self.begun += 1
        self.under_way.append((dist.all_reduce(flat, async_op=True), flat, parameters))

    def finish(self):
        """After backward: what is left begins, all of it ends, gradients are in their places."""
        for dtype in list(self.ready):
            self._begin(dtype)
        for work, flat, parameters in self.under_way:
            work.wait()
            for parameter, piece in zip(parameters, flat.split([p.numel() for p in parameters])):
                parameter.grad.copy_(piece.view_as(parameter))
        self.under_way.clear()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--backend", default="tutti")
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--delay", action="store_true")
    parser.add_argument("--fp32", action="store_true")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group(arguments.backend)
    torch.manual_seed(dist.get_rank())  # the broadcast makes the ranks equal
    training, test = digits.load()
    sampler = DistributedSampler(training, seed=3)
    loader = DataLoader(training, batch_size=32, sampler=sampler)
    model = digits.Perceptron().to(torch.bfloat16 if arguments.fp32 else torch.float32)
    buckets = FlatBuckets(model, delay=arguments.delay, in_float32=arguments.fp32)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    losses = []
    for epoch in range(arguments.epochs):
        sampler.set_epoch(epoch)
        for images, labels in loader:
            optimizer.zero_grad(set_to_none=True)
            loss = nn.functional.cross_entropy(model(images.to(next(model.parameters()).dtype)).float(), labels)
            loss.backward()
            buckets.finish()
            optimizer.step()
        mean = loss.detach()
        dist.all_reduce(mean)
        losses.append(mean.item() / dist.get_world_size())
    digits.assert_same_on_all_ranks(model)
    right = digits.accuracy(model.float(), test)
    if dist.get_rank() == 0:
        print(f"loss {losses[0]:.4f} -> {losses[-1]:.4f}, accuracy {right:.4f} with {dist.get_world_size()} ranks "
              f"on {dist.get_backend()}, {buckets.begun} buckets", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
