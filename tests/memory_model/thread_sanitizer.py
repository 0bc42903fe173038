"""Runs programs that are compiled with the thread sanitizer of g++ 12."""

import os
import platform
import subprocess

RACE = 66


def run(command, **options):
    """The exit code, RACE after the first report, and what was printed. The sanitizer needs a system that does not
    randomise addresses."""
    plain = ["setarch", platform.machine(), "-R"]
    if subprocess.run([*plain, "true"], capture_output=True, check=False).returncode == 0:
        command = plain + command
    given = {"halt_on_error": 1, "exitcode": RACE, **options}
    environment = {**os.environ, "TSAN_OPTIONS": " ".join(f"{name}={value}" for name, value in given.items())}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    return done.returncode, done.stdout + done.stderr
