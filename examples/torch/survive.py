"""Training that outlives its ranks: when some die, the others go on with their group, and newcomers take the empty places.
Nothing is started again. In the end the parameters must be those of a run without failures.

    python examples/torch/survive.py [--ranks 4] [--steps 200] [--kills 3] [--pause 0.01] [--backend tutti]

survive_job.py starts the processes, kills some of them, and says who the members are: torch's reconfigure() leaves that to
the program. A real job has a server for it, as torchft's lighthouse is.
"""
import argparse
import datetime
import sys
import time

import torch
import torch.distributed as dist
from torch import nn

import digits
import survive_job
import tutti_torch  # noqa: F401

BATCH = 32
NOTHING_YET = 10 ** 9  # the step of a newcomer that has no parameters yet


class Model:
    """In float64: how many ranks share a batch changes the order of its sums, and so the last bits only."""

    def __init__(self):
        torch.manual_seed(0)
        self.network = digits.Perceptron(hidden=32).double()
        training, self.test = digits.load()
        self.images, self.labels = training.tensors[0].double(), training.tensors[1]
        self.loss = 0.0

    def gradients(self, step, rank, ranks):
        """Of this rank's share of the batch, in one tensor, with the share of the loss at its end."""
        first = step * BATCH % (len(self.labels) - BATCH)
        images, labels = (tensor[first + rank:first + BATCH:ranks] for tensor in (self.images, self.labels))
        loss = nn.functional.cross_entropy(self.network(images), labels, reduction="sum") / BATCH
        parts = torch.autograd.grad(loss, list(self.network.parameters()))
        return torch.cat([part.flatten() for part in parts] + [loss.detach().view(1)])

    def update(self, gradients):
        self.parameters = self.parameters - 0.1 * gradients[:-1]
        self.loss = gradients[-1].item()

    @property
    def parameters(self):
        return nn.utils.parameters_to_vector(self.network.parameters()).detach()

    @parameters.setter
    def parameters(self, values):
        nn.utils.vector_to_parameters(values, self.network.parameters())


class Rank:
    def __init__(self, place, store, options, is_newcomer):
        self.job, self.options = survive_job.Member(place, store), options
        self.model = Model()
        self.first_loss = self.model.gradients(0, 0, 1)[-1].item()
        self.step = NOTHING_YET if is_newcomer else 0
        self.before = self.model.parameters  # at the step before
        self.round = 0  # of members
        self.members_then, self.time_then = 0, 0.0
        # Rank and size are for the group's handle alone: the first reconfigure() gives those that count.
        dist.init_process_group(options.backend, store=dist.PrefixStore("group", store), rank=place, world_size=place + 1,
                                enable_reconfigure=True, timeout=datetime.timedelta(seconds=20))

    def join(self, round):
        """True: this rank is among the members of a round, which is this one or a later one, and all have joined."""
        while True:
            self.round, handles = self.job.members(round)
            if handles is None:
                return False
            try:
                dist._reconfigure(self.round, handles, timeout=datetime.timedelta(seconds=5)).wait()
                self.agree()
                self.job.confirm(self.round)
                return True
            except RuntimeError as error:  # another one has died meanwhile
                self.job.complain(self.round, error)
                round = self.round + 1

    def agree(self):
        """All go on at one step with the same parameters. Some may have got the last sum and others an error instead; nobody
        is further ahead, since a sum needs all. So the lowest step counts, and who is ahead takes the last one back.
        Newcomers have the highest ranks: rank 0 has the parameters if anybody has."""
        step = torch.tensor(self.step)
        dist.all_reduce(step, op=dist.ReduceOp.MIN)
        step = step.item()
        values = self.model.parameters
        if step == NOTHING_YET:  # all who had any are dead: from the beginning; a real program reads a checkpoint
            step = 0
        elif self.step == step + 1:
            values = self.before
        values = values.clone()
        dist.broadcast(values, 0)
        self.model.parameters, self.step = values, step

    def train(self):
        """A step. Returns the round to go on with: rank 0 has seen that there is a new one."""
        gradients = self.model.gradients(self.step, dist.get_rank(), dist.get_world_size())
        time.sleep(self.options.pause)
        newest = torch.tensor([float(self.job.newest_round())]) if dist.get_rank() == 0 else torch.zeros(1)
        message = torch.cat([gradients, newest.double()])
        dist.all_reduce(message)
        self.note_sum()
        self.before = self.model.parameters
        self.model.update(message[:-1])
        self.step += 1
        if dist.get_rank() == 0:
            self.job.report(self.step)
        return int(message[-1].item())

    def note_sum(self):
        """Says how long a change has kept this rank from its next sum."""
        now, members = time.monotonic(), dist.get_world_size()
        if self.members_then not in (0, members) and dist.get_rank() == 0:
            print(f"step {self.step}: {self.members_then} ranks became {members} in {(now - self.time_then) * 1e3:.1f} ms",
                  flush=True)
        self.members_then, self.time_then = members, now

    def run(self):
        going = self.join(1)
        while going:
            try:
                while self.step < self.options.steps:
                    round = self.train()
                    if round > self.round and not self.join(round):
                        return 1
                dist.barrier()  # nobody leaves while another one may need this rank to go on
                return self.end()
            except RuntimeError as error:
                self.job.complain(self.round, error)
                going = self.join(self.round + 1)
        return 0 if self.job.is_over() else 1

    def end(self):
        self.job.finish()
        plain = Model()
        for step in range(self.options.steps):
            plain.update(plain.gradients(step, 0, 1))
        error = (plain.parameters - self.model.parameters).abs().max().item()
        if dist.get_rank() == 0:
            accuracy = digits.accuracy(self.model.network.float(), self.model.test)
            print(f"loss {self.first_loss:.4f} -> {self.model.loss:.4f}, accuracy {accuracy:.4f} with "
                  f"{dist.get_world_size()} ranks on {dist.get_backend()}, furthest parameter from a run without failures: "
                  f"{error:.1e}", flush=True)
        dist.destroy_process_group()
        return 0 if error < 1e-9 else 1


def run_rank(place, port, options, is_newcomer):
    torch.set_num_threads(1)
    store = dist.TCPStore("127.0.0.1", port, is_master=False)
    sys.exit(Rank(place, store, options, is_newcomer).run())


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--kills", type=int, default=3)
    parser.add_argument("--pause", type=float, default=0.01)
    parser.add_argument("--seed", type=int, default=0, help="of whom is killed when; 0: another one each time")
    parser.add_argument("--backend", default="tutti")
    options = parser.parse_args()
    if not hasattr(dist, "_reconfigure"):
        sys.exit("survive.py needs torch 2.14 or newer, whose groups can change their members")
    sys.exit(survive_job.run(options, run_rank))


if __name__ == "__main__":
    main()
