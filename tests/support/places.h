// Directories and ports for ranks to meet at.
#pragma once

#include <gtest/gtest.h>

#include "support/joining_processes.h"
#include "support/ports.h"
#include "support/temporary_directory.h"

namespace tutti::test {

inline void expect_all_ok(const SharedPage& page, int ranks) {
  for (int rank = 0; rank < ranks; ++rank)
    EXPECT_EQ(page.code(rank), Code::kOk) << "rank " << rank << ": " << page.text(rank);
}

}  // namespace tutti::test
