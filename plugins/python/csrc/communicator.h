// One rank's view of a group of ranks.
#pragma once

#include <nanobind/nanobind.h>
#include <tutti/tutti.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "communicator_handle.h"
#include "errors.h"
#include "group.h"
#include "stream.h"
#include "unlocked.h"

namespace tutti_python {

/// Options of a join; what is unset takes the TUTTI_* settings, or the parent's values.
struct Config {
  std::optional<double> timeout;
  std::optional<double> join_timeout;
  std::optional<std::string> name;
  std::optional<tuttiDataType_t> wire_type;
  std::optional<bool> deterministic;
};

/// The Communicator of Python. Its calls run without the interpreter's lock. A communicator takes one call at a time;
/// abort, revoke and check_healthy may be called beside it. After close or abort, calls throw InvalidUsage.
class Communicator {
 public:
  explicit Communicator(tuttiComm_t comm);
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;
  /// Does not close: others may still be in a call that needs this rank. close_all does.
  ~Communicator() = default;

  static Communicator* join(const std::string& url, int size, int rank, const Config* config);
  static Communicator* join_by_id(nb::bytes id, int size, int rank, const Config* config);
  static Communicator* join_grown(nb::bytes id, int size, int rank, const Config* config);
  static std::vector<Communicator*> make_all(int count);

  int rank() const { return rank_; }
  int size() const { return size_; }
  bool is_closed() const { return handle_->is_closed(); }
  std::string info(const std::string& key) const;
  void check_healthy() const;
  void set_timeout(double seconds);

  Communicator* split(std::optional<int> color, int key, const Config* config);
  Communicator* shrink(const std::vector<int>& exclude, bool abort, const Config* config);
  nb::bytes unique_id();
  Communicator* grow(int size, std::optional<nb::bytes> id, const Config* config);
  void finalize();
  void close();
  void abort() { handle_->abort(); }
  void revoke();

  /// Makes one call, which is call(communicator, stream, first array, second array), and keeps the arrays until it is
  /// done. Gives `value`, or with a stream the Future of it.
  template <class Call>
  nb::any run(Stream* stream, nb::handle value, Arrays arrays, const Call& call);

 private:
  nb::any future(tuttiComm_t comm, Stream* stream, nb::handle value, Arrays arrays);

  std::shared_ptr<CommunicatorHandle> handle_;
  int rank_ = 0;
  int size_ = 0;
};

void bind_communicator(nb::module_& module);

template <class Call>
nb::any Communicator::run(Stream* stream, nb::handle value, Arrays arrays, const Call& call) {
  const tuttiComm_t comm = handle_->get();
  tuttiResult_t result;
  {
    const Unlocked unlocked;
    result = call(comm, stream == nullptr ? nullptr : stream->handle(), arrays[0], arrays[1]);
  }
  check(result, comm);
  if (stream != nullptr) return future(comm, stream, value, std::move(arrays));
  if (CollectedCalls::open() != nullptr) CollectedCalls::open()->keep(std::move(arrays));
  return nb::borrow<nb::any>(value);
}

}  // namespace tutti_python
