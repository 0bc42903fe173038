// A member is a rank of a communicator, as the others need to know it.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/units.h"
#include "net/address.h"
#include "net/message_fields.h"

namespace tutti {

/// The most ranks that a join accepts: the table of all ranks is one message, and joins are modelled and measured up to
/// so many.
inline constexpr int kMaxRanks = 131072;

/// Identifies a process for as long as its hub lives.
using ProcessId = std::array<std::byte, 16>;

/// Where a member runs. The ranks of a host have it in common, so a table has it once, also on its way.
struct MemberHost {
  std::string name{};                  ///< for texts
  std::string id{};                    ///< equal on ranks that may share a host
  std::uint64_t boot_id = 0;           ///< as in HostIdentity: equal on ranks that run on the same cores; 0 if unknown
  std::vector<IpAddress> addresses{};  ///< of the process

  auto operator<=>(const MemberHost&) const = default;
  /// An empty one, the same each time.
  static const std::shared_ptr<const MemberHost>& unknown();
};

/// What a member may use. Launchers that bind ranks to cores give each rank of a host others, but repeat that on every
/// host. So this is no part of MemberHost, and a table has each different one once.
struct MemberResources {
  std::string cores{};              ///< the cores that the rank's thread may use, such as "0,2-3"; empty if unknown
  std::uint64_t segment_bytes = 0;  ///< 0 if it has no segment
  std::string device{};             ///< its device, as DeviceInfo writes it; empty if it uses none

  auto operator<=>(const MemberResources&) const = default;
  /// An empty one, the same each time.
  static const std::shared_ptr<const MemberResources>& unknown();
};

struct Member {
  Rank rank = kNoRank;
  std::uint32_t pid = 0;
  ProcessId process{};
  std::shared_ptr<const MemberHost> host = MemberHost::unknown();                 ///< never null
  std::shared_ptr<const MemberResources> resources = MemberResources::unknown();  ///< never null
  std::uint16_t port = 0;
};

/// The name of the abstract unix socket of this process's hub.
std::string socket_name(const ProcessId& process);
/// "process 4711 on host x".
std::string describe(const Member& member);

/// A member that travels alone, with its rank, its host and its resources.
void member_fields(FieldWriter& io, const Member& member);
void member_fields(FieldReader& io, Member& member);
/// All members of a communicator by rank. Hosts and resources come once each, before the members, which name their
/// places there. A list has one writing: no host and no resources twice, and all in the order in which members first
/// name them.
void member_list_fields(FieldWriter& io, const std::vector<Member>& members);
void member_list_fields(FieldReader& io, std::vector<Member>& members);

}  // namespace tutti
