#include <nanobind/stl/optional.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "collectives.h"
#include "errors.h"

namespace tutti_python {
namespace {

using Type = std::optional<tuttiDataType_t>;
using Counts = std::vector<size_t>;

/// Blocks of unequal size within an array: how many elements each has, and where it begins.
struct Blocks {
  Counts counts, displs;
};

/// Without `displs` the blocks lie one after the other. Throws InvalidArgument unless there is one for each rank,
/// within the array.
Blocks blocks_of(const Communicator& comm, const Array& array, Counts counts, std::optional<Counts> displs,
                 const std::string& name) {
  const size_t parts = array.is_complex ? 2 : 1, ranks = static_cast<size_t>(comm.size());
  if (counts.size() != ranks || (displs && displs->size() != ranks)) {
    raise(tuttiInvalidArgument, name + " is to have " + std::to_string(ranks) + " blocks, one for each rank");
  }
  Blocks blocks{std::move(counts), Counts(ranks)};
  size_t next = 0;
  for (size_t rank = 0; rank < ranks; ++rank) {
    const size_t begin = displs ? (*displs)[rank] : next;
    const size_t room = array.count / parts;
    if (begin > room || blocks.counts[rank] > room - begin) {
      raise(tuttiInvalidArgument, name + " has " + std::to_string(room) + " elements, and block " +
                                      std::to_string(rank) + " lies beyond them");
    }
    next = begin + blocks.counts[rank];
    blocks.displs[rank] = begin * parts;
    blocks.counts[rank] *= parts;
  }
  return blocks;
}

nb::any all_gather_v(Communicator& comm, nb::handle send, nb::handle recv, Counts counts, std::optional<Counts> displs,
                     Type datatype, Stream* stream) {
  Array from = readable(send, "send", datatype), to = writable(recv, "recv", datatype);
  check_same_type(from, to);
  const Blocks blocks = blocks_of(comm, to, std::move(counts), std::move(displs), "recv");
  check_count(from, blocks.counts[static_cast<size_t>(comm.rank())], "send");
  return comm.run(stream, recv, Arrays{std::move(from), std::move(to)},
                  [&](tuttiComm_t c, tuttiStream_t s, const Array& in, const Array& out) {
                    return tuttiAllGatherV(in.data, out.data, in.count, blocks.counts.data(), blocks.displs.data(),
                                           in.type, c, s);
                  });
}

nb::any all_to_all_v(Communicator& comm, nb::handle send, Counts send_counts, nb::handle recv, Counts recv_counts,
                     std::optional<Counts> send_displs, std::optional<Counts> recv_displs, Type datatype,
                     Stream* stream) {
  Array from = readable(send, "send", datatype), to = writable(recv, "recv", datatype);
  check_same_type(from, to);
  const Blocks sent = blocks_of(comm, from, std::move(send_counts), std::move(send_displs), "send");
  const Blocks received = blocks_of(comm, to, std::move(recv_counts), std::move(recv_displs), "recv");
  return comm.run(stream, recv, Arrays{std::move(from), std::move(to)},
                  [&](tuttiComm_t c, tuttiStream_t s, const Array& in, const Array& out) {
                    return tuttiAllToAllV(in.data, sent.counts.data(), sent.displs.data(), out.data,
                                          received.counts.data(), received.displs.data(), in.type, c, s);
                  });
}

nb::any send(Communicator& comm, nb::handle array, int peer, int tag, Type datatype, Stream* stream) {
  Array from = readable(array, "array", datatype);
  return comm.run(stream, Py_None, Arrays{std::move(from)},
                  [=](tuttiComm_t c, tuttiStream_t s, const Array& memory, const Array&) {
                    return tuttiSendTag(memory.data, memory.count, memory.type, peer, tag, c, s);
                  });
}

nb::any recv(Communicator& comm, nb::handle array, int peer, int tag, Type datatype, Stream* stream) {
  if (peer < 0) raise(tuttiInvalidArgument, "peer is a rank, from 0; recv_any receives from anybody");
  Array to = writable(array, "array", datatype);
  return comm.run(stream, array, Arrays{std::move(to)},
                  [=](tuttiComm_t c, tuttiStream_t s, const Array& memory, const Array&) {
                    return tuttiRecvTag(memory.data, memory.count, memory.type, peer, tag, nullptr, c, s);
                  });
}

int recv_any(Communicator& comm, nb::handle array, int tag, Type datatype) {
  if (CollectedCalls::open() != nullptr) raise(tuttiInvalidUsage, "recv_any blocks, so it cannot be a part of a group");
  Array to = writable(array, "array", datatype);
  int source = -1;
  comm.run(nullptr, Py_None, Arrays{std::move(to)},
           [&](tuttiComm_t c, tuttiStream_t s, const Array& memory, const Array&) {
             return tuttiRecvTag(memory.data, memory.count, memory.type, TUTTI_ANY_SOURCE, tag, &source, c, s);
           });
  return source;
}

}  // namespace

void bind_transfers(nb::class_<Communicator>& communicator) {
  const auto datatype = nb::arg("datatype") = nb::none();
  const auto tag = nb::arg("tag") = 0;
  const auto stream = nb::arg("stream").none() = nb::none();
  communicator
      .def("all_gather_v", &all_gather_v, nb::arg("send"), nb::arg("recv"), nb::arg("counts"),
           nb::arg("displs") = nb::none(), nb::kw_only(), datatype, stream,
           "recv has a block for each rank; block r, of counts[r] elements, begins at displs[r] (without displs they "
           "lie one after the other) and is rank r's send. counts are equal on all ranks. Returns recv.")
      .def("all_to_all_v", &all_to_all_v, nb::arg("send"), nb::arg("send_counts"), nb::arg("recv"),
           nb::arg("recv_counts"), nb::arg("send_displs") = nb::none(), nb::arg("recv_displs") = nb::none(),
           nb::kw_only(), datatype, stream,
           "Does what all_to_all does, with blocks of different sizes: rank s's send_counts[r] equals rank r's "
           "recv_counts[s]. Returns recv.")
      .def("send", &send, nb::arg("array"), nb::arg("peer"), tag, nb::kw_only(), datatype, stream,
           "Sends to rank `peer`. It may wait for the receive. Returns None.")
      .def("recv", &recv, nb::arg("array"), nb::arg("peer"), tag, nb::kw_only(), datatype, stream,
           "Receives from rank `peer` what it sent with this tag, of the same type and count. Returns the array.")
      .def("recv_any", &recv_any, nb::arg("array"), tag, nb::kw_only(), datatype,
           "Receives from whoever sends first with this tag, and returns that rank.");
}

}  // namespace tutti_python
