"""Says who takes part in an elastic job."""
import sys
import time

PAUSE_SECONDS = 1.0


def tell(what):
    print(f"tutti hvd: {what}", file=sys.stderr, flush=True)


class Job:
    """Looks at the Store for what workers and hosts tell, and announces rounds of members there. A round begins when all
    members of the last one that live wait for it: because one of them has died, or because newcomers wait and the members
    have seen that."""

    def __init__(self, store, workers, least, most, timeout, start_timeout):
        self.store, self.least, self.most = store, least, most
        self.timeout, self.start_timeout = timeout, start_timeout
        self.needed = workers  # in the next round
        self.round, self.members = 0, []  # places, in the order of ranks
        self.known, self.living = 0, []
        self.given_up = set()  # living that are to be killed
        self.looked, self.is_broken = time.monotonic(), False  # a member of this round has died
        self.beats = {}  # of a host: how many there were when there was one more, and when that was
        self.finished = False  # a worker has come to its end; the others need no more of them than there are
        self.failure = self.late_failure = None
        self.incomplete_since = None

    def look(self):
        """Returns whether the job goes on."""
        now, before = time.monotonic(), self.looked
        self.looked = now
        if now - before > PAUSE_SECONDS:  # this process was stopped; the others may have been in time
            self.beats, self.incomplete_since = {}, None
        self._note_starts_and_ends()
        if self.finished and not self.members:
            self.failure = self.late_failure
            return False
        if not self.finished and len(self.living) < self.needed:
            return self._give_up(f"of {self.needed} workers that are needed {len(self.living)} are left")
        waiting = [place for place in self.living if place not in self.given_up and self._waits(place)]
        old = [place for place in self.members if place in waiting]
        new = [place for place in waiting if place not in self.members and not self.finished]
        if new and not old and self.members and len(self.members) < self.most:
            self.store.set(f"newcomers/{self.round}", "")
        if len(old) == len(self.members) and len(old + new) >= (1 if self.finished else self.needed):
            self._announce((old + new)[:self.most])
        elif old or self.is_broken or not self.members:
            self._wait_for_the_rest(old)
        else:
            self.incomplete_since = None
        return self.failure is None

    def _note_starts_and_ends(self):
        for place in list(self.living):
            if self.store.check([f"ended/{place}"]):
                self._note_end(place, int(self.store.get(f"ended/{place}")))
        places = self.store.add("places", 0)  # after the ends: who takes somebody's place is there before that one's end
        self.living += range(self.known, places)
        self.known = places
        for host in range(1, self.store.add("hosts", 0)):  # the first is this one
            self._listen_to(host)

    def _listen_to(self, host):
        """A host that was cut off tells of no ends, so its workers do not count any more."""
        now, beats = time.monotonic(), self.store.add(f"beats/{host}", 0)
        if self.beats.get(host, (None,))[0] != beats:
            self.beats[host] = beats, now
        if now - self.beats[host][1] < self.timeout:
            return
        for place in list(self.living):
            if self.store.check([f"host/{place}"]) and int(self.store.get(f"host/{place}")) == host:
                tell(f"nothing was heard of the host of worker {place} for {self.timeout:g} s")
                self.store.set(f"kill/{place}", "")
                self._forget(place)

    def _note_end(self, place, code):
        was_member = place in self.members
        self._forget(place)
        if code == 0 and was_member:
            self.finished = True
            self.store.set("finished", "")
        elif self.finished and was_member:
            self.late_failure = f"worker {place} failed after another one had finished"

    def _forget(self, place):
        self.living.remove(place)
        self.given_up.discard(place)
        if place in self.members:
            self.members.remove(place)
            self.is_broken = True

    def _waits(self, place):
        return self.store.check([f"waits/{place}/{self.round if place in self.members else 0}"])

    def _announce(self, members):
        self.round += 1
        self.members, self.needed, self.incomplete_since, self.is_broken = members, self.least, None, False
        self.store.set(f"members/{self.round}", " ".join(map(str, members)))
        tell(f"round {self.round}: {len(members)} workers, {' '.join(map(str, members))}")

    def _wait_for_the_rest(self, old):
        self.incomplete_since = self.incomplete_since or time.monotonic()
        waited = time.monotonic() - self.incomplete_since
        missing = [place for place in self.members if place not in old]
        if not missing and waited > self.start_timeout:
            self._give_up(f"there are fewer than {self.needed} workers after {self.start_timeout:g} s")
        if not missing or waited < self.timeout:
            return
        for place in missing:
            tell(f"worker {place} has not come within {self.timeout:g} s and is killed")
            self.store.set(f"kill/{place}", "")
            self.given_up.add(place)
            self.members.remove(place)
        self.incomplete_since = None

    def _give_up(self, why):
        self.failure = why
        return False
