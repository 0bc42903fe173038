// The C functions of a communicator's life.
#include <chrono>
#include <cstring>
#include <thread>
#include <vector>

#include "comm/api/handle.h"
#include "comm/create.h"
#include "comm/grow.h"
#include "comm/join/join.h"
#include "comm/queue/call_group.h"
#include "comm/shrink.h"
#include "comm/split.h"
#include "core/retry.h"
#include "core/wait_until.h"
#include "device/device_driver.h"

using tutti::Code;
using tutti::Communicator;
using tutti::CreateOptions;
using tutti::Status;

namespace {

using Create = std::function<Status(std::shared_ptr<Communicator>*)>;

Status create_now(const Create& create, tuttiComm_t* comm) {
  std::shared_ptr<Communicator> made;
  TUTTI_TRY(create(&made));
  if (made == nullptr) return {};  // a split without a color
  *comm = tutti::make_handle(std::move(made));
  return {};
}

/// If a call is refused inside a group, the whole group is refused.
template <class Body>
tuttiResult_t guard_grouped(const void* object, const Body& body) {
  return tutti::guard(object, [&]() -> Status {
    Status status;
    try {
      status = body();
    } catch (...) {
      status = tutti::what_was_thrown("a join or split");
    }
    if (!status.ok() && tutti::CallGroup::depth() != 0) tutti::CallGroup::current().refuse(status);
    return status;
  });
}

/// Runs a join or split now, or at the end of the group.
Status create_or_defer(Create create, tuttiComm_t* comm, const std::shared_ptr<Communicator>& parent = nullptr) {
  TUTTI_TRY(tutti::require(comm, "comm"));
  *comm = nullptr;
  TUTTI_TRY(tutti::hub_refusal());
  if (tutti::CallGroup::depth() == 0) return create_now(create, comm);
  tutti::CallGroup::current().add(parent, [create = std::move(create), comm] { return create_now(create, comm); });
  return {};
}

Status init_from_id(tuttiComm_t* comm, int nranks, const tuttiUniqueId& id, int rank, const tuttiConfig_t* config,
                    int device = -1) {
  if (comm != nullptr) *comm = nullptr;
  CreateOptions options;
  TUTTI_TRY(tutti::read_options(config, &options));
  options.ranks = nranks;
  options.rank = rank;
  if (device >= 0) options.device = device;
  return create_or_defer(
      [id, options](std::shared_ptr<Communicator>* made) { return tutti::create_from_id(id, options, made); }, comm);
}

/// If there is no list, the ranks use the devices in turn. If there are no devices, the list has no meaning.
Status device_of(int rank, const int* list, int* device) {
  tutti::DeviceDriver* const driver = tutti::device_driver();
  const int devices = driver == nullptr ? 0 : driver->devices();
  *device = -1;
  if (devices == 0) return {};
  *device = list != nullptr ? list[rank] : rank % devices;
  if (*device >= 0 && *device < devices) return {};
  return tutti::fail(Code::kInvalidArgument, "devlist[{}] is {}, which is none of the devices 0 to {}", rank, *device,
                     devices - 1);
}

Status init_all(tuttiComm_t* comms, int count, const int* list) {
  TUTTI_TRY(tutti::require(comms, "comms"));
  if (count < 1) return tutti::fail(Code::kInvalidArgument, "ndev is {}, not 1 or more", count);
  for (int i = 0; i < count; ++i) comms[i] = nullptr;
  CreateOptions options;
  TUTTI_TRY(tutti::read_options(nullptr, &options));
  tutti::IdBytes bytes;
  TUTTI_TRY(tutti::make_unique_id(options.settings, &bytes));
  tuttiUniqueId id;
  std::memcpy(id.internal, bytes.data(), sizeof id.internal);
  tutti::CallGroup::start();
  Status status;
  try {
    for (int i = 0; i < count && status.ok(); ++i) {
      int device = -1;
      status = device_of(i, list, &device);
      if (status.ok()) status = init_from_id(&comms[i], count, id, i, nullptr, device);
    }
  } catch (...) {  // the group has to be ended all the same
    status = tutti::what_was_thrown("a join");
  }
  if (!status.ok()) tutti::CallGroup::current().refuse(status);
  status = tutti::CallGroup::end();
  if (!status.ok()) tutti::withdraw_unique_id(options.settings, bytes);  // if nobody has joined by it
  return status;
}

}  // namespace

extern "C" {

tuttiResult_t tuttiGetUniqueId(tuttiUniqueId* id) {
  return tutti::guard(nullptr, [&]() -> Status {
    TUTTI_TRY(tutti::require(id, "id"));
    CreateOptions options;
    TUTTI_TRY(tutti::read_options(nullptr, &options));
    tutti::IdBytes bytes;
    TUTTI_TRY(tutti::make_unique_id(options.settings, &bytes));
    std::memcpy(id->internal, bytes.data(), sizeof id->internal);
    return {};
  });
}

tuttiResult_t tuttiCommInitRank(tuttiComm_t* comm, int nranks, tuttiUniqueId id, int rank) {
  return tuttiCommInitRankConfig(comm, nranks, id, rank, nullptr);
}

tuttiResult_t tuttiCommInitRankConfig(tuttiComm_t* comm, int nranks, tuttiUniqueId id, int rank,
                                      const tuttiConfig_t* config) {
  return guard_grouped(nullptr, [&] { return init_from_id(comm, nranks, id, rank, config); });
}

tuttiResult_t tuttiCommInitUrl(tuttiComm_t* comm, const char* url, int nranks, int rank, const tuttiConfig_t* config) {
  return guard_grouped(nullptr, [&]() -> Status {
    TUTTI_TRY(tutti::require(comm, "comm"));
    *comm = nullptr;
    TUTTI_TRY(tutti::require(url, "url"));
    CreateOptions options;
    TUTTI_TRY(tutti::read_options(config, &options));
    options.ranks = nranks;
    options.rank = rank;
    return create_or_defer(
        [text = std::string(url), options](std::shared_ptr<Communicator>* made) {
          return tutti::create_from_url(text, options, made);
        },
        comm);
  });
}

tuttiResult_t tuttiCommInitAll(tuttiComm_t* comms, int ndev, const int* devlist) {
  return tutti::guard(nullptr, [&] { return init_all(comms, ndev, devlist); });
}

tuttiResult_t tuttiCommSplit(tuttiComm_t comm, int color, int key, tuttiComm_t* newcomm, const tuttiConfig_t* config) {
  return guard_grouped(comm, [&]() -> Status {
    tutti::CallGuard call_guard;
    TUTTI_TRY(tutti::require(newcomm, "newcomm"));
    *newcomm = nullptr;
    TUTTI_TRY(call_guard.enter(comm));
    // The config is copied: in a group it is used after this call has returned. The name is the caller's until then.
    const bool given = config != nullptr;
    tuttiConfig_t copy = TUTTI_CONFIG_INITIALIZER;
    CreateOptions probe;
    TUTTI_TRY(tutti::apply_config(config, &probe));
    if (given) std::memcpy(&copy, config, std::min(config->size, sizeof copy));
    return create_or_defer(
        [parent = comm->comm, color, key, copy, given](std::shared_ptr<Communicator>* made) {
          return parent->failures().attempt(
              [&] { return tutti::split(*parent, color, key, given ? &copy : nullptr, made); });
        },
        newcomm, comm->comm);
  });
}

tuttiResult_t tuttiCommShrink(tuttiComm_t comm, const int* exclude, int nexclude, tuttiComm_t* newcomm,
                              const tuttiConfig_t* config, int flags) {
  return guard_grouped(comm, [&]() -> Status {
    tutti::CallGuard call_guard;
    TUTTI_TRY(tutti::require(newcomm, "newcomm"));
    *newcomm = nullptr;
    TUTTI_TRY(call_guard.enter(comm));
    tutti::ShrinkOptions options;
    TUTTI_TRY(tutti::read_shrink(*comm->comm, exclude, nexclude, config, flags, &options));
    options.given_up = [comm] { return comm->magic.load(std::memory_order_relaxed) != kCommMagic; };
    return create_or_defer([parent = comm->comm, options = std::move(options)](
                               std::shared_ptr<Communicator>* made) { return tutti::shrink(*parent, options, made); },
                           newcomm, comm->comm);
  });
}

tuttiResult_t tuttiCommGetUniqueId(tuttiComm_t comm, tuttiUniqueId* id) {
  return tutti::guard(comm, [&]() -> Status {
    tutti::CallGuard call_guard;
    TUTTI_TRY(tutti::require(id, "id"));
    TUTTI_TRY(call_guard.enter(comm));
    tutti::IdBytes bytes;
    TUTTI_TRY(tutti::make_grow_id(*comm->comm, &bytes));
    std::memcpy(id->internal, bytes.data(), sizeof id->internal);
    return {};
  });
}

tuttiResult_t tuttiCommGrow(tuttiComm_t comm, int nranks, const tuttiUniqueId* id, int rank, tuttiComm_t* newcomm,
                            const tuttiConfig_t* config) {
  return guard_grouped(comm, [&]() -> Status {
    tutti::CallGuard call_guard;
    TUTTI_TRY(tutti::require(newcomm, "newcomm"));
    *newcomm = nullptr;
    if (comm == nullptr) {
      if (id == nullptr) return tutti::fail(Code::kInvalidArgument, "grow: comm and id are NULL: a newcomer has an id");
      return init_from_id(newcomm, nranks, *id, rank, config);
    }
    TUTTI_TRY(call_guard.enter(comm));
    if (rank != -1)
      return tutti::fail(Code::kInvalidArgument, "grow: rank is {}, not -1: a rank of comm keeps its number", rank);
    tutti::GrowOptions options;
    TUTTI_TRY(tutti::read_grow(*comm->comm, nranks, id, config, &options));
    return create_or_defer(
        [parent = comm->comm, options = std::move(options)](std::shared_ptr<Communicator>* made) {
          return parent->failures().attempt([&] { return tutti::grow(*parent, options, made); });
        },
        newcomm, comm->comm);
  });
}

tuttiResult_t tuttiCommFinalize(tuttiComm_t comm) {
  return tutti::guard(comm, [&]() -> Status {
    tutti::CallGuard call_guard;
    TUTTI_TRY(call_guard.enter(comm));
    return comm->comm->failures().attempt([&] { return comm->comm->finalize(); });
  });
}

tuttiResult_t tuttiCommDestroy(tuttiComm_t comm) {
  return tutti::guard(comm, [&]() -> Status {
    Status status;
    {
      tutti::CallGuard call_guard;
      TUTTI_TRY(call_guard.enter(comm));
      if (!comm->comm->finalized()) status = comm->comm->failures().attempt([&] { return comm->comm->finalize(); });
      if (status.code() == Code::kInvalidUsage) return status;
      if (comm->comm->has_successor() || comm->comm->failures().revoked()) status = {};
      tutti::retire_handle(comm);  // or an abort has, while this call waited
    }
    tutti::log_drain(tutti::kLogTimeout);
    return status;
  });
}

tuttiResult_t tuttiCommAbort(tuttiComm_t comm) {
  return tutti::guard(comm, [&]() -> Status {
    std::shared_ptr<Communicator> held;
    TUTTI_TRY(tutti::hold(comm, &held));
    held->failures().abort();
    tutti::retry_without_memory([&] { held->membership().abandon(); });  // nobody is to wait for it in a shrink
    std::uint32_t expected = kCommMagic;
    if (!comm->magic.compare_exchange_strong(expected, kAbortedMagic, std::memory_order_relaxed))
      return {};  // another abort, or Destroy, ends it
    // From here on calls are refused. A call that began before is visible after a millisecond, and ends because of the
    // abort. If it is stuck in the caller's own code, nobody waits for it, and it lets go of the communicator itself.
    const auto in_use = [&] { return comm->busy.load(std::memory_order_acquire) != 0 || !held->turns().is_empty(); };
    constexpr std::chrono::milliseconds kLook{1};
    constexpr double kLongest = 0.05;  // seconds
    std::this_thread::sleep_for(kLook);
    (void)tutti::wait_until([&] { return !in_use(); }, tutti::Deadline::in(kLongest), tutti::WaitPace::naps(kLook));
    tutti::release_aborted(comm);
    tutti::keep_aborted_handle(comm);
    return {};
  });
}

tuttiResult_t tuttiCommRevoke(tuttiComm_t comm, int flags) {
  return tutti::guard(comm, [&]() -> Status {
    std::shared_ptr<Communicator> held;
    TUTTI_TRY(tutti::hold(comm, &held));
    if (flags != 0) return tutti::fail(Code::kInvalidArgument, "revoke: flags {} are not 0", flags);
    held->failures().revoke();
    return {};
  });
}

tuttiResult_t tuttiCommGetAsyncError(tuttiComm_t comm, tuttiResult_t* asyncError) {
  return tutti::guard(comm, [&]() -> Status {
    TUTTI_TRY(tutti::require(asyncError, "asyncError"));
    std::shared_ptr<Communicator> held;
    TUTTI_TRY(tutti::hold(comm, &held));
    *asyncError = static_cast<tuttiResult_t>(held->async_error().code());
    return {};
  });
}

tuttiResult_t tuttiCommSetTimeout(tuttiComm_t comm, double seconds) {
  return tutti::guard(comm, [&]() -> Status {
    std::shared_ptr<Communicator> held;
    TUTTI_TRY(tutti::hold(comm, &held));
    if (!(seconds >= 0)) return tutti::fail(Code::kInvalidArgument, "a timeout of {} s is not 0 or more", seconds);
    held->call_driver().set_timeout(seconds);
    return {};
  });
}

tuttiResult_t tuttiCommCount(tuttiComm_t comm, int* count) {
  return tutti::guard(comm, [&]() -> Status {
    TUTTI_TRY(tutti::require(count, "count"));
    std::shared_ptr<Communicator> held;
    TUTTI_TRY(tutti::hold(comm, &held));
    *count = held->ranks();
    return {};
  });
}

tuttiResult_t tuttiCommUserRank(tuttiComm_t comm, int* rank) {
  return tutti::guard(comm, [&]() -> Status {
    TUTTI_TRY(tutti::require(rank, "rank"));
    std::shared_ptr<Communicator> held;
    TUTTI_TRY(tutti::hold(comm, &held));
    *rank = held->rank().value;
    return {};
  });
}

}  // extern "C"
