"""What mypy is to accept."""
import tutti_comm
from tutti_comm import Communicator, Op, Stream

with tutti_comm.init(config=tutti_comm.Config(timeout=5)) as comm:
    rank: int = comm.rank
    comm.all_reduce(bytearray(4), op=Op.MAX)
    comm.all_reduce(bytearray(4), stream=Stream()).result()
    part: Communicator | None = comm.split(None, config=None)
    with tutti_comm.group():
        comm.send(b"a", 0)
    text: str = comm.info("transport")
try:
    comm.check()
except tutti_comm.Error as error:
    result: tutti_comm.Result = error.result
