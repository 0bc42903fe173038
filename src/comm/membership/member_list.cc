#include "comm/membership/member_list.h"

#include <memory>

#include "comm/messages/part_numbers.h"

namespace tutti {
namespace {

/// Copies the parts that differ.
template <class Part>
std::vector<Part> copies(const PartNumbers<Part>& numbers) {
  std::vector<Part> parts;
  parts.reserve(numbers.parts().size());
  for (const Part* part : numbers.parts()) parts.push_back(*part);
  return parts;
}

}  // namespace

MemberList::MemberList(const std::vector<Member>& members) {
  PartNumbers<MemberHost> hosts;
  PartNumbers<MemberResources> resources;
  std::vector<std::uint32_t> host_numbers;
  std::vector<std::uint32_t> resource_numbers;
  processes_.reserve(members.size());
  pids_.reserve(members.size());
  ports_.reserve(members.size());
  host_numbers.reserve(members.size());
  resource_numbers.reserve(members.size());
  for (const Member& member : members) {
    processes_.push_back(member.process);
    pids_.push_back(member.pid);
    ports_.push_back(member.port);
    host_numbers.push_back(hosts.of(member.host.get()));
    resource_numbers.push_back(resources.of(member.resources.get()));
  }
  host_numbers_ = CompactNumbers(host_numbers);
  resource_numbers_ = CompactNumbers(resource_numbers);
  hosts_ = copies(hosts);
  resources_ = copies(resources);
}

Member MemberList::operator[](Rank rank) const {
  Member member;
  member.rank = rank;
  member.pid = pids_[index(rank)];
  member.process = process(rank);
  member.host = std::make_shared<const MemberHost>(host(rank));
  member.resources = std::make_shared<const MemberResources>(resources(rank));
  member.port = ports_[index(rank)];
  return member;
}

}  // namespace tutti
