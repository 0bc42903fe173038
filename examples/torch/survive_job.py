"""The job of survive.py: starts its processes, kills some, starts newcomers, and says in rounds who the members are. All of
it goes through a Store in the process that starts the others."""
import datetime
import json
import multiprocessing
import os
import random
import signal
import sys
import time

import torch.distributed as dist

SECONDS_WITHOUT_PROGRESS = 120
SECONDS_UNTIL_A_DEATH_IS_SEEN = 0.2


class Member:
    """What a rank asks the job and tells it."""

    def __init__(self, place, store):
        self.place, self.store = place, store

    def members(self, round):
        """(round, handles in the order of ranks) of the newest round from `round` on that has this process among its members;
        handles are None when the training has ended without it."""
        mine = dist._get_reconfigure_handle()
        self.store.set(f"handle/{self.place}", mine)
        end = time.monotonic() + SECONDS_WITHOUT_PROGRESS
        while not self.is_over() and time.monotonic() < end:
            newest = self.newest_round()
            if newest >= round:
                handles = json.loads(self.store.get(f"members/{newest}"))
                if mine in handles:
                    return newest, handles
            time.sleep(0.001)
        return round, None

    def newest_round(self):
        return int(self.store.get("round")) if self.store.check(["round"]) else 0

    def complain(self, round, error):
        """The members of this round could not go on: there has to be another one, if only with the same members."""
        print(f"process {self.place}: {str(error).splitlines()[0]}", file=sys.stderr, flush=True)
        self.store.set(f"failed/{round}", "")

    def confirm(self, round):
        """This member has joined the others of a round."""
        self.store.set(f"joined/{round}", "")

    def report(self, step):
        self.store.set("step", str(step))

    def finish(self):
        self.store.set("over", "")

    def is_over(self):
        return self.store.check(["over"])


class Job:
    def __init__(self, options, run_rank):
        self.options, self.run_rank = options, run_rank
        # At a failure torch's flight recorder writes down what was under way, while the ranks wait for it, for seconds at times.
        os.environ.setdefault("TORCH_FR_DUMP_ON_TIMEOUT", "0")
        self.context = multiprocessing.get_context("forkserver")  # newcomers need not load torch again
        self.context.set_forkserver_preload(["torch", "torch.distributed", "tutti_torch", "digits", "sklearn.datasets"])
        self.store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False,
                                   timeout=datetime.timedelta(seconds=SECONDS_WITHOUT_PROGRESS))
        self.chance = random.Random(options.seed or None)
        self.processes = {}  # by place, which is never used again
        self.members = []    # places, in the order of ranks
        self.round = self.killed = self.lost = self.joined = 0
        self.failed = False
        self.complaint = None  # when it came

    def start(self, is_newcomer):
        place = len(self.processes)
        self.processes[place] = self.context.Process(
            target=self.run_rank, args=(place, self.store.port, self.options, is_newcomer))
        self.processes[place].start()

    def handle(self, place):
        return self.store.get(f"handle/{place}").decode()

    def announce(self):
        self.round += 1
        self.complaint = None
        self.store.set(f"members/{self.round}", json.dumps([self.handle(place) for place in self.members]))
        self.store.set("round", str(self.round))

    def step(self):
        return int(self.store.get("step")) if self.store.check(["step"]) else 0

    def over(self):
        return self.store.check(["over"])

    def look_after(self):
        """Announces a round if members have died, have come, or cannot go on."""
        dead = [place for place in self.members if self.processes[place].exitcode is not None]
        for place in dead:
            self.members.remove(place)
            self.lost += 1
            self.failed |= self.processes[place].exitcode != -signal.SIGKILL
            self.start(is_newcomer=True)
        waiting = []
        if self.store.check([f"joined/{self.round}"]):  # newcomers do not disturb a round that has yet to come together
            waiting = [place for place, process in self.processes.items() if place not in self.members
                       and process.exitcode is None and self.store.check([f"handle/{place}"])]
        if not dead and not waiting and not self.has_failed():
            return
        self.members += waiting
        self.joined += len(waiting)
        self.announce()

    def has_failed(self):
        """The round of now, and it is not about a death: that would be seen soon."""
        if not self.store.check([f"failed/{self.round}"]):
            return False
        self.complaint = self.complaint or time.monotonic()
        return time.monotonic() - self.complaint > SECONDS_UNTIL_A_DEATH_IS_SEEN

    def kill(self):
        """One of the members, at about even distances."""
        options = self.options
        if self.killed == options.kills or len(self.members) < 2:
            return
        if self.step() * (options.kills + 2) < (self.killed + 1) * options.steps:
            return
        self.killed += 1
        self.processes[self.chance.choice(self.members)].kill()

    def run(self):
        for _ in range(self.options.ranks):
            self.start(is_newcomer=False)
        self.members = list(range(self.options.ranks))
        self.announce()
        last, moved = 0, time.monotonic()
        while not self.over():
            if self.step() != last:
                last, moved = self.step(), time.monotonic()
            if self.failed or time.monotonic() - moved > SECONDS_WITHOUT_PROGRESS:
                return self.give_up(last)
            self.kill()
            self.look_after()
            time.sleep(0.001)
        for process in self.processes.values():
            process.join(SECONDS_WITHOUT_PROGRESS)
        right = all(process.exitcode in (0, -signal.SIGKILL) for process in self.processes.values())
        print(f"survive: {len(self.members)} ranks, {self.options.steps} steps, {self.lost} lost, {self.joined} joined; "
              f"{'right' if right else 'WRONG'}", flush=True)
        return 0 if right else 1

    def give_up(self, step):
        print(f"survive: no way on from step {step}, so all are killed", flush=True)
        for process in self.processes.values():
            process.kill()
        return 1


def run(options, run_rank):
    return Job(options, run_rank).run()
