"""What calls raise: a subclass of Error for each result of Tutti, with Tutti's sentence as its text.

InvalidArgument, InvalidUsage and Unsupported are found before anything is sent, and leave the communicator as it was. Any
other error is final for the communicator: every later call raises the first cause.
"""
from ._C import Result


class Error(Exception):
    """Any error of Tutti's; `result` tells which."""
    result: Result = Result.INTERNAL_ERROR


class UnhandledCudaError(Error):
    """CUDA refused something."""
    result = Result.UNHANDLED_CUDA_ERROR


class OperatingSystemError(Error, OSError):
    """The system refused something, such as memory or a descriptor."""
    result = Result.SYSTEM_ERROR


class InternalError(Error):
    """A fault in Tutti."""
    result = Result.INTERNAL_ERROR


class InvalidArgument(Error, ValueError):
    """A value that cannot be right."""
    result = Result.INVALID_ARGUMENT


class InvalidUsage(Error, RuntimeError):
    """A call that cannot be made now, or here."""
    result = Result.INVALID_USAGE


class RemoteError(Error, ConnectionError):
    """Another rank died, left, aborted or cannot be reached."""
    result = Result.REMOTE_ERROR


class Timeout(Error, TimeoutError):
    """A live rank was silent for too long."""
    result = Result.TIMEOUT


class Mismatch(Error):
    """Ranks made different calls, or have different settings."""
    result = Result.MISMATCH


class Aborted(Error):
    """The communicator was aborted here, or revoked by any rank."""
    result = Result.ABORTED


class Unsupported(Error, NotImplementedError):
    """Not possible on this machine, or not in this version."""
    result = Result.UNSUPPORTED


_BY_RESULT = {kind.result: kind for kind in Error.__subclasses__()}


def exception_of(result: Result, sentence: str) -> Error:
    """The exception that stands for `result`. The extension calls it."""
    return _BY_RESULT.get(result, InternalError)(sentence)
