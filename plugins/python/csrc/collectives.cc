#include "collectives.h"

#include <nanobind/stl/optional.h>

#include <string>

#include "errors.h"

namespace tutti_python {
namespace {

using Type = std::optional<tuttiDataType_t>;

size_t blocks(const Communicator& comm) { return static_cast<size_t>(comm.size()); }

/// Real and imaginary parts can be added each for itself.
void check_operation(const Array& array, tuttiRedOp_t op) {
  if (array.is_complex && op != tuttiSum && op != tuttiAvg)
    raise(tuttiUnsupported, "of complex numbers there are the sum and the average only");
}

nb::any all_reduce(Communicator& comm, nb::handle send, nb::handle recv, tuttiRedOp_t op, Type wire_type, Type datatype,
                   Stream* stream) {
  const bool in_place = recv.is_none();
  Array to = writable(in_place ? send : recv, in_place ? "send" : "recv", datatype);
  Array from = in_place ? to.view() : readable(send, "send", datatype);
  check_same_type(from, to);
  check_count(to, from.count, "recv");
  check_operation(from, op);
  return comm.run(stream, in_place ? send : recv, Arrays{std::move(from), std::move(to)},
                  [=](tuttiComm_t c, tuttiStream_t s, const Array& in, const Array& out) {
                    return wire_type ? tuttiAllReduceWire(in.data, out.data, in.count, in.type, op, *wire_type, c, s)
                                     : tuttiAllReduce(in.data, out.data, in.count, in.type, op, c, s);
                  });
}

nb::any reduce(Communicator& comm, nb::handle send, nb::handle recv, tuttiRedOp_t op, int root, Type wire_type,
               Type datatype, Stream* stream) {
  const bool is_root = comm.rank() == root;
  const bool in_place = is_root && recv.is_none();
  Array to = is_root ? writable(in_place ? send : recv, in_place ? "send" : "recv", datatype) : Array();
  Array from = in_place ? to.view() : readable(send, "send", datatype);
  if (is_root) {
    check_same_type(from, to);
    check_count(to, from.count, "recv");
  }
  check_operation(from, op);
  const nb::handle value = !is_root ? nb::handle(Py_None) : in_place ? send : recv;
  return comm.run(stream, value, Arrays{std::move(from), std::move(to)},
                  [=](tuttiComm_t c, tuttiStream_t s, const Array& in, const Array& out) {
                    return wire_type ? tuttiReduceWire(in.data, out.data, in.count, in.type, op, root, *wire_type, c, s)
                                     : tuttiReduce(in.data, out.data, in.count, in.type, op, root, c, s);
                  });
}

nb::any reduce_scatter(Communicator& comm, nb::handle send, nb::handle recv, tuttiRedOp_t op, Type wire_type,
                       Type datatype, Stream* stream) {
  Array from = readable(send, "send", datatype), to = writable(recv, "recv", datatype);
  check_same_type(from, to);
  check_count(from, to.count * blocks(comm), "send");
  check_operation(from, op);
  return comm.run(stream, recv, Arrays{std::move(from), std::move(to)},
                  [=](tuttiComm_t c, tuttiStream_t s, const Array& in, const Array& out) {
                    return wire_type
                               ? tuttiReduceScatterWire(in.data, out.data, out.count, out.type, op, *wire_type, c, s)
                               : tuttiReduceScatter(in.data, out.data, out.count, out.type, op, c, s);
                  });
}

nb::any broadcast(Communicator& comm, nb::handle array, int root, Type datatype, Stream* stream) {
  Array memory = comm.rank() == root ? readable(array, "array", datatype) : writable(array, "array", datatype);
  return comm.run(stream, array, Arrays{std::move(memory)},
                  [=](tuttiComm_t c, tuttiStream_t s, const Array& memory, const Array&) {
                    return tuttiBroadcast(memory.data, memory.data, memory.count, memory.type, root, c, s);
                  });
}

nb::any all_gather(Communicator& comm, nb::handle send, nb::handle recv, Type datatype, Stream* stream) {
  Array from = readable(send, "send", datatype), to = writable(recv, "recv", datatype);
  check_same_type(from, to);
  check_count(to, from.count * blocks(comm), "recv");
  return comm.run(stream, recv, Arrays{std::move(from), std::move(to)},
                  [=](tuttiComm_t c, tuttiStream_t s, const Array& in, const Array& out) {
                    return tuttiAllGather(in.data, out.data, in.count, in.type, c, s);
                  });
}

nb::any gather(Communicator& comm, nb::handle send, nb::handle recv, int root, Type datatype, Stream* stream) {
  const bool is_root = comm.rank() == root;
  Array from = readable(send, "send", datatype), to = is_root ? writable(recv, "recv", datatype) : Array();
  if (is_root) {
    check_same_type(from, to);
    check_count(to, from.count * blocks(comm), "recv");
  }
  return comm.run(stream, is_root ? recv : nb::handle(Py_None), Arrays{std::move(from), std::move(to)},
                  [=](tuttiComm_t c, tuttiStream_t s, const Array& in, const Array& out) {
                    return tuttiGather(in.data, out.data, in.count, in.type, root, c, s);
                  });
}

nb::any scatter(Communicator& comm, nb::handle send, nb::handle recv, int root, Type datatype, Stream* stream) {
  const bool is_root = comm.rank() == root;
  Array from = is_root ? readable(send, "send", datatype) : Array(), to = writable(recv, "recv", datatype);
  if (is_root) {
    check_same_type(from, to);
    check_count(from, to.count * blocks(comm), "send");
  }
  return comm.run(stream, recv, Arrays{std::move(from), std::move(to)},
                  [=](tuttiComm_t c, tuttiStream_t s, const Array& in, const Array& out) {
                    return tuttiScatter(in.data, out.data, out.count, out.type, root, c, s);
                  });
}

nb::any all_to_all(Communicator& comm, nb::handle send, nb::handle recv, Type datatype, Stream* stream) {
  const bool in_place = recv.is_none();
  Array to = writable(in_place ? send : recv, in_place ? "send" : "recv", datatype);
  Array from = in_place ? to.view() : readable(send, "send", datatype);
  check_same_type(from, to);
  check_count(to, from.count, "recv");
  if (to.count % blocks(comm) != 0) {
    raise(tuttiInvalidArgument, "send has " + std::to_string(from.count) + " elements, which are no " +
                                    std::to_string(comm.size()) + " equal blocks");
  }
  const size_t block = to.count / blocks(comm);
  return comm.run(stream, in_place ? send : recv, Arrays{std::move(from), std::move(to)},
                  [=](tuttiComm_t c, tuttiStream_t s, const Array& in, const Array& out) {
                    return tuttiAllToAll(in.data, out.data, block, in.type, c, s);
                  });
}

nb::any barrier(Communicator& comm, Stream* stream) {
  return comm.run(stream, Py_None, Arrays(),
                  [](tuttiComm_t c, tuttiStream_t s, const Array&, const Array&) { return tuttiBarrier(c, s); });
}

}  // namespace

void check_same_type(const Array& one, const Array& other) {
  if (one.type != other.type || one.is_complex != other.is_complex)
    raise(tuttiInvalidArgument, "send and recv have elements of different types");
}

void check_count(const Array& has, size_t wanted, const char* name) {
  if (has.count == wanted) return;
  const size_t parts = has.is_complex ? 2 : 1;
  raise(tuttiInvalidArgument, std::string(name) + " has " + std::to_string(has.count / parts) +
                                  " elements, and needs " + std::to_string(wanted / parts));
}

void bind_collectives(nb::class_<Communicator>& communicator) {
  const auto op = nb::arg("op") = tuttiSum;
  const auto wire_type = nb::arg("wire_type") = nb::none(), datatype = nb::arg("datatype") = nb::none();
  const auto stream = nb::arg("stream").none() = nb::none(), recv = nb::arg("recv").none() = nb::none();
  const auto send = nb::arg("send"), into = nb::arg("recv");
  const auto root = nb::arg("root") = 0;
  communicator
      .def("all_reduce", &all_reduce, send, recv, op, nb::kw_only(), wire_type, datatype, stream,
           "recv[i] = op over all ranks of send[i]. Without recv the result is in send. Returns where it is.")
      .def("reduce", &reduce, send, recv, op, root, nb::kw_only(), wire_type, datatype, stream,
           "Does what all_reduce does, with the result on the root only; returns None elsewhere. recv is looked at on "
           "the root alone.")
      .def("reduce_scatter", &reduce_scatter, send, into, op, nb::kw_only(), wire_type, datatype, stream,
           "send has a block for each rank, in their order; rank r gets block r, reduced, in recv, which may be that "
           "block of send. Returns recv.")
      .def("broadcast", &broadcast, nb::arg("array"), root, nb::kw_only(), datatype, stream,
           "Copies the root's array to all ranks' arrays. Returns it.")
      .def("all_gather", &all_gather, send, into, nb::kw_only(), datatype, stream,
           "recv has a block for each rank; block r is rank r's send, which may be that block of its recv. Returns "
           "recv.")
      .def("gather", &gather, send, recv, root, nb::kw_only(), datatype, stream,
           "Does what all_gather does, with the result on the root only; returns None elsewhere. recv is looked at on "
           "the root alone.")
      .def("scatter", &scatter, send.none(), into, root, nb::kw_only(), datatype, stream,
           "Block r of the root's send becomes rank r's recv. send is looked at on the root alone. Returns recv.")
      .def("all_to_all", &all_to_all, send, recv, nb::kw_only(), datatype, stream,
           "Both have a block for each rank; block r of rank s's send becomes block s of rank r's recv. Without recv "
           "the result is in send. Returns where it is.")
      .def("barrier", &barrier, nb::kw_only(), stream, "Returns when every rank has called it.");
}

}  // namespace tutti_python
