#include "rendezvous.h"

#include <cstring>
#include <random>

#include <c10/util/Exception.h>

namespace tutti_torch {
namespace {

constexpr const char* kKey = "tutti/ids";

struct Ids {
  tuttiUniqueId collectives;
  tuttiUniqueId transfers;
  std::uint64_t token;
};

// What the Store holds: one byte that says whether the ids follow, or the sentence why rank 0 could not make them.
std::vector<std::uint8_t> make_ids(Ids* ids) {
  tuttiResult_t result = tuttiGetUniqueId(&ids->collectives);
  if (result == tuttiSuccess) result = tuttiGetUniqueId(&ids->transfers);
  std::random_device random;
  ids->token = std::uint64_t{random()} << 32 | random();
  std::vector<std::uint8_t> value{result == tuttiSuccess ? std::uint8_t{1} : std::uint8_t{0}};
  if (result == tuttiSuccess) {
    const auto* bytes = reinterpret_cast<const std::uint8_t*>(ids);
    value.insert(value.end(), bytes, bytes + sizeof(Ids));
  } else {
    const std::string text = tuttiGetLastError(nullptr);
    value.insert(value.end(), text.begin(), text.end());
  }
  return value;
}

Ids exchange_ids(c10d::Store& store, int rank) {
  Ids ids{};
  std::vector<std::uint8_t> value;
  if (rank == 0) {
    value = make_ids(&ids);
    store.set(kKey, value);
  } else {
    value = store.get(kKey);
  }
  if (value.empty() || value[0] == 0) {
    C10_THROW_ERROR(DistBackendError, "tutti: rank 0 could not make the group's ids: " +
                                          std::string(value.begin() + (value.empty() ? 0 : 1), value.end()));
  }
  TORCH_CHECK(value.size() == 1 + sizeof(Ids), "tutti: the ids in the store are of another version of the plugin");
  std::memcpy(&ids, value.data() + 1, sizeof(Ids));
  return ids;
}

/// A later group of the same name in the same store must not meet this one's ids.
void withdraw_ids(c10d::Store& store, int rank) {
  if (rank != 0) return;
  try {
    store.deleteKey(kKey);
  } catch (const std::exception&) {  // a store that cannot delete
  }
}

/// Nor must a rank be through before they are gone: it may leave and come again at once. Through the Store, as what
/// goes wrong later in a communicator must not look like a join that failed.
void await_withdrawal(c10d::Store& store, const JoinRequest& request, const std::string& token) {
  const std::string key = "tutti/joined/" + token;
  try {
    if (request.rank == 0)
      store.set(key, std::vector<std::uint8_t>{1});
    else
      store.wait({key}, request.timeout.count() > 0 ? request.timeout : store.getTimeout());
  } catch (const std::exception&) {  // the store is gone, with rank 0 perhaps; the group is there
  }
}

}  // namespace

Joined join(c10d::Store& store, const JoinRequest& request) {
  const Ids ids = exchange_ids(store, request.rank);
  tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
  config.timeoutSeconds = std::chrono::duration<double>(request.timeout).count();
  config.joinTimeoutSeconds = config.timeoutSeconds;
  config.commName = request.name.c_str();
  config.wireType = request.wire_type;
  config.deterministic = request.deterministic;
  const std::string transfers_name = request.name + "/transfers";
  tuttiConfig_t transfers = config;
  transfers.commName = transfers_name.c_str();
  tuttiComm_t comms[3] = {};
  tuttiResult_t result = tuttiGroupStart();
  const auto add = [&](tuttiComm_t* comm, int ranks, const tuttiUniqueId& id, int rank, const tuttiConfig_t* settings) {
    if (result == tuttiSuccess) result = tuttiCommInitRankConfig(comm, ranks, id, rank, settings);
  };
  add(&comms[0], request.size, ids.collectives, request.rank, &config);
  add(&comms[1], 2 * request.size, ids.transfers, request.rank, &transfers);
  add(&comms[2], 2 * request.size, ids.transfers, request.size + request.rank, &transfers);
  const tuttiResult_t ended = tuttiGroupEnd();
  if (result == tuttiSuccess) result = ended;
  if (result != tuttiSuccess) {
    const std::string text = tuttiGetLastError(nullptr);
    withdraw_ids(store, request.rank);
    for (tuttiComm_t comm : comms) {
      if (comm != nullptr) static_cast<void>(tuttiCommAbort(comm));
    }
    C10_THROW_ERROR(DistBackendError, c10::str("tutti: rank ", request.rank, " could not join the process group: ",
                                               text, " (", tuttiGetErrorString(result), ")"));
  }
  Joined joined{std::make_shared<Endpoint>(comms[0]), std::make_shared<Endpoint>(comms[1]),
                std::make_shared<Endpoint>(comms[2]), std::to_string(ids.token)};
  withdraw_ids(store, request.rank);
  await_withdrawal(store, request, joined.token);
  return joined;
}

}  // namespace tutti_torch
