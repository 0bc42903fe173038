"""tutti_torch.SyncBatchNorm: a batch that is spread over the ranks is normalised like the whole batch in one process."""
import os
import sys
import unittest

import torch
import torch.distributed as dist

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import ranks  # noqa: E402


def shares(whole, n, sizes=None):
    return whole.split(sizes or [whole.size(0) // n] * n)


def compare(rank, n, shape, sizes=None, dtype=torch.float64, steps=2, **options):
    """Outputs, all gradients and running statistics of some steps, beside torch.nn.BatchNorm on the whole batch."""
    import tutti_torch

    torch.manual_seed(11)
    plain = {2: torch.nn.BatchNorm1d, 4: torch.nn.BatchNorm2d, 5: torch.nn.BatchNorm3d}[len(shape)](
        shape[1], dtype=dtype, **options)
    if plain.affine:
        with torch.no_grad():
            plain.weight.uniform_(0.5, 2)
            plain.bias.uniform_(-1, 1)
    synced = tutti_torch.SyncBatchNorm(shape[1], dtype=dtype, **options)
    synced.load_state_dict(plain.state_dict())
    near = dict(rtol=1e-9, atol=1e-10) if dtype == torch.float64 else dict(rtol=1e-4, atol=1e-5)
    for step in range(steps):
        whole = (torch.randn(shape, dtype=dtype) * 3 + 100).requires_grad_()
        factors = torch.randn(shape, dtype=dtype)
        part = shares(whole.detach(), n, sizes)[rank].clone().requires_grad_()
        (plain(whole) * factors).sum().backward()
        output = synced(part)
        (output * shares(factors, n, sizes)[rank]).sum().backward()
        want = torch.nn.functional.batch_norm(whole, None, None, plain.weight, plain.bias, True, 0.0, plain.eps)
        torch.testing.assert_close(output, shares(want, n, sizes)[rank], **near)
        torch.testing.assert_close(part.grad, shares(whole.grad, n, sizes)[rank], **near)
        if plain.affine:
            for have, expected in ((synced.weight.grad, plain.weight.grad), (synced.bias.grad, plain.bias.grad)):
                have = have.clone()
                dist.all_reduce(have)
                torch.testing.assert_close(have, expected, **near)
        plain.zero_grad()
        synced.zero_grad()
    for (name, have), expected in zip(synced.state_dict().items(), plain.state_dict().values()):
        torch.testing.assert_close(have, expected, msg=lambda text: f"{name}: {text}", **near)
    plain.eval()
    synced.eval()
    if plain.track_running_stats:
        torch.testing.assert_close(synced(whole), plain(whole), **near)


def as_the_whole_batch(rank, n):
    compare(rank, n, (4 * n, 5))
    compare(rank, n, (2 * n, 3, 4, 5))
    compare(rank, n, (n, 3, 2, 3, 4))
    compare(rank, n, (4 * n, 3, 4, 5), dtype=torch.float32)
    compare(rank, n, (4 * n, 5), affine=False)
    compare(rank, n, (4 * n, 5), momentum=None, steps=4)
    compare(rank, n, (4 * n, 5), track_running_stats=False)
    uneven = [0] + [2 * r + 1 for r in range(1, n)]  # the first rank has nothing
    compare(rank, n, (sum(uneven), 5), sizes=uneven)


def half_types(rank, n):
    import tutti_torch

    torch.manual_seed(5)
    whole = torch.randn(8 * n, 4) * 2 + 3
    mine = shares(whole, n)[rank].to(torch.bfloat16).requires_grad_()
    layer = tutti_torch.SyncBatchNorm(4)
    output = layer(mine)
    assert output.dtype == torch.bfloat16
    want = shares(torch.nn.functional.batch_norm(whole.to(torch.bfloat16).float(), None, None, training=True), n)[rank]
    torch.testing.assert_close(output.float(), want, rtol=2e-2, atol=2e-2)
    factors = torch.randn(whole.shape).to(torch.bfloat16)
    (output * shares(factors, n)[rank]).sum().backward()
    assert mine.grad.dtype == torch.bfloat16
    plain = whole.to(torch.bfloat16).float().requires_grad_()
    (torch.nn.functional.batch_norm(plain, None, None, training=True) * factors.float()).sum().backward()
    torch.testing.assert_close(mine.grad.float(), shares(plain.grad, n)[rank], rtol=2e-2, atol=2e-2)


def converted(rank, n):
    import tutti_torch

    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4, eps=0.25), torch.nn.Sequential(
        torch.nn.BatchNorm1d(4, momentum=None, affine=False)))
    names = list(model.state_dict())
    parameters = list(model.parameters())
    made = tutti_torch.SyncBatchNorm.convert_sync_batchnorm(model)
    assert [type(made[1]), type(made[2][0])] == [tutti_torch.SyncBatchNorm] * 2
    assert made[1].eps == 0.25 and made[2][0].momentum is None and not made[2][0].affine
    assert list(made.state_dict()) == names
    assert all(one is other for one, other in zip(made.parameters(), parameters))


def wrong_inputs(rank, n):
    import tutti_torch

    layer = tutti_torch.SyncBatchNorm(4)
    sizes = [1] + [0] * (n - 1)
    for batch, sentence in ((torch.zeros(sizes[rank], 4), "Expected more than 1 value per channel"),
                            (torch.zeros(4), "expected at least 2D input")):
        try:
            layer(batch)
        except ValueError as error:
            assert sentence in str(error), error
        else:
            raise AssertionError(f"a batch of shape {tuple(batch.shape)} was normalised")


def in_a_group(rank, n):
    """Only the members of the layer's group count."""
    import tutti_torch

    pairs = [dist.new_group([r, r + 1]) for r in range(0, n, 2)]
    layer = tutti_torch.SyncBatchNorm(1, process_group=pairs[rank // 2], affine=False)
    layer(torch.full((2, 1), float(rank)))
    assert abs(layer.running_mean.item() - 0.1 * (rank // 2 * 2 + 0.5)) < 1e-6, layer.running_mean


class SyncBatchNorm(unittest.TestCase):
    def test_as_the_whole_batch(self):
        for n in (2, 4):
            ranks.run(as_the_whole_batch, n)

    def test_on_gloo_too(self):
        ranks.run(as_the_whole_batch, 2, backend="gloo")

    def test_half_types(self):
        ranks.run(half_types, 2)

    def test_converted(self):
        ranks.run(converted, 1)

    def test_wrong_inputs(self):
        ranks.run(wrong_inputs, 3)

    def test_in_a_group(self):
        ranks.run(in_a_group, 4)


if __name__ == "__main__":
    unittest.main()
