// Compares two members field by field.
#pragma once

#include <gtest/gtest.h>

#include "comm/messages/member.h"

namespace tutti::test {

inline void expect_equal(const Member& found, const Member& wanted) {
  EXPECT_EQ(found.rank, wanted.rank);
  EXPECT_EQ(found.pid, wanted.pid);
  EXPECT_EQ(found.process, wanted.process);
  EXPECT_EQ(*found.host, *wanted.host);
  EXPECT_EQ(*found.resources, *wanted.resources);
  EXPECT_EQ(found.port, wanted.port);
}

}  // namespace tutti::test
