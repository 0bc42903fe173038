"""Groups whose members change: who is which rank, what a failed attempt leaves, deaths in the middle, abort hooks."""
import datetime
import os
import random
import signal
import sys
import threading
import time
import unittest

import torch
import torch.distributed as dist

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import ranks  # noqa: E402


class Member:
    """This process's part of a group that begins without members. Handles travel through the Store."""

    def __init__(self, place, places, port, timeout=60):
        self.place, self.places = place, places
        self.store = dist.TCPStore("127.0.0.1", port, is_master=False, timeout=datetime.timedelta(seconds=60))
        dist.init_process_group("tutti", store=self.store, rank=place, world_size=places, enable_reconfigure=True,
                                timeout=datetime.timedelta(seconds=timeout))
        self.backend = dist.group.WORLD._get_backend(torch.device("cpu"))

    def handles(self, name, places=None):
        """Of `places` (default: all), in that order; one of them is this."""
        self.store.set(f"{name}/{self.place}", dist._get_reconfigure_handle())
        return [self.store.get(f"{name}/{place}").decode() for place in (range(self.places) if places is None else places)]

    def meet(self, name):
        """Waits for all places, without the group."""
        self.handles(f"meet/{name}")

    def expect_sum(self, members, size=1000):
        """Each place adds a number of its own."""
        have = torch.full((size,), float(10 ** self.place))
        dist.all_reduce(have)
        want = float(sum(10 ** place for place in members))
        assert have.eq(want).all(), f"place {self.place}: {have[0]} is not {want}"
        assert dist.get_world_size() == len(members), (dist.get_world_size(), members)
        assert dist.get_rank() == list(members).index(self.place), (dist.get_rank(), members)


def reconfigure(uuid, handles, seconds=60):
    assert dist._reconfigure(uuid, handles, timeout=datetime.timedelta(seconds=seconds)).wait()


def error_of(call, kind=RuntimeError):
    """What `call` raises, as text, and how long it took."""
    began = time.monotonic()
    try:
        call()
    except kind as error:
        return str(error), time.monotonic() - began
    raise AssertionError("no error")


def members_come_and_go(place, places, port):
    me = Member(place, places, port)
    assert "before its first reconfigure" in error_of(lambda: dist.all_reduce(torch.ones(1)))[0]
    everybody = list(range(places))
    handles = me.handles("first")
    backwards = everybody[::-1]
    reconfigure(1, handles[::-1])  # ranks are the places in the list
    me.expect_sum(backwards)
    right, left = (dist.get_rank() + 1) % places, (dist.get_rank() - 1) % places
    have = torch.zeros(5)
    works = [dist.isend(torch.full((5,), float(dist.get_rank())), right), dist.irecv(have, left)]
    for work in works:
        work.wait()
    assert have.eq(left).all(), have
    dist.group.WORLD.monitored_barrier()
    without = [0] + everybody[2:]
    if place == 1:  # what it still wants of those who have gone on is an error, not a wait
        text, seconds = error_of(lambda: dist.all_reduce(torch.ones(1)))
        assert seconds < 30, (text, seconds)
    else:
        reconfigure(2, [handles[other] for other in without])
        me.expect_sum(without)
    me.meet("without 1")
    newcomer_last = without + [1]
    reconfigure(3, [handles[other] for other in newcomer_last])
    me.expect_sum(newcomer_last)
    dist.group.WORLD.monitored_barrier()
    reconfigure(100 + place, [handles[place]])  # each alone
    me.expect_sum([place])
    me.meet("alone")
    reconfigure(4, handles)
    me.expect_sum(everybody)


def members_in_a_set(place, places, port):
    """Any ranks, each once."""
    me = Member(place, places, port)
    reconfigure(1, set(me.handles("first")))
    seen = [None] * places
    dist.all_gather_object(seen, dist.get_rank())
    assert seen == list(range(places)), seen


def refused(place, places, port):
    """What is wrong by itself changes nothing."""
    me = Member(place, places, port)
    handles = me.handles("first")
    others = [handle for handle in handles if handle != handles[place]]
    wrong = {"own handle": others, "there twice": [*handles, handles[0]], "no handle of a tutti group": [*handles, "gloo:1"]}
    for fresh in (True, False):
        for uuid, (sentence, members) in enumerate(wrong.items()):
            text, _ = error_of(lambda: dist._reconfigure(uuid, members), ValueError)
            assert sentence in text, text
        assert "above 0" in error_of(lambda: reconfigure(7, handles, 0), ValueError)[0]
        if fresh:
            reconfigure(10, handles)
        me.expect_sum(range(places))
    text, seconds = error_of(lambda: reconfigure(10, handles))
    assert "uuid 10 was already used" in text and seconds < 30, (text, seconds)
    me.expect_sum(range(places))
    me.meet("used")
    text, _ = error_of(lambda: reconfigure(10, handles[::-1]))  # another first member sees it as well
    assert "uuid 10 was already used" in text, text
    me.expect_sum(range(places))


def failed_and_retried(place, places, port):
    """Somebody does not come: the others hear who, keep what they had, and succeed with the same handles later."""
    me = Member(place, places, port)
    handles = me.handles("first")
    absent = places - 1
    reconfigure(1, handles[:absent]) if place != absent else reconfigure(2, [handles[absent]])
    mine = range(absent) if place != absent else [absent]
    me.expect_sum(mine)
    if place != absent:
        text, seconds = error_of(lambda: reconfigure(3, handles, 2))
        assert "timed out" in text and f"rank {absent}" in text, text
        assert 1 < seconds < 30, seconds
        me.expect_sum(mine)
    me.meet("failed")
    if place == absent:  # too late
        text, seconds = error_of(lambda: reconfigure(3, handles))
        assert "this attempt has failed" in text and seconds < 30, (text, seconds)
        me.expect_sum(mine)
    me.meet("late")
    backwards = handles[::-1]
    if place != absent:
        text, seconds = error_of(lambda: reconfigure(4, backwards, 2))
        assert "timed out: the first of the new members" in text and handles[absent] in text, text
        assert 1 < seconds < 30, seconds
        me.expect_sum(mine)
    me.meet("failed again")
    reconfigure(5, backwards)
    me.expect_sum(range(places)[::-1])


def works_under_way(place, places, port):
    """They end when the new members are there, not before."""
    me = Member(place, places, port)
    handles = me.handles("first")
    reconfigure(1, handles)
    me.expect_sum(range(places))
    works = []
    if place == 0:
        works = [dist.all_reduce(torch.ones(3), async_op=True), dist.all_reduce(torch.ones(3), async_op=True),
                 dist.irecv(torch.zeros(3), 1)]
        assert "timed out" in error_of(lambda: reconfigure(2, handles, 1))[0]
        assert not any(work.is_completed() for work in works)
    me.meet("one attempt")
    reconfigure(3, handles)
    for work in works:
        error_of(work.wait)
    me.expect_sum(range(places))


def after_an_abort(place, places, port):
    me = Member(place, places, port)
    handles = me.handles("first")
    reconfigure(1, handles)
    me.backend.abort()
    assert me.backend.get_error() == torch._C._distributed_c10d.ErrorType.COMM_ERROR
    error_of(lambda: dist.all_reduce(torch.ones(1)))
    reconfigure(2, handles)
    assert me.backend.get_error() == torch._C._distributed_c10d.ErrorType.SUCCESS
    me.expect_sum(range(places))


def after_a_timeout(place, places, port):
    me = Member(place, places, port)
    handles = me.handles("first")
    reconfigure(1, handles)
    if place == 0:
        me.backend.set_timeout(datetime.timedelta(milliseconds=200))
        for _ in range(2):
            assert "Timed out waiting" in error_of(lambda: dist.all_reduce(torch.ones(1)))[0]
        assert me.backend.get_error() == torch._C._distributed_c10d.ErrorType.TIMEOUT
        me.backend.set_timeout(datetime.timedelta(seconds=60))
    me.meet("timeout")
    reconfigure(2, handles)
    me.expect_sum(range(places))


def abort_hooks(place, places, port):
    """They run before an abort and when a call fails for good; not for wrong arguments, and not because members change."""
    me = Member(place, places, port)
    handles = me.handles("first")
    calls = []

    def broken():
        raise RuntimeError("a hook that fails")

    assert me.backend.supports_abort_hooks
    me.backend.register_abort_hook(7, lambda: calls.append(7))
    me.backend.register_abort_hook(8, broken)
    me.backend.register_abort_hook(9, lambda: calls.append(9))
    reconfigure(1, handles)
    me.expect_sum(range(places))
    error_of(lambda: me.backend.send([torch.ones(3)], places, 0), ValueError)
    reconfigure(2, handles)
    me.expect_sum(range(places))
    time.sleep(0.5)  # the thread that takes messages has seen the end of the old members
    assert calls == [], calls
    me.backend.abort()
    assert calls[:2] == [7, 9], calls
    me.backend.unregister_abort_hook(7)
    reconfigure(3, handles)
    calls.clear()
    if place == 0:
        me.backend.set_timeout(datetime.timedelta(milliseconds=200))
        error_of(lambda: dist.all_reduce(torch.ones(1)))
        assert calls and set(calls) == {9}, calls
    me.meet("end")


def hooks_beside_an_abort(place, places, port):
    """Hooks are Python's: whoever adds one has its lock, and whoever calls them needs it."""
    me = Member(place, places, port)
    reconfigure(1, me.handles("first"))
    end = time.monotonic() + 3
    counts = [0, 0]

    def register(thread):
        while time.monotonic() < end:
            me.backend.register_abort_hook(thread, lambda: None)
            me.backend.unregister_abort_hook(thread)
            counts[thread] += 1

    for number in range(50):
        me.backend.register_abort_hook(100 + number, lambda: None)
    threads = [threading.Thread(target=register, args=(thread,)) for thread in (0, 1)]
    for thread in threads:
        thread.start()
    while time.monotonic() < end:
        me.backend.abort()
    for thread in threads:
        thread.join()
    assert min(counts) > 0, counts


def a_failure_during_a_failed_attempt(place, places, port):
    """Members stay the old ones, so the failure of one of their works is one; hooks hear of it when the attempt has ended."""
    me = Member(place, places, port)
    handles = me.handles("first")
    reconfigure(1, handles)
    me.meet("joined")
    if place == 0:
        calls = []
        me.backend.register_abort_hook(1, lambda: calls.append(1))
        me.backend.set_timeout(datetime.timedelta(milliseconds=300))
        work = dist.all_reduce(torch.ones(1), async_op=True)
        waits = threading.Thread(target=lambda: error_of(work.wait))
        waits.start()
        error_of(lambda: reconfigure(2, handles, 2))  # nobody else comes
        waits.join()
        assert calls == [1], calls
    me.meet("end")


def death(place, places, port):
    me = Member(place, places, port)
    handles = me.handles("first")
    reconfigure(1, handles)
    me.expect_sum(range(places))
    if place == places - 1:
        os.kill(os.getpid(), signal.SIGKILL)
    text, _ = error_of(lambda: [dist.all_reduce(torch.ones(100000)) for _ in range(1000)])
    assert f"rank {places - 1}" in text, text
    reconfigure(2, handles[:-1])
    me.expect_sum(range(places - 1))


def deaths_at_any_moment(place, places, port, seed):
    """The last of the members dies in the middle of an attempt. All who live agree whether that has succeeded, and if it
    has, the next attempt is with one less."""
    me = Member(place, places, port)
    handles = me.handles("first")
    reconfigure(1, handles)
    chance = random.Random(seed)
    for round in range(1, places - 1):
        delay = chance.choice((0.001, 0.01, 0.03)) * chance.random()
        last = places - round
        if place > last:
            return None
        if place == last:
            threading.Timer(delay, os.kill, (os.getpid(), signal.SIGKILL)).start()
        fine = True
        try:
            reconfigure(10 * round, [handles[other] for other in range(last + 1)], 2)
        except RuntimeError:
            fine = False
        if place == last:
            time.sleep(60)  # until it is killed
        me.store.set(f"outcome/{round}/{place}", str(fine))
        outcomes = {me.store.get(f"outcome/{round}/{other}").decode() for other in range(last)}
        assert len(outcomes) == 1, f"seed {seed}, round {round}: some succeeded, others failed"
        reconfigure(10 * round + 1, handles[:last])
        me.expect_sum(range(last))
    return None


@unittest.skipUnless(hasattr(dist, "_reconfigure"), "this torch has no reconfigure: 2.14 and newer have")
class Reconfigure(unittest.TestCase):
    def on(self, places, function, *arguments, **options):
        store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)  # outlives the members
        ranks.run(function, places, store.port, *arguments, backend=None, **options)

    def test_members_come_and_go(self):
        for places in (2, 4):
            self.on(places, members_come_and_go)

    def test_members_in_a_set(self):
        self.on(3, members_in_a_set)

    def test_refused(self):
        self.on(3, refused)

    def test_failed_and_retried(self):
        self.on(3, failed_and_retried)

    def test_works_under_way(self):
        self.on(2, works_under_way)

    def test_after_an_abort(self):
        self.on(3, after_an_abort)

    def test_after_a_timeout(self):
        self.on(2, after_a_timeout)

    def test_abort_hooks(self):
        self.on(2, abort_hooks)

    def test_hooks_beside_an_abort(self):
        self.on(1, hooks_beside_an_abort)

    def test_a_failure_during_a_failed_attempt(self):
        self.on(2, a_failure_during_a_failed_attempt)

    def test_death(self):
        self.on(3, death, expect_dead=(2,))

    def test_deaths_at_any_moment(self):
        first = int(os.environ.get("TEST_SEED", random.randrange(10 ** 6)))
        for seed in range(first, first + int(os.environ.get("TEST_ROUNDS", 3))):
            self.on(4, deaths_at_any_moment, seed, expect_dead=(2, 3))


if __name__ == "__main__":
    unittest.main()
