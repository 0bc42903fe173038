#include "executor/host_gather.h"

namespace tutti {

Status gather_bytes(Executor& host, const Schedule& all_gather, std::uint64_t number, std::span<const std::byte> mine,
                    std::vector<std::byte>* all, WaitMonitor& monitor) {
  all->resize(mine.size() * all_gather.extent.output_blocks);
  Launch launch;
  launch.schedule = &all_gather;
  launch.carry(DataType::kUint8);
  launch.input = mine.data();
  launch.output = all->data();
  launch.count = launch.tile = Elems{mine.size()};
  launch.fingerprint = mix64(mine.size() << 32 | number);
  const Status ended = host.run(launch, monitor);
  if (!ended.ok()) host.abandon();
  return ended;
}

}  // namespace tutti
