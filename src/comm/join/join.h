// Joining: from a unique id to a communicator's membership and the peers' segments.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "comm/membership/membership.h"
#include "comm/membership/process_order.h"
#include "comm/messages/messages.h"
#include "core/clock.h"
#include "core/settings.h"
#include "core/status.h"
#include "core/units.h"
#include "net/crypto.h"
#include "transport/shm/rank_segments.h"
#include "transport/tcp/tcp_stream_source.h"

namespace tutti {

struct JoinRequest {
  IdBytes id{};
  int ranks = 0;
  Rank rank = kNoRank;
  Deadline deadline = Deadline::never();
  std::string name;  ///< commName, for logs
  std::vector<AgreedSetting> agreed;
  std::string costs_text;  ///< rank 0's text holds for all ranks; that of others is ignored
  Settings settings;
  std::vector<int> cores;         ///< the cores that this rank may use, ascending; empty if unknown
  std::string device;             ///< a DeviceInfo, which all ranks get; empty if this rank uses no device
  Bytes segment_bytes{0};         ///< this rank's shared memory, which all ranks of its host map; 0 if it has none
  bool has_whole_secret = false;  ///< the id's secret is not to be mixed with that of TUTTI_SECRET_FILE
  /// The joining thread calls it now and then. An error that it returns ends the join on all ranks. If it is empty,
  /// nothing but the join itself can end the join.
  std::function<Status()> check;
  /// If there are at most so many processes, each connects to all others; if there are more, each connects to a few
  /// (process_order.h). It is equal on all ranks.
  std::size_t mesh = kMeshProcesses;
};

struct JoinResult {
  std::unique_ptr<Membership> membership;
  /// The memory of the ranks of this host. A process maps the memory of its host once, and its ranks share it.
  RankSegments segments;
  std::unique_ptr<TcpStreamSource>
      tcp_streams;              ///< connections to any other rank, whatever its host; uses the membership's hub
  std::vector<int> hosts;       ///< by rank: equal numbers share a host; counted from 0 in order of first rank
  std::vector<int> processes;   ///< by rank: equal numbers share a process, counted likewise
  bool single_process = false;  ///< every rank lives in this process
  bool all_mapped = false;      ///< every rank's segment could be mapped
  bool same_host_id = false;    ///< all ranks have the same host id, whether or not they share memory
  std::string costs_text;       ///< rank 0's text, which holds for all
  int same_boot_ranks = 1;      ///< ranks that run on the cores that this one runs on, itself included
  int same_boot_cores = 1;      ///< the cores that these ranks have together: see cores_among()
  int ranks_per_core = 1;       ///< as Machine::ranks_per_core
};

/// Finds the secret that belongs to an id's nonce.
using SecretOf = std::function<Status(const KeyId& nonce, Key* secret)>;
/// Makes an id and serves it from this process's hub until it is used or the process ends. Its secret is what
/// `secret_of` finds for its nonce, or random if `secret_of` is empty.
Status make_unique_id(const Settings& settings, IdBytes* id, const SecretOf& secret_of = {});

/// Ends the service of an id that nobody has joined by.
void withdraw_unique_id(const Settings& settings, const IdBytes& id);

/// Returns kInvalidArgument unless the number of ranks is allowed and the rank is one of them.
Status check_ranks(const JoinRequest& request);

/// Joins. Blocks until all ranks have joined, the deadline has passed or the join has failed. If it fails, every rank
/// that takes part gets a status, which names the ranks at fault: a rank is missing (kTimeout), a rank joined twice or
/// with another number of ranks (kInvalidArgument on all ranks), or settings differ (kMismatch on all ranks).
Status join(const JoinRequest& request, JoinResult* result);

/// Runs in the joining thread after this rank has connected to its neighbours and before join() returns on any rank. It
/// can remove what led the ranks to each other, such as a file. If it fails, the join fails on all ranks. It may be
/// empty.
using BeforeReady = std::function<Status()>;
Status join(const JoinRequest& request, const BeforeReady& before_ready, JoinResult* result);

/// What became of an id in a join.
enum class IdService : std::uint8_t {
  kServed,   ///< a root accepted this rank, or reported that this join failed
  kRefused,  ///< nobody serves it, or it was used up; no other rank knows of this attempt
  kSilent,   ///< nobody has answered
};
/// A join by an id that may be of no use any more.
struct JoinAttempt {
  std::function<bool()> in_vain;           ///< asked each 50 ms while nobody has answered; true gives the attempt up
  IdService service = IdService::kServed;  ///< kServed also if the join failed before anybody was asked
};
Status join(const JoinRequest& request, JoinAttempt* attempt, JoinResult* result);

}  // namespace tutti
