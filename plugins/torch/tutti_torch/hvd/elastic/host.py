"""The workers of one host."""
import os
import signal
import subprocess
import time

from .job import tell

BEAT_SECONDS = 1.0
KILL_SECONDS = 10  # what the workers have after SIGTERM


class Host:
    """Starts them, tells by the Store how they end, and starts others in place of those that failed."""

    def __init__(self, store, address, command, timeout, replacements):
        self.store, self.command, self.replacements = store, command, replacements
        self.environment = {"TORCH_FR_DUMP_ON_TIMEOUT": "0",  # torch's record of a failure, for which others would wait
                            **os.environ, "HVD_ELASTIC_STORE": address, "HVD_ELASTIC_TIMEOUT": str(timeout)}
        self.processes = {}  # by place
        self.number, self.last_beat = store.add("hosts", 1) - 1, 0.0

    def start(self):
        place = self.store.add("places", 1) - 1
        self.store.set(f"host/{place}", str(self.number))
        self.processes[place] = subprocess.Popen(self.command, env={**self.environment, "HVD_ELASTIC_PLACE": str(place)})
        return place

    def look_after(self):
        if time.monotonic() - self.last_beat > BEAT_SECONDS:
            self.last_beat = time.monotonic()
            self.store.add(f"beats/{self.number}", 1)
        for place, process in list(self.processes.items()):
            if process.poll() is None:
                if self.store.check([f"kill/{place}"]):
                    process.kill()
                continue
            del self.processes[place]
            code = process.returncode
            if code != 0:
                self._replace(place, code)
            self.store.set(f"ended/{place}", str(code))  # when what takes its place is there

    def _replace(self, place, code):
        how = f"exit status {code}"
        if code < 0:
            names = {number.value: f" ({number.name})" for number in signal.Signals}
            how = f"signal {-code}{names.get(-code, '')}"
        then = ""
        if self.replacements > 0 and not self.store.check(["finished"]):
            self.replacements -= 1
            then = f"; worker {self.start()} takes its place"
        tell(f"worker {place} ended by {how}{then}")

    def end(self):
        for process in self.processes.values():
            process.terminate()
        end = time.monotonic() + KILL_SECONDS
        for process in self.processes.values():
            try:
                process.wait(max(end - time.monotonic(), 0))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        for place, process in self.processes.items():
            self.store.set(f"ended/{place}", str(process.returncode))
        self.store.set(f"gone/{self.number}", "")
