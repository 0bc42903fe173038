"""When which tensor waited for whom and was moved, as a file for chrome://tracing and Perfetto."""
import json
import threading
import time


class Timeline:
    """Rank 0 writes it. Each tensor has a row: first the time for which it waits, from rank 0's submission or the first
    that rank 0 hears of to the last, with a mark for each rank that rank 0 has heard of; then the time of the
    operation. Any thread."""

    def __init__(self, path, marks_rounds=False):
        self.marks_rounds = marks_rounds
        self._file = open(path, "w")
        self._file.write("[\n")
        self._rows, self._waiting = {}, set()
        self._began = time.perf_counter()
        self._lock = threading.Lock()

    def wait(self, name, kind):
        """The tensor waits, if it does not yet."""
        with self._lock:
            is_new = name not in self._waiting
            self._waiting.add(name)
        if is_new:
            self.begin(name, f"NEGOTIATE_{kind.upper()}")

    def end_wait(self, name):
        with self._lock:
            self._waiting.discard(name)
        self.end(name)

    def begin(self, name, what):
        self._write(name, {"ph": "B", "name": what})

    def mark(self, name, what):
        self._write(name, {"ph": "i", "name": what, "s": "t"})

    def end(self, name):
        self._write(name, {"ph": "E"})

    def close(self):
        """What is written afterwards is dropped. Until then the file lacks its last bracket, which viewers allow."""
        with self._lock:
            if self._file.closed:
                return
            self._file.write(json.dumps({"ph": "M", "name": "process_name", "pid": 0, "args": {"name": "hvd"}}) + "\n]\n")
            self._file.close()

    def _write(self, name, event):
        with self._lock:
            if self._file.closed:
                return
            if name not in self._rows:
                self._rows[name] = len(self._rows)
                self._line({"ph": "M", "name": "thread_name", "args": {"name": name}}, self._rows[name])
            self._line({**event, "ts": round((time.perf_counter() - self._began) * 1e6, 1)}, self._rows[name])

    def _line(self, event, row):
        self._file.write(json.dumps({**event, "pid": 0, "tid": row}) + ",\n")
