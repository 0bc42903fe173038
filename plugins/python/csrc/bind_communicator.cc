// Communicator as Python sees it, but for its collectives, which are in collectives.cc.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "collectives.h"
#include "communicator.h"
#include "errors.h"

namespace tutti_python {
namespace {

void bind_config(nb::module_& module) {
  nb::class_<Config>(module, "Config",
                     "Options of a join; what is None takes the TUTTI_* settings, in a split the parent's values. "
                     "timeout: seconds that a call waits for a live but silent rank, 0 for ever. join_timeout: the "
                     "join's. name: for logs. wire_type: what float32 travels as in reductions. deterministic: "
                     "results depend on the ranks' data alone.")
      .def(
          "__init__",
          [](Config* self, std::optional<double> timeout, std::optional<double> join_timeout,
             std::optional<std::string> name, std::optional<tuttiDataType_t> wire_type,
             std::optional<bool> deterministic) {
            new (self) Config{timeout, join_timeout, std::move(name), wire_type, deterministic};
          },
          nb::kw_only(), nb::arg("timeout") = nb::none(), nb::arg("join_timeout") = nb::none(),
          nb::arg("name") = nb::none(), nb::arg("wire_type") = nb::none(), nb::arg("deterministic") = nb::none())
      .def_rw("timeout", &Config::timeout)
      .def_rw("join_timeout", &Config::join_timeout)
      .def_rw("name", &Config::name)
      .def_rw("wire_type", &Config::wire_type)
      .def_rw("deterministic", &Config::deterministic);
}

void bind_joins(nb::module_& module) {
  const auto config = nb::arg("config").none() = nb::none();
  module.def("init", &Communicator::join, nb::arg("url") = "env://", nb::kw_only(), nb::arg("size") = -1,
             nb::arg("rank") = -1, config,
             "Joins and blocks until all ranks have. With \"env://\" the launcher says who the ranks are (mpirun, "
             "torchrun, srun; without one there is one rank); with \"tcp://host:port\" and \"file:///path\" size and "
             "rank are to be given. The k-th join of a process by one url meets the k-th join of the others.");
  module.def("init_by_id", &Communicator::join_by_id, nb::arg("id"), nb::arg("size"), nb::arg("rank"), config,
             "Joins by an id of unique_id() and blocks until all ranks have.");
  module.def("init_newcomer", &Communicator::join_grown, nb::arg("id"), nb::arg("size"), nb::arg("rank"), config,
             "Joins a communicator that grows to `size` ranks, by an id of Communicator.unique_id(); `rank` is one of "
             "the new ones. Blocks until all are there.");
  module.def("init_all", &Communicator::make_all, nb::arg("count"),
             "Makes `count` ranks in this process, for a thread each.");
  module.def(
      "unique_id",
      [] {
        tuttiUniqueId id;
        check(tuttiGetUniqueId(&id), nullptr);
        return nb::bytes(id.internal, sizeof id.internal);
      },
      "Makes an id for one communicator, which this process serves. Hand it to all ranks by means that keep it "
      "secret.");
  module.def("close_all", &close_all,
             "Closes all communicators that are open, and aborts those that another thread is using. It runs before "
             "the interpreter ends.");
}

void bind_membership(nb::class_<Communicator>& communicator) {
  const auto config = nb::arg("config").none() = nb::none();
  communicator
      .def("split", &Communicator::split, nb::arg("color"), nb::arg("key") = 0, config,
           "Collective. Ranks of equal color form a communicator, in the order of key, then of rank. With color None "
           "a rank takes part and gets None.",
           nb::sig("def split(self, color: int | None, key: int = 0, config: Config | None = None) -> Communicator | "
                   "None"))
      .def("shrink", &Communicator::shrink, nb::arg("exclude") = std::vector<int>(), nb::kw_only(),
           nb::arg("abort") = false, config,
           "Makes a communicator of the ranks that stay: all but those that anybody excludes, that died, or that have "
           "not called by the deadline (config.join_timeout, else 10 s). Also on a communicator that has failed. With "
           "abort=True calls that are under way end with Aborted. info(\"members\") of the new one has the old ranks.")
      .def("unique_id", &Communicator::unique_id,
           "Makes an id by which newcomers join one grow() of this communicator. Local.")
      .def("grow", &Communicator::grow, nb::arg("size"), nb::arg("id") = nb::none(), config,
           "Collective. Makes a communicator of these ranks and of newcomers (init_newcomer), `size` in all. The rank "
           "that made the id passes it.")
      .def("finalize", &Communicator::finalize,
           "Collective. Waits until every rank has finished its calls, and raises what failed.")
      .def("close", &Communicator::close, "Finalizes and frees the communicator. A second call does nothing.")
      .def("abort", &Communicator::abort,
           "Ends calls in progress with Aborted, a close() too, and closes. Any thread may call it; other ranks get "
           "RemoteError.")
      .def("revoke", &Communicator::revoke,
           "Ends the calls of all ranks, under way and later, with Aborted. Any thread may call it. shrink() goes on.");
}

}  // namespace

void bind_communicator(nb::module_& module) {
  bind_config(module);
  nb::class_<Communicator> communicator(
      module, "Communicator",
      "One rank's view of a group of ranks. All ranks make the same collective calls in the same order, one at a "
      "time. Arrays are numpy arrays, buffers, or objects with __dlpack__ (in the memory of a GPU too), in C order "
      "without gaps; their shape does not matter, only the number of elements. Results are written into the caller's "
      "arrays and nothing is copied. Other threads run while a call blocks. With stream= a call returns a Future at "
      "once. datatype= says what the bytes of an array are to be taken for, such as DataType.BFLOAT16 for an array of "
      "uint16. As a context manager it closes at the end, or aborts if an exception leaves the block.");
  communicator.def_prop_ro("rank", &Communicator::rank, "This rank's number, from 0.")
      .def_prop_ro("size", &Communicator::size, "The number of ranks.")
      .def_prop_ro("closed", &Communicator::is_closed, "Whether close() or abort() was called.")
      .def("info", &Communicator::info, nb::arg("key"),
           "What is used, as text: \"transport\", \"algorithm:all_reduce:1048576\", \"algorithms:all_reduce\", "
           "\"members\".")
      .def("check", &Communicator::check_healthy, "Raises the error that the communicator has failed with, if any.")
      .def("set_timeout", &Communicator::set_timeout, nb::arg("seconds"),
           "How long calls wait for a live but silent rank from now on; 0 is for ever.")
      .def(
          "__enter__", [](nb::object self) { return self; }, nb::sig("def __enter__(self) -> Communicator"))
      .def(
          "__exit__",
          [](Communicator& self, nb::handle type, nb::handle, nb::handle) {
            type.is_none() ? self.close() : self.abort();
          },
          nb::arg("type").none(), nb::arg("value").none(), nb::arg("traceback").none());
  bind_membership(communicator);
  bind_joins(module);
  bind_collectives(communicator);
  bind_transfers(communicator);
}

}  // namespace tutti_python
