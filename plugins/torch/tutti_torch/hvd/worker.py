"""A process of an elastic job, which hears by the Store of its launcher who takes part."""
import datetime
import functools
import os
import sys

import torch.distributed as dist

# All ranks are there when they begin to join. The time that they have doubles after each join that failed.
FIRST_JOIN_TIMEOUT = datetime.timedelta(seconds=5)


def launched():
    """Whether `python -m tutti_torch.hvd.elastic` has started this process."""
    return "HVD_ELASTIC_STORE" in os.environ


@functools.cache
def this():
    return Worker()


class Worker:
    """Members come together in rounds; the job counts them from 1, and announces one when all who live wait for it. The place
    of a worker is a number that no other process of the job ever has."""

    def __init__(self):
        host, port = os.environ["HVD_ELASTIC_STORE"].rsplit(":", 1)
        self.place = int(os.environ["HVD_ELASTIC_PLACE"])
        self.timeout = datetime.timedelta(seconds=float(os.environ["HVD_ELASTIC_TIMEOUT"]))
        self.store = dist.TCPStore(host, int(port), is_master=False, timeout=datetime.timedelta(hours=1))
        self.round, self.join_timeout = 0, FIRST_JOIN_TIMEOUT

    def make_world(self):
        """Waits for the next round with this worker, and makes torch's world of its members. Raises RuntimeError if one
        of them has died meanwhile."""
        self.store.set(f"waits/{self.place}/{self.round}", "")
        members = []
        while self.place not in members:
            self.round += 1
            members = [int(place) for place in self._get(f"members/{self.round}").split()]
        dist.init_process_group("tutti", store=dist.PrefixStore(f"world/{self.round}", self.store), timeout=self.join_timeout,
                                rank=members.index(self.place), world_size=len(members))

    def _get(self, key):
        """Waits for it as long as the launcher lives, which ends this process if it is not needed any more."""
        while True:
            try:
                return self.store.get(key).decode()
            except dist.DistStoreError:  # its timeout
                pass

    def tell_of(self, error):
        """Says why this worker meets the others again."""
        print(f"tutti hvd: worker {self.place}: {str(error).splitlines()[0]}", file=sys.stderr, flush=True)

    def has_newcomers(self):
        return self.store.check([f"newcomers/{self.round}"])
