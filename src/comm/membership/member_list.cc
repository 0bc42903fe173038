#include "comm/membership/member_list.h"

#include <map>
#include <memory>

namespace tutti {
namespace {

/// Gives equal values one place each, in the order in which they come.
template <class Value>
class Places {
 public:
  std::uint16_t of(const Value& value) {
    return places_.try_emplace(value, static_cast<std::uint16_t>(places_.size())).first->second;
  }
  std::vector<Value> values() const {
    std::vector<Value> values(places_.size());
    for (const auto& [value, place] : places_) values[place] = value;
    return values;
  }

 private:
  std::map<Value, std::uint16_t> places_;
};

}  // namespace

MemberList::MemberList(const std::vector<Member>& members) {
  Places<MemberHost> hosts;
  Places<std::string> devices;
  Places<std::uint64_t> segments;
  std::map<const MemberHost*, Place> seen_hosts;  // most members are on one that was seen before
  entries_.reserve(members.size());
  for (const Member& member : members) {
    const auto [seen, first] = seen_hosts.try_emplace(member.host.get(), Place{0});
    if (first) seen->second = hosts.of(*member.host);
    entries_.push_back({.process = member.process,
                        .pid = member.pid,
                        .host = seen->second,
                        .device = devices.of(member.device ? *member.device : std::string()),
                        .segment = segments.of(member.segment_bytes),
                        .port = member.port});
  }
  hosts_ = hosts.values();
  devices_ = devices.values();
  segment_bytes_ = segments.values();
}

Member MemberList::operator[](Rank rank) const {
  const Entry& there = entry(rank);
  Member member;
  member.rank = rank;
  member.pid = there.pid;
  member.process = there.process;
  member.host = std::make_shared<const MemberHost>(hosts_[there.host]);
  member.segment_bytes = segment_bytes_[there.segment];
  if (const std::string& device = devices_[there.device]; !device.empty())
    member.device = std::make_shared<const std::string>(device);
  member.port = there.port;
  return member;
}

}  // namespace tutti
