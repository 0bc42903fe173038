#!/usr/bin/env python3
"""torchrun_like.py RANKS PROGRAM...: the variables of torchrun, and, like its agent, somebody who owns MASTER_PORT."""
import os
import random
import socket
import subprocess
import sys


def two_ports():
    """A port that is taken from now on, and the next one free. The system gives neither to whoever asks for any: other
    tests run at the same time."""
    while True:
        taken, probe = socket.socket(), socket.socket()
        try:
            taken.bind(("127.0.0.1", random.randrange(10000, 20000)))
            taken.listen()
            probe.bind(("127.0.0.1", taken.getsockname()[1] + 1))
            return taken
        except OSError:
            taken.close()
        finally:
            probe.close()


def main():
    ranks, command, agent = int(sys.argv[1]), sys.argv[2:], two_ports()
    launch = {"WORLD_SIZE": ranks, "LOCAL_WORLD_SIZE": ranks, "GROUP_RANK": 0, "GROUP_WORLD_SIZE": 1, "ROLE_NAME": "default",
              "ROLE_WORLD_SIZE": ranks, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": agent.getsockname()[1],
              "TORCHELASTIC_RUN_ID": "none", "TORCHELASTIC_RESTART_COUNT": 1, "TORCHELASTIC_MAX_RESTARTS": 3,
              "TORCHELASTIC_USE_AGENT_STORE": "True"}
    processes = []
    for rank in range(ranks):
        own = {"RANK": rank, "LOCAL_RANK": rank, "ROLE_RANK": rank}
        environment = {name: str(value) for name, value in {**launch, **own}.items()}
        processes.append(subprocess.Popen(command, env={**os.environ, **environment}))
    return max(abs(process.wait()) for process in processes)


if __name__ == "__main__":
    sys.exit(main())
