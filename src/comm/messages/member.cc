#include "comm/messages/member.h"

#include <algorithm>
#include <utility>

#include "comm/messages/part_numbers.h"

namespace tutti {
namespace {

constexpr std::size_t kMaxAddresses = 16;
constexpr std::size_t kAddressSize = 17;
constexpr std::size_t kPartSize = 16;                          // the fewest bytes of a host or of resources
constexpr std::size_t kMemberSize = 30;                        // likewise, of a member in a list
constexpr std::uint64_t kMaxSegment = std::uint64_t{1} << 46;  // an address space

template <class Io>
void part_fields(Io& io, Of<MemberHost> auto& m) {
  io.line(m.name);
  io.text(m.id);
  io(m.boot_id);
  io.list(m.addresses, kMaxAddresses, kAddressSize, [&](auto& address) {
    io(address.family, address.bytes);
    io.check(address.family == 4 || address.family == 6);
  });
}

template <class Io>
void part_fields(Io& io, Of<MemberResources> auto& m) {
  io.text(m.cores);
  io(m.segment_bytes);
  io.text(m.device);
  io.check(m.segment_bytes <= kMaxSegment);
}

/// A part that travels by itself.
template <class Part>
void whole_part(FieldWriter& io, const std::shared_ptr<const Part>& part) {
  part_fields(io, *part);
}

template <class Part>
void whole_part(FieldReader& io, std::shared_ptr<const Part>& part) {
  Part there;
  part_fields(io, there);
  part = std::make_shared<const Part>(std::move(there));
}

template <class Io>
void own_fields(Io& io, Of<Member> auto& m) {
  io(m.pid, m.process, m.port);
}

template <class Io>
void all_fields(Io& io, Of<Member> auto& m) {
  io(m.rank);
  io.check(m.rank.value >= 0 && m.rank.value < kMaxRanks);
  whole_part(io, m.host);
  whole_part(io, m.resources);
  own_fields(io, m);
}

/// The parts of one kind that members of a list have: reads them all, and then which of them each member has.
template <class Part>
class ListedParts {
 public:
  explicit ListedParts(FieldReader& io) : io_(io) {
    PartNumbers<Part> numbers;
    std::uint32_t expected = 0;
    io_.list(parts_, kMaxRanks, kPartSize, [&](auto& part) {
      whole_part(io_, part);
      io_.check(numbers.of(part.get()) == expected++);  // none comes twice
    });
  }
  void read(std::shared_ptr<const Part>& part) {
    std::uint32_t place = 0;
    io_(place);
    io_.check(place <= named_);
    if (place < parts_.size()) part = parts_[place];  // if it is not, are_all_named() will say no
    named_ = std::max(named_, place + 1);
  }
  bool are_all_named() const { return named_ == parts_.size(); }

 private:
  FieldReader& io_;
  std::vector<std::shared_ptr<const Part>> parts_;
  std::uint32_t named_ = 0;  // so many have been named by members
};

template <class Part>
void write_parts(FieldWriter& io, const PartNumbers<Part>& numbers) {
  io.list(numbers.parts(), kMaxRanks, kPartSize, [&](const Part* part) { part_fields(io, *part); });
}

template <class Part>
const std::shared_ptr<const Part>& empty_part() {
  // Never freed: the service thread may run when the process's static objects are destroyed.
  static const auto* const empty = new std::shared_ptr<const Part>(std::make_shared<const Part>());
  return *empty;
}

}  // namespace

const std::shared_ptr<const MemberHost>& MemberHost::unknown() { return empty_part<MemberHost>(); }

const std::shared_ptr<const MemberResources>& MemberResources::unknown() { return empty_part<MemberResources>(); }

std::string socket_name(const ProcessId& process) { return "tutti-" + to_hex(process); }

std::string describe(const Member& member) {
  return fmt::format("process {} on host {}", member.pid, member.host->name);
}

void member_fields(FieldWriter& io, const Member& member) { all_fields(io, member); }

void member_fields(FieldReader& io, Member& member) { all_fields(io, member); }

void member_list_fields(FieldWriter& io, const std::vector<Member>& members) {
  PartNumbers<MemberHost> hosts;
  PartNumbers<MemberResources> resources;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> places;
  places.reserve(members.size());
  for (const Member& member : members)
    places.emplace_back(hosts.of(member.host.get()), resources.of(member.resources.get()));
  write_parts(io, hosts);
  write_parts(io, resources);
  auto place = places.begin();
  io.list(members, kMaxRanks, kMemberSize, [&](const Member& member) {
    io(place->first, place->second);
    ++place;
    own_fields(io, member);
  });
}

void member_list_fields(FieldReader& io, std::vector<Member>& members) {
  ListedParts<MemberHost> hosts(io);
  ListedParts<MemberResources> resources(io);
  Rank next{0};
  io.list(members, kMaxRanks, kMemberSize, [&](Member& member) {
    member.rank = next;
    ++next;
    hosts.read(member.host);
    resources.read(member.resources);
    own_fields(io, member);
  });
  io.check(hosts.are_all_named() && resources.are_all_named());
}

}  // namespace tutti
