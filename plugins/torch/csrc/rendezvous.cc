#include "rendezvous.h"

#include <cstring>
#include <random>

#include <c10/util/Exception.h>

#include "gloo_peers.h"

namespace tutti_torch {
namespace {

constexpr const char* kKey = "tutti/ids";
constexpr std::uint8_t kRefusal = 0;
constexpr std::uint8_t kIds = 1;

/// Puts a byte into the Store that says what follows it: ids, or the sentence that says why there are none.
void publish(c10d::Store& store, const std::string& key, std::uint8_t kind, const void* content, std::size_t size) {
  std::vector<std::uint8_t> value{kind};
  const auto* bytes = static_cast<const std::uint8_t*>(content);
  value.insert(value.end(), bytes, bytes + size);
  store.set(key, value);
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

void publish_refusal(c10d::Store& store, const std::string& key, const std::string& sentence) {
  publish(store, key, kRefusal, sentence.data(), sentence.size());
}

Ids publish_ids(c10d::Store& store, const std::string& key) {
  Ids ids{};
  tuttiResult_t result = tuttiGetUniqueId(&ids.collectives);
  if (result == tuttiSuccess) result = tuttiGetUniqueId(&ids.transfers);
  if (result != tuttiSuccess) {
    const std::string text = std::string("rank 0 could not make the group's ids: ") + tuttiGetLastError(nullptr);
    publish_refusal(store, key, text);
    C10_THROW_ERROR(DistBackendError, "tutti: " + text);
  }
  std::random_device random;
  ids.token = std::uint64_t{random()} << 32 | random();
  publish(store, key, kIds, &ids, sizeof ids);
  return ids;
}

Ids read_ids(c10d::Store& store, const std::string& key) {
  Ids ids{};
  const std::vector<std::uint8_t> value = store.get(key);
  if (value.empty() || value[0] == kRefusal) {
    C10_THROW_ERROR(DistBackendError, "tutti: " + std::string(value.begin() + (value.empty() ? 0 : 1), value.end()));
  }
  TORCH_CHECK(value.size() == 1 + sizeof(Ids), "tutti: the ids in the store are of another version of the plugin");
  std::memcpy(&ids, value.data() + 1, sizeof(Ids));
  return ids;
}

Joined join_by(const Ids& ids, const JoinRequest& request) {
  tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
  config.timeoutSeconds = std::chrono::duration<double>(request.timeout).count();
  config.joinTimeoutSeconds = std::chrono::duration<double>(request.join_timeout).count();
  config.commName = request.name.c_str();
  config.wireType = request.wire_type;
  config.deterministic = request.deterministic;
  config.device = TUTTI_NO_DEVICE;  // tensors on devices have communicators of their own, see device_comms.h
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
    for (tuttiComm_t comm : comms) {
      if (comm != nullptr) static_cast<void>(tuttiCommAbort(comm));
    }
    C10_THROW_ERROR(DistBackendError, c10::str("tutti: rank ", request.rank, " could not join the process group: ",
                                               result == tuttiTimeout ? "timed out: " : "", text, " (",
                                               tuttiGetErrorString(result), ")"));
  }
  return {std::make_shared<Endpoint>(comms[0]), std::make_shared<Endpoint>(comms[1], request.size),
          std::make_shared<Endpoint>(comms[2], request.size), std::to_string(ids.token), request.name};
}

namespace {

Ids meet(c10d::Store& store, const JoinRequest& request) {
  if (request.rank == 0) {
    if (request.may_meet_gloo) await_announcements(store, request, kKey);
    return publish_ids(store, kKey);
  }
  return request.may_meet_gloo ? announce(store, request, kKey) : read_ids(store, kKey);
}

}  // namespace

Joined join(c10d::Store& store, const JoinRequest& request) {
  const Ids ids = meet(store, request);
  try {
    const Joined joined = join_by(ids, request);
    withdraw_ids(store, request.rank);
    await_withdrawal(store, request, joined.token);
    return joined;
  } catch (const c10::Error&) {
    withdraw_ids(store, request.rank);
    throw;
  }
}

}  // namespace tutti_torch
