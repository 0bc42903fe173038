// The device's reductions compiled for the host, by type and operation.
#pragma once

#include <array>
#include <thread>
#include <vector>

#include "kernels/device/device_reduction.h"

namespace tutti {

using DeviceReduce = void (*)(unsigned thread, unsigned threads, const device::ReduceArgs&);

struct DeviceTable {
  struct Entry {
    DeviceReduce reduce = nullptr;
    std::size_t element = 0;  ///< bytes of the format's element
  };
  std::array<std::array<Entry, kRedOps>, kDataTypes> entries;

  template <class Format, class Op>
  void add(DataType type, RedOp op) {
    entries[static_cast<int>(type)][static_cast<int>(op)] = {device::reduce<Format, Op>,
                                                             sizeof(typename Format::Storage)};
  }
};

inline DeviceTable::Entry device_reduction(DataType type, RedOp op) {
  static const DeviceTable table = [] {
    DeviceTable filled;
    portable::list_reductions(filled);
    return filled;
  }();
  return table.entries[static_cast<int>(type)][static_cast<int>(op)];
}

/// Calls body(thread) for every thread of a group: at the same time, or one after the other, the last one first.
template <class Body>
void run_group(unsigned threads, bool at_once, const Body& body) {
  if (!at_once) {
    for (unsigned thread = threads; thread-- > 0;) body(thread);
    return;
  }
  std::vector<std::thread> group;
  for (unsigned thread = 0; thread < threads; ++thread) group.emplace_back([&body, thread] { body(thread); });
  for (std::thread& thread : group) thread.join();
}

}  // namespace tutti
