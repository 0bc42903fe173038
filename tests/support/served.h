// An id that a hub serves while a test lasts.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <memory>

#include "comm/join/join.h"
#include "comm/membership/hub.h"
#include "comm/messages/unique_id.h"
#include "core/settings.h"

namespace tutti::test {

/// For a scope.
class Served {
 public:
  explicit Served(const Settings& settings = {}) : settings_(settings) {
    EXPECT_TRUE(make_unique_id(settings, &bytes_).ok());
    EXPECT_TRUE(UniqueId::decode(bytes_, &id_).ok());
    EXPECT_TRUE(Hub::acquire(settings, &hub_).ok());
  }
  ~Served() { withdraw_unique_id(settings_, bytes_); }
  Served(const Served&) = delete;
  Served& operator=(const Served&) = delete;
  const IdBytes& bytes() const { return bytes_; }
  const UniqueId& id() const { return id_; }
  std::ptrdiff_t most_pending() const { return static_cast<std::ptrdiff_t>(hub_->pending().most()); }

 private:
  const Settings settings_;
  IdBytes bytes_{};
  UniqueId id_;
  std::shared_ptr<Hub> hub_;
};

}  // namespace tutti::test
