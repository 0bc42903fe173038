"""ray.util.collective between two actors, whose backend GLOO makes a group of torch.distributed."""
import sys

from program import Program, main

if __name__ == "__main__" and sys.argv[1:] != ["rank"]:
    main(Program("ray_collective", "ray", "ray.util.collective, 2 actors, 1 MiB", ["{python}", __file__, "rank"],
                 environment={"RAY_USAGE_STATS_ENABLED": "0", "RAY_AUTH_MODE": "disabled"}))
    sys.exit()

import ray
from ray.util import collective


@ray.remote(num_cpus=1)
class Member:
    def work(self):
        import time

        import torch
        collective.barrier("pair")  # this process joins with its first call
        rank = collective.get_rank("pair")
        values = torch.full((1 << 18,), rank + 1.0)
        collective.allreduce(values, "pair")
        summed = values.unique().tolist()
        parts = [torch.zeros(4) for _ in range(2)]
        collective.allgather(parts, torch.full((4,), float(rank)), "pair")
        told = torch.full((4,), float(rank))
        collective.broadcast(told, 1, "pair")
        message = torch.full((4,), 7.0 + rank)
        collective.send(message, 1, "pair") if rank == 0 else collective.recv(message, 0, "pair")
        collective.barrier("pair")
        begin = time.perf_counter()
        for _ in range(200):
            collective.allreduce(values.fill_(1), "pair")
        seconds = time.perf_counter() - begin
        return [summed, [part.tolist() for part in parts], told.tolist(), message.tolist()], seconds


ray.init(num_cpus=2, log_to_driver=False)
members = [Member.remote() for _ in range(2)]
collective.create_collective_group(members, 2, [0, 1], backend="gloo", group_name="pair")
outcomes = ray.get([member.work.remote() for member in members], timeout=120)
print("RESULT", *(outcome for outcome, _ in outcomes))
print("SECONDS", max(seconds for _, seconds in outcomes))
