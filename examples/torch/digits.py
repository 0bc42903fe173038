"""What the examples share: scikit-learn's 1797 handwritten digits (8x8 pixels, shipped inside the package), two small
networks, and checks that all ranks have the same parameters."""
import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import TensorDataset


def load():
    """Training and test set, the same on every rank."""
    from sklearn.datasets import load_digits

    digits = load_digits()
    images = torch.tensor(digits.images, dtype=torch.float32).unsqueeze(1) / 16
    labels = torch.tensor(digits.target)
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(1))
    images, labels = images[order], labels[order]
    return TensorDataset(images[:1437], labels[:1437]), TensorDataset(images[1437:], labels[1437:])


class Perceptron(nn.Sequential):
    def __init__(self, hidden=128):
        super().__init__(nn.Flatten(), nn.Linear(64, hidden), nn.ReLU(), nn.Linear(hidden, 10))


class Convolutions(nn.Sequential):
    """With batch normalisation, for SyncBatchNorm."""

    def __init__(self):
        super().__init__(
            nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.Flatten(), nn.Linear(512, 10))


def accuracy(model, dataset, device="cpu"):
    """Share of right answers of one process on a whole dataset."""
    model.eval()
    images, labels = dataset.tensors
    with torch.no_grad():
        right = (model(images.to(device)).argmax(1).cpu() == labels).float().mean().item()
    model.train()
    return right


def assert_same_on_all_ranks(model, group=None):
    """Bit by bit: every rank's parameters are rank 0's."""
    for name, tensor in model.state_dict().items():
        theirs = tensor.detach().clone()
        dist.broadcast(theirs, 0, group=group)
        if not torch.equal(theirs, tensor):
            raise AssertionError(f"rank {dist.get_rank(group)}: {name} differs from rank 0's")
