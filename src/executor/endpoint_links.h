// The links of an endpoint, for code that is compiled once and not once for each transport.
#pragma once

#include <cstddef>

#include "executor/rank_links.h"

namespace tutti {

/// `endpoint` outlives this. An endpoint without connections has delivered all that it has sent, and hears nobody.
template <Endpoint E>
class EndpointLinks final : public RankLinks {
 public:
  explicit EndpointLinks(E& endpoint) : endpoint_(endpoint) {}

  Capabilities capabilities() const override { return endpoint_.capabilities(); }
  CallBoard& board() override { return endpoint_.board(); }
  const CallBoard* board(Rank peer) const override { return endpoint_.board(peer); }
  void make_progress() override {
    if constexpr (kNetwork) endpoint_.make_progress();
  }
  bool delivered([[maybe_unused]] Rank* late, [[maybe_unused]] const Receives& receives) override {
    if constexpr (kNetwork) return endpoint_.delivered(late, receives);
    return true;
  }
  bool hears([[maybe_unused]] Rank peer) override {
    if constexpr (kNetwork) return endpoint_.hears(peer);
    return false;
  }
  std::uint64_t bytes_moved() const override {
    if constexpr (kNetwork) return endpoint_.bytes_moved();
    return 0;
  }
  /// How much private memory is held for messages.
  std::size_t memory_bytes() const {
    if constexpr (kNetwork) return endpoint_.memory_bytes();
    return 0;
  }
  void announce_sleep() override { endpoint_.announce_sleep(kNoRank); }
  void cancel_sleep() override { endpoint_.cancel_sleep(); }
  void wake() override { endpoint_.wake(); }

 private:
  static constexpr bool kNetwork = NetworkEndpoint<E>;

  E& endpoint_;
};

}  // namespace tutti
