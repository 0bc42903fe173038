// The stand-in's kernels, which run on the host, and copies of rows.
#include <memory>

#include "support/device/host_grid.h"
#include "support/device/stand_in_driver.h"

namespace tutti::test {

namespace {
constexpr std::uint32_t kThreads = 2;  // of a block
}  // namespace

Status StandInDriver::launch(int device, Stream stream, const Kernel& kernel, unsigned, const void* parameter) {
  count("launch");
  // CUDA would load it now, which may wait for all streams.
  if (const std::lock_guard lock(mutex_); !loaded_.contains({device, &kernel}))
    return fail(Code::kUnhandledCudaError, "launch: the kernel was not loaded");
  if (&kernel == &pass_kernel()) return run(stream, *static_cast<const DevicePass*>(parameter));
  if (&kernel == &rows_kernel()) return run(device, stream, *static_cast<const RowsCopy*>(parameter));
  return run(device, stream, *static_cast<const DeviceCall*>(parameter));
}

Status StandInDriver::run(int device, Stream stream, RowsCopy copy) {
  TUTTI_TRY(check_rows(device, copy.to, copy.from));
  TUTTI_TRY(failure("copy"));
  copy.to = reveal(copy.to);
  copy.from = reveal(copy.from);
  put_kernel(stream, [copy] {
    for (std::size_t thread = 0; thread < kThreads; ++thread) device::copy_rows(thread, kThreads, copy);
  });
  return {};
}

Status StandInDriver::run(int device, Stream stream, const DeviceCall& call) {
  TUTTI_TRY(failure("launch"));
  TUTTI_TRY(check_device(device, stream, "launch"));
  const std::size_t number = launches_++;
  if (call.lends) ++lending_launches_;
  const auto copied = std::make_shared<const DeviceCall>(call);
  if (number - skipped_from_ < skipped_count_) return {};
  put_kernel(stream, [copied, processors = processors_of(device)] {
    processors->run(copied->grid(), [&] { run_on_host(*copied, kThreads); });
  });
  if (damage_results_) put_kernel(stream, [copied] { copied->binding.output[0] ^= std::byte{1}; });
  return {};
}

Status StandInDriver::run(Stream stream, const DevicePass& pass) {
  TUTTI_TRY(failure("launch"));
  put_kernel(stream, [pass] {
    for (std::size_t thread = 0; thread < kThreads; ++thread) device::run_pass(thread, kThreads, pass);
  });
  return {};
}

Status StandInDriver::check_rows(int device, const void* to, const void* from) {
  for (const Place place : {place_of(to), place_of(from)})
    if (place.device >= 0 && place.device != device)
      return fail(Code::kUnhandledCudaError, "copy_rows: memory of device {}, not {}", place.device, device);
  return {};
}

Status StandInDriver::copy_rows(int device, void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch,
                                std::size_t width, std::size_t rows, Stream stream) {
  count("copy_rows");
  TUTTI_TRY(check_rows(device, to, from));
  for (std::size_t row = 0; row < rows; ++row)
    TUTTI_TRY(copy(device, static_cast<std::byte*>(to) + row * to_pitch,
                   static_cast<const std::byte*>(from) + row * from_pitch, Bytes{width}, stream));
  return {};
}

}  // namespace tutti::test
