// A device of torch whose memory, streams and events are those of the stand-in for a GPU: for tests of what a backend
// does with devices, where there is none. What is put on a stream runs when the stream comes to it, on another thread.
// Freed memory goes back when the stream that it was allocated on comes to that, and the streams that the allocator was
// told of; then it cannot be touched any more. Operations that are not written here run on the CPU, on copies.
#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include <ATen/EmptyTensor.h>
#include <ATen/InferSize.h>
#include <ATen/TensorUtils.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <ATen/native/CPUFallback.h>
#include <ATen/native/Resize.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/extension.h>

#include "stand_in_library.h"

namespace {

constexpr c10::DeviceType kType = c10::DeviceType::PrivateUse1;
constexpr int kPool = 8;  // streams of a device besides the default one
constexpr int kMostDevices = 8;

int devices = 0;
thread_local c10::DeviceIndex current_device = 0;
thread_local c10::StreamId current_streams[kMostDevices] = {};

c10::DeviceIndex index_of(const c10::Device& device) { return device.has_index() ? device.index() : current_device; }

/// The handles of a device's streams; 0 is the default one. Made when they are first used.
void* handle_of(const c10::Stream& stream) {
  static std::mutex mutex;
  static auto* handles = new std::map<std::pair<int, c10::StreamId>, void*>;
  const std::lock_guard<std::mutex> lock(mutex);
  void*& handle = (*handles)[{stream.device_index(), stream.id()}];
  if (handle == nullptr) handle = tuttiStandInCreateStream(stream.device_index());
  return handle;
}

c10::Stream stream_of(c10::DeviceIndex device, c10::StreamId id) {
  return c10::Stream(c10::Stream::UNSAFE, c10::Device(kType, device), id);
}
c10::Stream current_stream(c10::DeviceIndex device) { return stream_of(device, current_streams[device]); }

/// A graph runs work more than once; it is never freed.
std::atomic<bool> captures{false};

void put(const c10::Stream& stream, std::function<void()> work) {
  using Work = std::function<void()>;
  const auto repeat = [](void* user) { (*static_cast<Work*>(user))(); };
  const auto run = [](void* user) { (*std::unique_ptr<Work>(static_cast<Work*>(user)))(); };
  if (captures)
    tuttiStandInPut(handle_of(stream), repeat, new Work(std::move(work)));
  else
    tuttiStandInPut(handle_of(stream), run, new Work(std::move(work)));
}
void synchronize(const c10::Stream& stream) { tuttiStandInSynchronize(handle_of(stream)); }

/// Memory goes back in the order of streams.
class Allocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) override {
    const c10::Device device(kType, current_device);
    void* const data = bytes == 0 ? nullptr : tuttiStandInAllocate(current_device, bytes);
    TORCH_CHECK(data != nullptr || bytes == 0, "no memory of the stand-in");
    if (data != nullptr) {
      const std::lock_guard<std::mutex> lock(mutex_);
      users_[data] = {current_stream(current_device)};
    }
    return {data, data, &Allocator::give_back, device};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &Allocator::give_back; }
  void copy_data(void*, const void*, std::size_t) const override { TORCH_CHECK(false, "not on this device"); }

  void add_user(void* data, const c10::Stream& stream) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = users_.find(data);
    if (found != users_.end()) found->second.push_back(stream);
  }
  static Allocator& the() {
    static auto* allocator = new Allocator;
    return *allocator;
  }

 private:
  static void give_back(void* data) {
    if (data == nullptr) return;
    std::vector<c10::Stream> users;
    {
      const std::lock_guard<std::mutex> lock(the().mutex_);
      const auto found = the().users_.find(data);
      users = found->second;
      the().users_.erase(found);
    }
    const int device = users.front().device_index();
    const auto last = std::shared_ptr<void>(data, [device](void* memory) { tuttiStandInFree(device, memory); });
    for (const c10::Stream& user : users) {
      auto held = std::make_shared<std::shared_ptr<void>>(last);
      put(user, [held] { held->reset(); });
    }
  }
  std::mutex mutex_;
  std::map<void*, std::vector<c10::Stream>> users_;
};
REGISTER_ALLOCATOR(kType, &Allocator::the())

struct Guard final : c10::impl::DeviceGuardImplInterface {
  Guard() = default;
  explicit Guard(c10::DeviceType) {}
  c10::DeviceType type() const override { return kType; }
  c10::Device exchangeDevice(c10::Device device) const override {
    const c10::Device before = getDevice();
    setDevice(device);
    return before;
  }
  c10::Device getDevice() const override { return {kType, current_device}; }
  void setDevice(c10::Device device) const override {
    TORCH_CHECK(device.index() < devices, "there is no device ", device);
    uncheckedSetDevice(device);
  }
  void uncheckedSetDevice(c10::Device device) const noexcept override {
    if (!device.has_index()) return;
    current_device = device.index();
    tuttiStandInUse(current_device);
  }
  c10::Stream getStream(c10::Device device) const override { return ::current_stream(index_of(device)); }
  c10::Stream getDefaultStream(c10::Device device) const override { return stream_of(index_of(device), 0); }
  c10::Stream getStreamFromGlobalPool(c10::Device device, bool) const override {
    static std::atomic<int> next{0};
    return stream_of(index_of(device), 1 + next++ % kPool);
  }
  c10::Stream getNewStream(c10::Device device, int) const override { return getStreamFromGlobalPool(device, false); }
  c10::Stream exchangeStream(c10::Stream stream) const override {
    const c10::Stream before = ::current_stream(stream.device_index());
    current_streams[stream.device_index()] = stream.id();
    return before;
  }
  void* getStreamNativeHandle(const c10::Stream stream) const override { return handle_of(stream); }
  c10::DeviceIndex deviceCount() const noexcept override { return static_cast<c10::DeviceIndex>(devices); }
  void record(void** event, const c10::Stream& stream, c10::DeviceIndex, c10::EventFlag) const override {
    if (*event == nullptr) *event = tuttiStandInCreateEvent();
    tuttiStandInRecord(stream.device_index(), *event, handle_of(stream));
  }
  void block(void* event, const c10::Stream& stream) const override {
    if (event != nullptr) tuttiStandInWait(stream.device_index(), handle_of(stream), event);
  }
  bool queryEvent(void* event) const override { return event == nullptr || tuttiStandInQuery(event) != 0; }
  void destroyEvent(void* event, c10::DeviceIndex) const noexcept override {
    if (event != nullptr) tuttiStandInDestroyEvent(event);
  }
  void synchronizeEvent(void* event) const override {
    while (!queryEvent(event)) std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  bool queryStream(const c10::Stream&) const override { return false; }
  bool isStreamCapturing(const c10::Stream&) const override { return captures; }  // tests capture all that they put
  void synchronizeStream(const c10::Stream& stream) const override { ::synchronize(stream); }
  void recordDataPtrOnStream(const c10::DataPtr& data, const c10::Stream& stream) const override {
    if (data.get() != nullptr) Allocator::the().add_user(data.get(), stream);
  }
};
C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard)

struct Hooks final : at::PrivateUse1HooksInterface {
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
  c10::DeviceIndex deviceCount() const override { return static_cast<c10::DeviceIndex>(devices); }
  c10::DeviceIndex getCurrentDevice() const override { return current_device; }
  void setCurrentDevice(c10::DeviceIndex device) const override { Guard().setDevice({kType, device}); }
  at::Allocator* getPinnedMemoryAllocator() const override { return c10::GetCPUAllocator(); }
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex device) const override {
    return Guard().exchangeDevice({kType, device}).index();
  }
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex device) const override { return exchangeDevice(device); }
};

at::Tensor empty_here(c10::IntArrayRef size, std::optional<at::ScalarType> dtype, std::optional<at::Layout>,
                      std::optional<at::Device> device, std::optional<bool>, std::optional<at::MemoryFormat> format) {
  const c10::DeviceGuard guard(device.value_or(at::Device(kType, current_device)));
  return at::detail::empty_generic(size, &Allocator::the(), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
                                   c10::dtype_or_default(dtype), format);
}

at::Tensor empty_strided_here(c10::IntArrayRef size, c10::IntArrayRef stride, std::optional<at::ScalarType> dtype,
                              std::optional<at::Layout>, std::optional<at::Device> device, std::optional<bool>) {
  const c10::DeviceGuard guard(device.value_or(at::Device(kType, current_device)));
  return at::detail::empty_strided_generic(size, stride, &Allocator::the(),
                                           c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
                                           c10::dtype_or_default(dtype));
}

/// The memory of a tensor as the CPU sees it. It keeps no memory of the device: that goes back in the order of streams.
at::Tensor seen_by_cpu(const at::Tensor& tensor) {
  const auto options = at::TensorOptions().dtype(tensor.scalar_type());
  at::Tensor seen;
  if (tensor.numel() == 0) return at::empty_strided(tensor.sizes(), tensor.strides(), options);
  void* const data = const_cast<void*>(tensor.const_data_ptr());
  if (tensor.is_cpu())
    seen = at::from_blob(
        data, tensor.sizes(), tensor.strides(), [storage = tensor.storage()](void*) {}, options);
  else
    seen = at::from_blob(data, tensor.sizes(), tensor.strides(), options);
  if (tensor.is_conj()) seen = seen.conj();
  if (tensor.is_neg()) seen = seen._neg_view();
  return seen;
}

at::Tensor copy_from_here(const at::Tensor& from, const at::Tensor& to, bool non_blocking) {
  const c10::Device device = to.device().type() == kType ? to.device() : from.device();
  const c10::Stream stream = current_stream(device.index());
  if (from.device().type() == kType && to.device().type() == kType && from.device() != to.device())
    synchronize(current_stream(from.device().index()));
  const at::Tensor source = seen_by_cpu(from);
  const at::Tensor target = seen_by_cpu(to);
  put(stream, [source, target] {
    const at::AutoDispatchBelowADInplaceOrView below;
    target.copy_(source);
  });
  const bool on_device = from.device().type() == to.device().type();
  if (!non_blocking && !on_device) synchronize(stream);
  return to;
}

at::Tensor as_strided_here(const at::Tensor& self, c10::IntArrayRef size, c10::IntArrayRef stride,
                           std::optional<std::int64_t> offset) {
  auto made = at::detail::make_tensor<at::TensorImpl>(c10::TensorImpl::VIEW, c10::Storage(self.storage()),
                                                      self.key_set(), self.dtype());
  auto* const impl = made.unsafeGetTensorImpl();
  impl->set_storage_offset(offset.value_or(self.storage_offset()));
  impl->set_sizes_and_strides(size, stride);
  return made;
}

at::Tensor view_here(const at::Tensor& self, c10::IntArrayRef size) {
  const auto inferred = at::infer_size_dv(size, self.numel());
  const auto stride = at::detail::computeStride(self.sizes(), self.strides(), inferred);
  TORCH_CHECK(stride, "view: this shape takes a copy");
  return as_strided_here(self, inferred, *stride, std::nullopt);
}

at::Tensor reshape_alias_here(const at::Tensor& self, c10::IntArrayRef size, c10::IntArrayRef stride) {
  return as_strided_here(self, size, stride, std::nullopt);
}

at::Tensor view_as_real_here(const at::Tensor& self) {
  const auto dtype = c10::scalarTypeToTypeMeta(c10::toRealValueType(self.scalar_type()));
  auto made = at::detail::make_tensor<at::TensorImpl>(c10::TensorImpl::VIEW, c10::Storage(self.storage()),
                                                      self.key_set(), dtype);
  c10::DimVector sizes(self.sizes());
  c10::DimVector strides(self.strides());
  for (std::int64_t& stride : strides) stride *= 2;
  sizes.push_back(2);
  strides.push_back(1);
  made.unsafeGetTensorImpl()->set_storage_offset(2 * self.storage_offset());
  made.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, strides);
  return made;
}

const at::Tensor& resize_here(const at::Tensor& self, c10::IntArrayRef size, std::optional<at::MemoryFormat>) {
  auto* const impl = self.unsafeGetTensorImpl();
  impl->set_sizes_contiguous(size);
  const std::size_t bytes = static_cast<std::size_t>(self.storage_offset() + self.numel()) * self.itemsize();
  const c10::Storage& storage = self.storage();
  if (bytes > storage.nbytes()) {  // what was there is lost
    const c10::DeviceGuard guard(self.device());
    storage.unsafeGetStorageImpl()->set_data_ptr(Allocator::the().allocate(bytes));
    storage.unsafeGetStorageImpl()->set_nbytes(bytes);
  }
  return self;
}

at::Tensor copy_from_and_resize_here(const at::Tensor& from, const at::Tensor& to) {
  if (from.sizes() != to.sizes()) resize_here(to, from.sizes(), std::nullopt);
  return copy_from_here(from, to, false);
}

void fall_back(const c10::OperatorHandle& op, torch::jit::Stack* stack) { at::native::cpu_fallback(op, stack); }

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("empty.memory_format", &empty_here);
  m.impl("empty_strided", &empty_strided_here);
  m.impl("_copy_from", &copy_from_here);
  m.impl("_copy_from_and_resize", &copy_from_and_resize_here);
  m.impl("resize_", &resize_here);
  m.impl("as_strided", &as_strided_here);
  m.impl("view", &view_here);
  m.impl("view_as_real", &view_as_real_here);
  m.impl("_reshape_alias", &reshape_alias_here);
}

TORCH_LIBRARY_IMPL(_, PrivateUse1, m) { m.fallback(torch::CppFunction::makeFromBoxedFunction<&fall_back>()); }

void start(int count, int first_gpu, int connections) {
  tuttiStandInStart(count, first_gpu);
  if (connections > 0) tuttiStandInSetConnections(connections);
  tuttiStandInUse(0);
  devices = count;
  static Hooks hooks;
  if (!at::isPrivateUse1HooksRegistered()) at::RegisterPrivateUse1HooksInterface(&hooks);
}

/// Fills a tensor when the current stream has come to it and so many seconds have passed.
void fill_later(const at::Tensor& tensor, double value, double seconds) {
  put(current_stream(tensor.device().index()), [seen = seen_by_cpu(tensor), value, seconds] {
    std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
    const at::AutoDispatchBelowADInplaceOrView below;
    seen.fill_(value);
  });
}

}  // namespace

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  namespace py = pybind11;
  m.def("start", &start, py::arg("devices"), py::arg("first_gpu"), py::arg("connections") = 0);
  m.def("fill_later", &fill_later, py::arg("tensor"), py::arg("value"), py::arg("seconds"));
  m.def("device_count", [] { return devices; });
  m.def("current_device", [] { return static_cast<int>(current_device); });
  m.def("set_device", [](int device) { Guard().setDevice({kType, static_cast<c10::DeviceIndex>(device)}); });
  m.def("current_stream", [](int device) { return current_streams[device]; });
  m.def("use_stream", [](int device, c10::StreamId id) { current_streams[device] = id; });
  m.def(
      "synchronize",
      [](int device, c10::StreamId id) { synchronize(stream_of(static_cast<c10::DeviceIndex>(device), id)); },
      py::call_guard<py::gil_scoped_release>());
  m.def("launches", &tuttiStandInLaunches);
  m.def("begin_capture", [](int device) {
    captures = true;
    tuttiStandInBeginCapture(handle_of(current_stream(static_cast<c10::DeviceIndex>(device))));
  });
  m.def("end_capture", [](int device) {  // the graph, or 0 if the capture has failed
    captures = false;
    std::vector<void*> streams{handle_of(current_stream(static_cast<c10::DeviceIndex>(device)))};
    for (c10::StreamId id = 0; id <= kPool; ++id) {
      void* const other = handle_of(stream_of(static_cast<c10::DeviceIndex>(device), id));
      if (other != streams.front()) streams.push_back(other);
    }
    return reinterpret_cast<std::uintptr_t>(tuttiStandInEndCapture(streams.data(), static_cast<int>(streams.size())));
  });
  m.def("launch", [](int device, std::uintptr_t graph) {
    tuttiStandInLaunch(reinterpret_cast<void*>(graph),
                       handle_of(current_stream(static_cast<c10::DeviceIndex>(device))));
  });
}
