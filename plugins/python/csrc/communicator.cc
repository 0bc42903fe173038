#include "communicator.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstring>

#include "errors.h"

namespace tutti_python {
namespace {

/// The library would set the new handle when the group ends, which nobody holds by then.
void refuse_in_group() {
  if (CollectedCalls::open() != nullptr) raise(tuttiInvalidUsage, "a communicator cannot be made in a group");
}

/// Makes a communicator by make(&handle), without the interpreter's lock. NULL if that gives none.
template <class Make>
Communicator* made(tuttiComm_t of, const Make& make) {
  refuse_in_group();
  tuttiComm_t comm = nullptr;
  tuttiResult_t result;
  {
    const Unlocked unlocked;
    result = make(&comm);
  }
  check(result, of);
  return comm == nullptr ? nullptr : new Communicator(comm);
}

tuttiUniqueId id_of(const nb::bytes& bytes) {
  tuttiUniqueId id;
  if (bytes.size() != sizeof id.internal) {
    raise(tuttiInvalidArgument,
          "an id has " + std::to_string(sizeof id.internal) + " bytes, these are " + std::to_string(bytes.size()));
  }
  std::memcpy(id.internal, bytes.c_str(), sizeof id.internal);
  return id;
}

/// The options as C has them, which point into `given`.
tuttiConfig_t options_of(const Config* given) {
  tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
  if (given == nullptr) return config;
  if (given->timeout) config.timeoutSeconds = *given->timeout;
  if (given->join_timeout) config.joinTimeoutSeconds = *given->join_timeout;
  if (given->name) config.commName = given->name->c_str();
  if (given->wire_type) config.wireType = *given->wire_type;
  if (given->deterministic) config.deterministic = *given->deterministic ? 1 : 0;
  return config;
}

nb::bytes bytes_of(const tuttiUniqueId& id) { return nb::bytes(id.internal, sizeof id.internal); }

}  // namespace

Communicator::Communicator(tuttiComm_t comm) : handle_(CommunicatorHandle::open(comm)) {
  check(tuttiCommUserRank(comm, &rank_), comm);
  check(tuttiCommCount(comm, &size_), comm);
}

Communicator* Communicator::join(const std::string& url, int size, int rank, const Config* config) {
  const tuttiConfig_t options = options_of(config);
  return made(nullptr, [&](tuttiComm_t* comm) { return tuttiCommInitUrl(comm, url.c_str(), size, rank, &options); });
}

Communicator* Communicator::join_by_id(nb::bytes id, int size, int rank, const Config* config) {
  const tuttiConfig_t options = options_of(config);
  const tuttiUniqueId unique = id_of(id);
  return made(nullptr, [&](tuttiComm_t* comm) { return tuttiCommInitRankConfig(comm, size, unique, rank, &options); });
}

Communicator* Communicator::join_grown(nb::bytes id, int size, int rank, const Config* config) {
  const tuttiConfig_t options = options_of(config);
  const tuttiUniqueId unique = id_of(id);
  return made(nullptr, [&](tuttiComm_t* comm) { return tuttiCommGrow(nullptr, size, &unique, rank, comm, &options); });
}

std::vector<Communicator*> Communicator::make_all(int count) {
  if (count < 1) raise(tuttiInvalidArgument, "the count is to be 1 or more");
  refuse_in_group();
  std::vector<tuttiComm_t> comms(static_cast<size_t>(count));
  tuttiResult_t result;
  {
    const Unlocked unlocked;
    result = tuttiCommInitAll(comms.data(), count, nullptr);
  }
  check(result, nullptr);
  std::vector<Communicator*> made;
  for (tuttiComm_t comm : comms) made.push_back(new Communicator(comm));
  return made;
}

std::string Communicator::info(const std::string& key) const {
  const tuttiComm_t comm = handle_->get();
  std::string value(256, '\0');
  tuttiResult_t result = tuttiCommGetInfo(comm, key.c_str(), value.data(), value.size());
  while (result == tuttiInvalidArgument && value.find('\0') == value.size() - 1) {  // the value was cut
    value.assign(2 * value.size(), '\0');
    result = tuttiCommGetInfo(comm, key.c_str(), value.data(), value.size());
  }
  check(result, comm);
  value.resize(value.find('\0'));
  return value;
}

void Communicator::check_healthy() const {
  const tuttiComm_t comm = handle_->get();
  tuttiResult_t failure = tuttiSuccess;
  check(tuttiCommGetAsyncError(comm, &failure), comm);
  check(failure, comm);
}

void Communicator::set_timeout(double seconds) {
  const tuttiComm_t comm = handle_->get();
  check(tuttiCommSetTimeout(comm, seconds), comm);
}

Communicator* Communicator::split(std::optional<int> color, int key, const Config* config) {
  const tuttiComm_t comm = handle_->get();
  const tuttiConfig_t options = options_of(config);
  if (color && *color < 0)
    raise(tuttiInvalidArgument, "a color is 0 or more, or None for a rank that gets no communicator");
  return made(comm, [&](tuttiComm_t* part) {
    return tuttiCommSplit(comm, color.value_or(TUTTI_SPLIT_NOCOLOR), key, part, &options);
  });
}

Communicator* Communicator::shrink(const std::vector<int>& exclude, bool abort, const Config* config) {
  const tuttiComm_t comm = handle_->get();
  const tuttiConfig_t options = options_of(config);
  return made(nullptr, [&](tuttiComm_t* shrunk) {
    return tuttiCommShrink(comm, exclude.data(), static_cast<int>(exclude.size()), shrunk, &options,
                           abort ? TUTTI_SHRINK_ABORT : TUTTI_SHRINK_DEFAULT);
  });
}

nb::bytes Communicator::unique_id() {
  const tuttiComm_t comm = handle_->get();
  tuttiUniqueId id;
  check(tuttiCommGetUniqueId(comm, &id), comm);
  return bytes_of(id);
}

Communicator* Communicator::grow(int size, std::optional<nb::bytes> id, const Config* config) {
  const tuttiComm_t comm = handle_->get();
  const tuttiConfig_t options = options_of(config);
  std::optional<tuttiUniqueId> unique;
  if (id) unique = id_of(*id);
  return made(comm, [&](tuttiComm_t* grown) {
    return tuttiCommGrow(comm, size, unique ? &*unique : nullptr, -1, grown, &options);
  });
}

void Communicator::finalize() {
  const tuttiComm_t comm = handle_->get();
  tuttiResult_t result;
  {
    const Unlocked unlocked;
    result = tuttiCommFinalize(comm);
  }
  check(result, comm);
}

void Communicator::close() { check(handle_->close(), nullptr); }

void Communicator::revoke() {
  const tuttiComm_t comm = handle_->get();
  check(tuttiCommRevoke(comm, 0), comm);
}

nb::any Communicator::future(tuttiComm_t comm, Stream* stream, nb::handle value, Arrays arrays) {
  auto outcome = std::make_shared<Outcome>();
  nb::object owner = nb::find(stream);
  if (CollectedCalls::open() != nullptr)
    CollectedCalls::open()->keep(std::move(arrays), owner, outcome, comm);
  else
    stream->watch(outcome, std::move(arrays), comm);
  const nb::object future = nb::cast(Future(std::move(outcome), nb::borrow(value), std::move(owner)));
  return nb::borrow<nb::any>(future);
}

}  // namespace tutti_python
