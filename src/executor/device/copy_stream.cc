#include "executor/device/copy_stream.h"

#include "executor/device/device_launch.h"

namespace tutti {

bool CopyStream::is_foreign(const std::byte* buffer) const {
  const int owner = buffer == nullptr ? -1 : driver.place_of(buffer).device;
  return owner >= 0 && owner != device;
}

Status CopyStream::copy(const RowsCopy& rows, bool foreign) const {
  if (rows.width == 0) return {};
  if (!foreign) return copy_rows(driver, device, stream, rows);
  for (std::size_t row = 0; row < rows.rows; ++row) {
    auto* const to = static_cast<std::byte*>(rows.to) + row * rows.to_pitch;
    const auto* const from = static_cast<const std::byte*>(rows.from) + row * rows.from_pitch;
    TUTTI_TRY(copy(to, from, Bytes{rows.width}));
  }
  return {};
}

}  // namespace tutti
