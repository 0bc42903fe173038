"""Which samples of an epoch are left, and which of them are this rank's."""
import math
import random

import torch.utils.data

from .. import world


class ElasticSampler(torch.utils.data.Sampler):
    """Shares what is left of an epoch among the ranks of now. Give it to TorchState, call record_batch() after each batch,
    and set_epoch() at the end of an epoch. All ranks get as many samples: if there are too few, some are taken twice."""

    def __init__(self, dataset, shuffle=True, seed=0):
        self.dataset, self.shuffle, self.seed = dataset, shuffle, seed
        self.epoch, self.processed_indices = 0, set()
        self.reset()

    def set_epoch(self, epoch):
        """Begins an epoch, with all samples."""
        self.epoch, self.processed_indices = epoch, set()
        self.reset()

    def record_batch(self, batch_idx, batch_size):
        """This rank has done the batch of that number since the last reset(), with so many samples in all but the last."""
        self.record_indices(self.get_indices(batch_idx, batch_size))

    def record_indices(self, indices):
        self.processed_indices.update(indices)

    def get_indices(self, batch_idx, batch_size):
        return self.indices[batch_idx * batch_size:(batch_idx + 1) * batch_size]

    def state_dict(self):
        return {"epoch": self.epoch, "processed_indices": set(self.processed_indices)}

    def load_state_dict(self, state_dict):
        self.epoch, self.processed_indices = state_dict["epoch"], set(state_dict["processed_indices"])
        self.reset()

    def reset(self):
        """Shares the rest of the epoch anew."""
        left = [index for index in range(len(self.dataset)) if index not in self.processed_indices]
        if self.shuffle:
            random.Random(self.seed + self.epoch).shuffle(left)
        size = world.size()
        whole = math.ceil(len(left) / size) * size
        repeated = (left * size)[:whole]
        self.indices = repeated[world.rank()::size]

    def __iter__(self):
        return iter(self.indices)

    def __len__(self):
        return len(self.indices)
