#include "executor/host_gather.h"

namespace tutti {

Status gather_bytes(Executor& host, const Algorithm& all_gather, Rank rank, int ranks, std::uint64_t number,
                    std::span<const std::byte> mine, std::vector<std::byte>* all, Watch& watch) {
  all->resize(mine.size() * static_cast<std::size_t>(ranks));
  const Schedule schedule = build_schedule(all_gather, Shape{ranks, rank.value, 0, 1, nullptr});
  Launch launch;
  launch.schedule = &schedule;
  launch.carry(DataType::kUint8);
  launch.input = mine.data();
  launch.output = all->data();
  launch.count = launch.tile = Elems{mine.size()};
  launch.fingerprint = mix64(mine.size() << 32 | number);
  const Status ended = host.run(launch, watch);
  if (!ended.ok()) host.abandon();
  return ended;
}

}  // namespace tutti
