"""The collectives of tutti_comm against plain results, on all that lends its memory."""
import array
import ctypes
import unittest

import numpy
import ranks
from tutti_comm import DataType, Op, errors, group

TYPES = ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float16", "float32", "float64"]


class OnlyDlpack:
    """An array that lends its memory by DLPack alone, as torch's tensors do."""

    def __init__(self, values):
        self.values = values

    def __dlpack__(self, **options):
        return self.values.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.values.__dlpack_device__()


class Refusing:
    def __dlpack__(self, **options):
        raise BufferError("not mine to give")


def operations(comm):
    """Small numbers, of which each type has the exact result."""
    all_of = range(1, comm.size + 1)
    for name in TYPES:
        mine = numpy.full(1000, comm.rank + 1, dtype=name)
        for op, wanted in [(Op.SUM, sum(all_of)), (Op.PROD, numpy.prod(all_of)), (Op.MAX, comm.size), (Op.MIN, 1)]:
            out = numpy.zeros_like(mine)
            assert comm.all_reduce(mine, out, op) is out
            assert (out == wanted).all(), (name, op, out)
        if not name.startswith("float"):
            for op, function in [(Op.BIT_AND, numpy.bitwise_and), (Op.BIT_OR, numpy.bitwise_or),
                                 (Op.BIT_XOR, numpy.bitwise_xor)]:
                out = comm.all_reduce(mine.copy(), op=op)
                assert (out == function.reduce(numpy.array(all_of, dtype=name))).all(), (name, op, out)
    average = comm.all_reduce(numpy.full(3, 2.0 * comm.rank), op=Op.AVG)
    assert (average == comm.size - 1).all()
    flags = comm.all_reduce(numpy.array([comm.rank == 0, False, True]))
    assert flags.dtype == bool and flags.tolist() == [True, False, True]


def other_types(comm):
    """What numpy has no type for, and complex numbers."""
    ones = numpy.full(64, 0x3f80, dtype="uint16")  # 1.0 as bfloat16
    comm.all_reduce(ones, datatype=DataType.BFLOAT16)
    assert (ones.astype("uint32") << 16).view("float32").tolist() == [comm.size] * 64
    eighths = numpy.full(5, 0x38, dtype="uint8")  # 1.0 as float8e4m3
    comm.all_reduce(eighths, datatype=DataType.FLOAT8E4M3, op=Op.MAX)
    assert (eighths == 0x38).all()
    numbers = comm.all_reduce(numpy.full(7, 1 + 2j * comm.rank))
    assert (numbers == comm.size + 1j * comm.size * (comm.size - 1)).all()
    parts = numpy.empty((comm.size, 2), dtype="complex64")
    comm.all_gather(numpy.full(2, comm.rank * 1j, dtype="complex64"), parts)
    assert (parts[:, 0] == 1j * numpy.arange(comm.size)).all()
    wide = numpy.full(100, 1 / 7, dtype="float32")
    comm.all_reduce(wide, wire_type=DataType.BFLOAT16)
    assert 0 < abs(wide[0] - comm.size / 7) < 0.01 * comm.size


def placements(comm):
    """Who gets what: all collectives that move blocks, in place too."""
    rank, size = comm.rank, comm.size
    blocks = numpy.arange(size, dtype="int32").repeat(3).reshape(size, 3)
    gathered = numpy.zeros_like(blocks)
    comm.all_gather(blocks[rank].copy(), gathered)
    assert (gathered == blocks).all()
    gathered = numpy.full_like(blocks, -1)
    gathered[rank] = rank
    comm.all_gather(gathered[rank], gathered)
    assert (gathered == blocks).all()
    root = size - 1
    at_root = numpy.zeros_like(blocks) if rank == root else None
    result = comm.gather(blocks[rank], at_root, root)
    assert result is at_root and (rank != root or (at_root == blocks).all())
    mine = numpy.zeros(3, dtype="int32")
    comm.scatter(blocks if rank == root else None, mine, root)
    assert (mine == rank).all()
    assert (comm.broadcast(numpy.full(5, rank), root=root) == root).all()
    sums = numpy.zeros(3, dtype="int32")
    comm.reduce_scatter(blocks, sums)
    assert (sums == rank * size).all()
    total = comm.reduce(numpy.full(4, rank), numpy.zeros(4, dtype=int) if rank == 0 else None)
    assert total is None if rank else (total == sum(range(size))).all()
    swapped = comm.all_to_all(numpy.arange(size) + 100 * rank)
    assert (swapped == 100 * numpy.arange(size) + rank).all()
    comm.barrier()


def unequal_blocks(comm):
    rank, size = comm.rank, comm.size
    counts = [r + 1 for r in range(size)]
    out = numpy.zeros(sum(counts))
    comm.all_gather_v(numpy.full(rank + 1, float(rank)), out, counts)
    assert (out == numpy.arange(size).repeat(counts)).all()
    spread = numpy.full(4 * size, -1.0)
    comm.all_gather_v(numpy.full(rank + 1, float(rank)), spread, [min(c, 4) for c in counts],
                      [4 * r for r in range(size)])
    assert all((spread[4 * r:4 * r + r + 1] == r).all() for r in range(size)) and spread[3] == -1
    numbers = numpy.full(sum(counts), complex(rank))
    received = numpy.zeros(size * (rank + 1), dtype=complex)
    comm.all_to_all_v(numbers, counts, received, [rank + 1] * size)
    assert (received == numpy.arange(size).repeat(rank + 1)).all()


def messages(comm):
    rank, size = comm.rank, comm.size
    right, left = (rank + 1) % size, (rank - 1) % size
    got = numpy.zeros(1000)
    with group():
        comm.send(numpy.full(1000, float(rank)), right, tag=7)
        comm.recv(got, left, tag=7)
    assert (got == left).all()
    if rank == 0:
        value = numpy.zeros(1, dtype="int64")
        assert sorted((comm.recv_any(value), value[0])[0] for _ in range(size - 1)) == list(range(1, size))
    else:
        comm.send(numpy.array([rank]), 0)


def lenders(comm):
    """Whatever lends its memory can be sent, and received into if it may be written."""
    values = [bytearray(b"\x01" * 8), array.array("d", [1.5] * 8), memoryview(bytearray(b"\x02" * 8)),
              (ctypes.c_float * 8)(*[2.0] * 8), OnlyDlpack(numpy.ones(8)), numpy.ones((2, 4))]
    for value in values:
        before = numpy.array(value.values if isinstance(value, OnlyDlpack) else value)
        assert comm.all_reduce(value) is value
        after = numpy.array(value.values if isinstance(value, OnlyDlpack) else value)
        assert (after == before * comm.size).all(), (type(value), after)
    sealed = numpy.ones(4)
    sealed.flags.writeable = False
    assert (comm.all_reduce(sealed, numpy.empty(4)) == comm.size).all()
    comm.broadcast(sealed if comm.rank == 0 else numpy.empty(4))
    received = bytearray(3 * comm.size)
    comm.all_gather(b"abc", received)
    assert received == b"abc" * comm.size
    assert comm.all_reduce(numpy.array(2.0)) == 2 * comm.size  # of no dimension
    comm.all_reduce(numpy.empty(0))
    named = numpy.ones(4, dtype=[("Offset", "i4")])
    assert (comm.all_reduce(named, datatype=DataType.INT32)["Offset"] == comm.size).all()


def refusals(comm):
    """Wrong arguments are found on this rank alone, and all goes on after them."""
    good, sealed = numpy.ones(4), numpy.ones(4)
    sealed.flags.writeable = False
    for call, text in [(lambda: comm.all_reduce([1.0]), "send (list) lends no memory: take a numpy array"),
                       (lambda: comm.all_reduce(numpy.ones(8)[::2]), "has gaps"),
                       (lambda: comm.all_reduce(numpy.ones((2, 4), order="F")), "another order than C's"),
                       (lambda: comm.all_reduce(OnlyDlpack(numpy.ones(8)[::2])), "has gaps"),
                       (lambda: comm.all_reduce(Refusing()), "lends no memory: not mine to give"),
                       (lambda: comm.all_reduce(numpy.ones(2, dtype=object), datatype=DataType.INT64), "objects of Python"),
                       (lambda: comm.all_reduce(numpy.ones(2, dtype=">f4")), "a type that Tutti does not know"),
                       (lambda: comm.recv(good, -1), "recv_any"),
                       (lambda: comm.all_reduce(sealed), "may only be read"),
                       (lambda: comm.all_reduce(b"abc"), "may only be read"),
                       (lambda: comm.all_reduce(good, numpy.ones(5)), "recv has 5 elements, and needs 4"),
                       (lambda: comm.all_reduce(good, numpy.ones(4, dtype=int)), "of different types"),
                       (lambda: comm.all_reduce(numpy.ones(4, dtype="M8[s]")), "lends no memory"),
                       (lambda: comm.all_gather(good, numpy.ones(4 * comm.size + 1)), "and needs"),
                       (lambda: comm.all_reduce(numpy.ones(3, dtype="uint8"), datatype=DataType.BFLOAT16), "no multiple"),
                       (lambda: comm.all_gather_v(good, numpy.ones(4 * comm.size - 1), [4] * comm.size), "lies beyond"),
                       (lambda: comm.all_to_all(numpy.ones(comm.size + 1)), "equal blocks"),
                       (lambda: comm.broadcast(good, root=99), "root")]:
        with ranks.raises(errors.InvalidArgument, text) as seen:
            call()
        assert isinstance(seen.error, ValueError)
    with ranks.raises(errors.Unsupported, "complex"):
        comm.all_reduce(numpy.ones(2, dtype=complex), op=Op.MAX)
    with ranks.raises(TypeError, "incompatible function arguments"):
        comm.all_reduce(good, op="sum")
    assert (comm.all_reduce(good) == comm.size).all()


class Collectives(unittest.TestCase):
    def on_ranks(self, case, sizes=(1, 2, 4)):
        for size in sizes:
            with self.subTest(ranks=size, kind="threads"):
                ranks.in_threads(case, size)
        with self.subTest(ranks=3, kind="processes"):
            ranks.in_processes(case, 3)

    def test_operations(self):
        self.on_ranks(operations)

    def test_other_types(self):
        self.on_ranks(other_types)

    def test_placements(self):
        self.on_ranks(placements)

    def test_unequal_blocks(self):
        self.on_ranks(unequal_blocks)

    def test_messages(self):
        self.on_ranks(messages)

    def test_lenders(self):
        self.on_ranks(lenders)

    def test_refusals(self):
        self.on_ranks(refusals, sizes=(2, 4))


if __name__ == "__main__":
    unittest.main()
