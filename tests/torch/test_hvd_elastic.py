"""tutti_torch.hvd.elastic: workers die, stop, come, and the training ends as one without failures."""
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

import torch

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import elastic_program  # noqa: E402
import ranks  # noqa: E402
from test_hvd import start  # noqa: E402

PROGRAM = os.path.abspath(elastic_program.__file__)


class Launched:
    """A launcher with the program, whose workers write into the folder."""

    def __init__(self, folder, *words, steps=40, size=1, plans=()):
        self.folder = folder
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tutti_torch.hvd.elastic", *map(str, words), PROGRAM, folder, str(steps), str(size), *plans],
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1", "TUTTI_LOG": "warn"})

    def address(self):
        """Where others join."""
        while (line := self.process.stderr.readline()):
            if found := re.search(r"--join \S+:(\d+)", line):
                return f"127.0.0.1:{found[1]}"
        raise AssertionError("the launcher ended")

    def end(self):
        """(exit status, what it said)"""
        _, told = self.process.communicate(timeout=150)
        return self.process.returncode, told

    def pids(self, places):
        """Of workers, when they have come."""
        files = [pathlib.Path(self.folder, f"{place}.pid") for place in places]
        wait_until(lambda: all(file.exists() and file.read_text() for file in files))
        return [int(file.read_text()) for file in files]

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.process.stderr.close()

    def outcomes(self):
        """What the workers wrote that came to the end, by place."""
        return {int(path.stem): json.loads(path.read_text()) for path in pathlib.Path(self.folder).glob("*.json")}


def wait_until(what, seconds=60):
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end, "nothing happened"
        time.sleep(0.01)


def lives(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


class HvdElastic(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = scratch.name

    def launch(self, *words, **named):
        launched = Launched(self.folder, *words, **named)
        self.addCleanup(launched.kill)
        return launched

    def check_training(self, outcomes, places):
        """Those workers came to one end, with the parameters of a training without failures."""
        self.assertEqual(sorted(outcomes), places)
        steps = outcomes[places[0]]["step"]
        for outcome in outcomes.values():
            self.assertEqual((outcome["word"], outcome["step"], outcome["size"]), ("done", steps, len(places)))
            self.assertEqual(outcome["weight"], elastic_program.weight_after(steps))
            self.assertEqual(outcome["resets"][-1:], outcome["sizes"][1:][-1:])  # another death may come before training
        self.assertEqual(sorted(outcome["rank"] for outcome in outcomes.values()), list(range(len(places))))

    def test_death_and_replacement(self):
        job = self.launch("-np", 3, "--min-np", 2, size=3, plans=["1:20:killed"])
        status, told = job.end()
        self.assertEqual(status, 0, told)
        self.assertIn("worker 1 ended by signal 9 (SIGKILL); worker 3 takes its place", told)
        outcomes = job.outcomes()
        self.check_training(outcomes, [0, 2, 3])
        self.assertEqual([outcomes[place]["sizes"] for place in (0, 2, 3)], [[3, 2, 3], [3, 2, 3], [3]])
        self.assertEqual([outcomes[place]["rank"] for place in (0, 2, 3)], [0, 1, 2])

    def test_waits_for_the_replacement_of_rank_0(self):
        job = self.launch("-np", 2, plans=["0:20:leaves"])
        status, told = job.end()
        self.assertEqual(status, 0, told)
        self.assertIn("worker 0 ended by exit status 3; worker 2 takes its place", told)
        outcomes = job.outcomes()
        self.check_training(outcomes, [1, 2])
        self.assertEqual([outcomes[place]["sizes"] for place in (1, 2)], [[2, 2], [2]])

    def test_two_deaths_at_once(self):
        job = self.launch("-np", 4, "--min-np", 2, "--replacements", 0, plans=["0:10:killed", "3:10:killed"])
        status, told = job.end()
        self.assertEqual(status, 0, told)
        self.check_training(job.outcomes(), [1, 2])

    def test_too_few_are_left(self):
        job = self.launch("-np", 2, "--replacements", 0, plans=["1:20:killed"])
        status, told = job.end()
        self.assertEqual(status, 1, told)
        self.assertIn("of 2 workers that are needed 1 are left", told)
        self.assertEqual(job.outcomes(), {})

    def test_program_that_fails(self):
        job = self.launch("-np", 2, "--replacements", 1, plans=["0:0:raises", "1:0:raises", "2:0:raises"])
        status, told = job.end()
        self.assertEqual(status, 1, told)
        self.assertIn("ValueError: planned", told)
        self.assertIn("of 2 workers that are needed", told)

    def test_worker_that_stops(self):
        job = self.launch("-np", 2, "--min-np", 1, "--replacements", 0, "--elastic-timeout", 4, plans=["1:20:stops"])
        status, told = job.end()
        self.assertEqual(status, 0, told)
        self.assertIn("worker 1 has not come within 4 s and is killed", told)
        self.check_training(job.outcomes(), [0])

    def test_worker_that_stops_is_replaced(self):
        job = self.launch("-np", 2, "--elastic-timeout", 4, plans=["0:20:stops"])
        status, told = job.end()
        self.assertEqual(status, 0, told)
        self.assertIn("worker 2 takes its place", told)
        self.check_training(job.outcomes(), [1, 2])

    def test_more_than_there_may_be(self):
        """One waits until another dies; when all are through, nobody waits for those that had no part."""
        job = self.launch("-np", 2, "--max-np", 2, steps=400, plans=["1:300:killed"])
        others = self.launch("-np", 2, "--join", job.address(), steps=400)
        status, told = job.end()
        self.assertEqual(status, 0, told)
        self.assertEqual(others.end()[0], 0)
        outcomes = job.outcomes()
        self.assertEqual(len(outcomes), 2)
        self.check_training(outcomes, sorted(outcomes))

    def test_host_that_comes(self):
        job = self.launch("-np", 1, size=3)
        others = self.launch("-np", 2, "--join", job.address(), size=3)
        status, told = job.end()
        self.assertEqual(status, 0, told)
        self.assertEqual(others.end()[0], 0)
        outcomes = job.outcomes()
        self.check_training(outcomes, [0, 1, 2])
        self.assertEqual(outcomes[0]["sizes"][0], 1)

    def test_launcher_of_another_host_dies(self):
        job = self.launch("-np", 1, "--elastic-timeout", 5, steps=600, size=2)
        others = self.launch("-np", 1, "--join", job.address(), steps=600, size=2)
        others.pids([1])  # it trains
        others.kill()
        status, told = job.end()
        self.assertEqual(status, 0, told)
        self.check_training(job.outcomes(), [0, 1])

    def test_other_launcher_is_told_to_end(self):
        """Its workers go, and nobody waits for them as long as for those that do not come."""
        job = self.launch("-np", 1, steps=1200)
        others = self.launch("-np", 1, "--join", job.address(), steps=10 ** 6)
        others.pids([1])
        others.process.send_signal(signal.SIGTERM)
        self.assertEqual(others.end()[0], 128 + signal.SIGTERM)
        status, told = job.end()
        self.assertEqual(status, 0, told)
        self.check_training(job.outcomes(), [0])

    def test_the_only_one_left_stops(self):
        """Who takes the place of the dead does not wait for it for ever."""
        job = self.launch("-np", 2, "--min-np", 1, "--elastic-timeout", 4, plans=["0:20:stops", "1:20:killed"])
        status, told = job.end()
        self.assertEqual(status, 0, told)
        self.assertIn("worker 0 has not come within 4 s and is killed", told)
        self.assertEqual(len({outcome["step"] for outcome in job.outcomes().values()}), 1)

    def test_program_that_never_comes(self):
        """And the port that the launcher is told to take."""
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        done = subprocess.run([sys.executable, "-m", "tutti_torch.hvd.elastic", "-np", "1", "--start-timeout", "2", "--port",
                               str(port), "--", "sleep", "100"], capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertRegex(done.stderr, rf"others join with --join \S+:{port}\n")
        self.assertIn("there are fewer than 1 workers after 2 s", done.stderr)

    def test_launcher_dies(self):
        job = self.launch("-np", 2, steps=10 ** 6)
        pids = job.pids(range(2))
        job.kill()
        wait_until(lambda: not any(lives(pid) for pid in pids))

    def test_launcher_is_told_to_end(self):
        job = self.launch("-np", 2, steps=10 ** 6)
        pids = job.pids(range(2))
        job.process.send_signal(signal.SIGTERM)
        self.assertEqual(job.end()[0], 128 + signal.SIGTERM)
        self.assertFalse(any(lives(pid) for pid in pids))

    def test_samples(self):
        """All of an epoch are processed, and none twice by those that live."""
        job = self.launch("-np", 3, "--min-np", 2, "--replacements", 0, steps=29, plans=["2:10:killed"])
        status, told = job.end()
        self.assertEqual(status, 0, told)
        outcomes = job.outcomes()
        self.check_training(outcomes, [0, 1])
        before = {place: outcomes[place]["samples"][0][:10] for place in (0, 1)}
        after = {place: outcomes[place]["samples"][1] for place in (0, 1)}
        self.assertFalse(set(before[0]) & set(before[1]))
        self.assertFalse(set(after[0]) & set(after[1]))
        self.assertFalse((set(before[0]) | set(before[1])) & (set(after[0]) | set(after[1])))
        self.assertEqual(set(sum([*before.values(), *after.values()], [])), set(range(elastic_program.SAMPLES)))

    def test_without_launcher(self):
        ranks.run(errors_are_raised, 2, expect_dead=[1])
        ranks.run(objects, 2)

    def test_wrong_arguments(self):
        for words in (["-np", "2", "--min-np", "3", "x.py"], ["-np", "0", "x.py"], ["-np", "2"], ["-np", "2", "--"],
                      ["-np", "2", "--elastic-timeout", "-1", "x.py"], ["-np", "2", "--join", "here", "x.py"],
                      ["-np", "2", "--min-np", "0", "x.py"]):
            done = subprocess.run([sys.executable, "-m", "tutti_torch.hvd.elastic", *words], capture_output=True, text=True)
            self.assertEqual(done.returncode, 2, (words, done.stderr))


def errors_are_raised(rank, n):
    hvd = start()

    @hvd.elastic.run
    def train(state):
        assert hvd.allreduce(torch.ones(1), op=hvd.Sum).item() == n
        state.commit()
        if rank == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        hvd.allreduce(torch.ones(1))

    ranks.expect_error(hvd.HorovodInternalError, lambda: train(hvd.elastic.ObjectState(step=0)), "rank 1")


def objects(rank, n):
    hvd = start()
    model = torch.nn.Linear(2, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0 + rank)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1)
    state = hvd.elastic.TorchState(model, optimizer, schedule=schedule, numbers=[rank], epoch=rank)
    state.numbers.append(7)
    state.epoch = 5
    model.weight.data.fill_(3.0)
    state.restore()
    assert (state.numbers, state.epoch) == ([rank], rank) and state.schedule is schedule
    assert not (model.weight == 3.0).any()
    state.sync()
    assert (state.numbers, state.epoch, optimizer.param_groups[0]["lr"]) == ([0], 0, 1.0)
    every = hvd.allgather(model.weight.detach().reshape(1, -1))
    assert torch.equal(every[0], every[-1])
    state.epoch = 9
    state.commit()
    state.epoch = 10
    state.restore()
    assert state.epoch == 9
    hvd.shutdown()


if __name__ == "__main__":
    unittest.main()
