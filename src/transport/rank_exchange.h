// How the ranks of a communicator exchange data while it is being made.
#pragma once

#include <cstddef>
#include <cstring>
#include <span>
#include <type_traits>
#include <vector>

#include "core/status.h"

namespace tutti {

/// All ranks that take part make the same exchanges in the same order. One thread at a time.
class RankExchange {
 public:
  virtual ~RankExchange() = default;

  /// Blocks until every rank has brought its bytes, as many as each other one; `all` then holds those of all, in rank
  /// order. A failure is final, and names the rank that died or did not come.
  virtual Status exchange(std::span<const std::byte> mine, std::vector<std::byte>* all) = 0;
  /// The number, in the communicator, of the rank whose bytes are the i-th. For texts.
  virtual int number(std::size_t i) const { return static_cast<int>(i); }

  /// Exchanges plain data. What others brought is to be checked like any message.
  template <class T>
  Status exchange_plain(const T& mine, std::vector<T>* all) {
    static_assert(std::is_trivially_copyable_v<T>);
    std::vector<std::byte> bytes;
    TUTTI_TRY(exchange(std::as_bytes(std::span(&mine, 1)), &bytes));
    all->resize(bytes.size() / sizeof(T));
    std::memcpy(all->data(), bytes.data(), all->size() * sizeof(T));
    return {};
  }
  /// Exchanges statuses and returns the same one on all ranks: if several are not ok, that of the lowest rank that
  /// found more than that others are late.
  Status agree(const Status& mine);
};

}  // namespace tutti
