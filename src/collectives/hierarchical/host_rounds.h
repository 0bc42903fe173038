// The rounds of a recursive exchange among hosts: in each of them hosts meet in groups, and after the last one each has
// met, by way of others, all (recursive doubling with groups of up to seven in the place of pairs: "recursive
// multiplying", Ruefenacht, Bull, Booth 2017). Groups of four take half of the hops of pairs for three messages instead
// of two; where a message costs some microseconds of processor time and a hop ten or more that is fewer microseconds.
//
// H hosts have P places, the largest number up to H of the form m 2^k with m up to seven. The first round has groups of
// m, the others of four, and the last of two where k is odd; distances are 1, m, 4m, 16m ... The H - P < H/4 hosts
// beyond the places are guests of hosts 0, 1, ...: they hand over what they have and get the result back. constexpr,
// host and device.
#pragma once

#include "collectives/hierarchical/host_layout.h"
#include "schedule/step.h"

namespace tutti::host_rounds {

/// The k of P = m 2^k.
TUTTI_HD constexpr std::int32_t doublings(const Shape& s) {
  const std::int32_t log = floor_log2(hosts::count(s));
  return log > 2 ? log - 2 : 0;
}
TUTTI_HD constexpr std::int32_t first_members(const Shape& s) { return hosts::count(s) >> doublings(s); }
TUTTI_HD constexpr std::int32_t places(const Shape& s) { return first_members(s) << doublings(s); }
TUTTI_HD constexpr std::int32_t count(const Shape& s) { return 1 + (doublings(s) + 1) / 2; }

TUTTI_HD constexpr HostGroup group(const Shape& s, std::int32_t round) {
  if (round == 0) return HostGroup{1, first_members(s)};
  const std::int32_t before = 2 * (round - 1);
  return HostGroup{first_members(s) << before, doublings(s) - before > 1 ? 4 : 2};
}

TUTTI_HD constexpr bool is_guest(const Shape& s, std::int32_t host) { return host >= places(s); }
TUTTI_HD constexpr bool has_guest(const Shape& s, std::int32_t host) { return host < hosts::count(s) - places(s); }
/// The host of a guest, and the guest of a host.
TUTTI_HD constexpr std::int32_t host_of_guest(const Shape& s, std::int32_t guest) { return guest - places(s); }
TUTTI_HD constexpr std::int32_t guest_of(const Shape& s, std::int32_t host) { return host + places(s); }

/// The k-th other member of a host's group, from the next one on, so that not all send to the same one first.
TUTTI_HD constexpr std::int32_t member(const HostGroup& group, std::int32_t host, std::int32_t k) {
  return group.first_of(host) + wrap(group.place_of(host) + 1 + k, group.members) * group.distance;
}

/// The parts that a place works on, of those into which the rounds that scatter divide a share.
struct Range {
  std::int32_t begin;
  std::int32_t size;
};
TUTTI_HD constexpr std::int32_t parts(const Shape& s, std::int32_t rounds) {
  std::int32_t parts = 1;
  for (std::int32_t r = 0; r < rounds; ++r) parts *= group(s, r).members;
  return parts;
}
TUTTI_HD constexpr Range range_after(const Shape& s, std::int32_t rounds, std::int32_t host, std::int32_t done) {
  Range range{0, parts(s, rounds)};
  for (std::int32_t r = 0; r < done; ++r) {
    const HostGroup g = group(s, r);
    range.size /= g.members;
    range.begin += g.place_of(host) * range.size;
  }
  return range;
}

}  // namespace tutti::host_rounds
