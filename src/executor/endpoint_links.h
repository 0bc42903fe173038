// The links of an endpoint, for code that is compiled once and not once for each transport.
#pragma once

#include <cstddef>
#include <functional>

#include "executor/rank_links.h"

namespace tutti {

/// `endpoint` outlives this; `transfers` is its lane for sends and receives. An endpoint without connections has
/// delivered all that it has sent, and hears nobody.
template <Endpoint E>
class EndpointLinks final : public RankLinks {
 public:
  EndpointLinks(E& endpoint, Lane transfers) : endpoint_(endpoint), transfers_(transfers) {}

  Capabilities capabilities() const override { return endpoint_.capabilities(); }
  CallBoard& board() override { return endpoint_.board(); }
  const CallBoard* board(Rank peer) const override { return endpoint_.board(peer); }
  void make_progress() override {
    if constexpr (kNetwork) endpoint_.make_progress();
  }
  bool delivered() override {
    [[maybe_unused]] Rank late;
    if constexpr (kNetwork) return endpoint_.delivered(&late, {});
    return true;
  }
  bool transfers_delivered([[maybe_unused]] Rank* late,
                           [[maybe_unused]] const std::function<bool(Rank reader)>& receives) override {
    if constexpr (kNetwork)
      return endpoint_.delivered(late, [&](Rank reader, Lane lane) { return lane == transfers_ && receives(reader); });
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
  const Lane transfers_;
};

}  // namespace tutti
