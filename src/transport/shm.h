// The shm endpoint: links in segments that local ranks map. See docs/design/links.md for layout and memory model.
#pragma once

#include <memory>
#include <vector>

#include "transport/segment.h"
#include "transport/transport.h"

namespace tutti {

/// Sizes that all ranks of a communicator agreed on at join; they fix the layout of every segment.
struct ShmGeometry {
  int ranks = 1;
  int lanes = 1;
  Bytes slot_bytes{256 * 1024};  ///< payload of a large slot: the largest message
  std::uint32_t slots = 4;       ///< large slots a link; at least 2

  /// Bytes of one rank's segment; sparse, pages appear when touched.
  Bytes segment_bytes() const;
};

}  // namespace tutti
