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
#include "comm/membership/messages.h"
#include "comm/membership/process_order.h"
#include "core/clock.h"
#include "core/settings.h"
#include "core/status.h"
#include "core/units.h"
#include "net/crypto.h"
#include "transport/shm/segment.h"
#include "transport/tcp/tcp_stream_source.h"

namespace tutti {

struct JoinRequest {
  IdBytes id{};
  int ranks = 0;
  Rank rank = kNoRank;
  Deadline deadline = Deadline::never();
  std::string name;  ///< commName, for logs
  std::vector<AgreedSetting> agreed;
  std::string costs_text;  ///< rank 0's holds for all ranks; others' is ignored
  Settings settings;
  std::vector<int> cores;  ///< that this rank may use, ascending; empty: unknown
  std::string device;      ///< a DeviceInfo that all ranks are told; empty if this one uses no device
  Bytes segment_bytes{0};  ///< this rank's shared memory, which all ranks of its host map; 0: none
  /// Asked by the joining thread now and then: not ok ends the join, for all ranks, by that; empty: nothing but the
  /// join itself can end it.
  std::function<Status()> check;
  /// Up to so many processes each is connected to all others, more of them to a few (process_order.h). Equal on all
  /// ranks.
  std::size_t mesh = kMeshProcesses;
};

struct JoinResult {
  std::unique_ptr<Membership> membership;
  std::vector<std::shared_ptr<Segment>>
      segments;  ///< by rank; a process maps the memory of its host once, its ranks share it; nullptr: other host
  std::unique_ptr<TcpStreamSource>
      tcp_streams;                   ///< connections to any other rank, whatever its host; uses the membership's hub
  std::vector<int> hosts;            ///< by rank: equal numbers share a host; counted from 0 in order of first rank
  std::vector<int> processes;        ///< by rank: likewise, of processes
  std::vector<std::string> devices;  ///< by rank: what each said of its device
  bool single_process = false;       ///< every rank lives in this process
  bool all_mapped = false;           ///< every rank's segment could be mapped
  bool same_host_id = false;         ///< all ranks have the same host id, whether or not they share memory
  std::string costs_text;            ///< of rank 0, for all
  int same_boot_ranks = 1;           ///< ranks that run on the cores that this one runs on, itself included
  int same_boot_cores = 1;           ///< cores that there are for these: see cores_among()
};

/// The secret that belongs to an id's nonce.
using SecretOf = std::function<Status(const KeyId& nonce, Key* secret)>;
/// Makes an id and serves it from this process's hub until it is used or the process ends. Its secret is random, or
/// `secret_of` its nonce.
Status make_unique_id(const Settings& settings, IdBytes* id, const SecretOf& secret_of = {});

/// Takes an id back that nobody has joined by.
void withdraw_unique_id(const Settings& settings, const IdBytes& id);

/// kInvalidArgument unless it is a rank of as many ranks as a communicator may have.
Status check_ranks(const JoinRequest& request);

/// Joins. Blocks until all ranks joined, the deadline passed or the join failed; on failure every rank that takes part
/// gets a status, and the one that decided it names the ranks: a missing rank (kTimeout), a duplicate rank or another
/// number of ranks (kInvalidArgument on all), settings that differ (kMismatch on all).
Status join(const JoinRequest& request, JoinResult* result);

/// Runs in the joining thread after this rank has linked to its neighbours and before join() returns on any rank: the
/// place to take away what led the ranks here. If it fails, all ranks fail. May be empty.
using BeforeReady = std::function<Status()>;
Status join(const JoinRequest& request, const BeforeReady& before_ready, JoinResult* result);

/// What became of an id in a join.
enum class IdService : std::uint8_t {
  kServed,   ///< a root took this rank in, or spoke of this join's failure
  kRefused,  ///< nobody serves it, or it was used up: nobody knows of this attempt
  kSilent,   ///< nobody has answered
};
/// A join by an id that may be of no use any more.
struct JoinAttempt {
  std::function<bool()> in_vain;           ///< asked each 50 ms while nobody has answered: true gives it up
  IdService service = IdService::kServed;  ///< kServed also if the join failed before anybody was asked
};
Status join(const JoinRequest& request, JoinAttempt* attempt, JoinResult* result);

}  // namespace tutti
