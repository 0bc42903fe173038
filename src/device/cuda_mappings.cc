#include "device/cuda_mappings.h"

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <type_traits>
#include <vector>

#include "device/cuda_calls.h"
#include "device/cuda_contexts.h"

namespace tutti {

namespace {

static_assert(std::is_same_v<CUmemGenericAllocationHandle, unsigned long long>);
static_assert(sizeof(DeviceMappings::Handle) == sizeof(CUmemGenericAllocationHandle));

/// The driver's functions, in the form of the CUDA version that brought them; see cuda.h.
struct Functions {
  decltype(&cuMemGetAllocationGranularity) unit = find<decltype(unit)>("cuMemGetAllocationGranularity");
  decltype(&cuMemCreate) create = find<decltype(create)>("cuMemCreate");
  decltype(&cuMemRelease) release = find<decltype(release)>("cuMemRelease");
  decltype(&cuMemAddressReserve) reserve = find<decltype(reserve)>("cuMemAddressReserve");
  decltype(&cuMemAddressFree) free = find<decltype(free)>("cuMemAddressFree");
  decltype(&cuMemMap) map = find<decltype(map)>("cuMemMap");
  decltype(&cuMemUnmap) unmap = find<decltype(unmap)>("cuMemUnmap");
  decltype(&cuMemSetAccess) set_access = find<decltype(set_access)>("cuMemSetAccess");
  decltype(&cuDeviceGetAttribute) attribute = find<decltype(attribute)>("cuDeviceGetAttribute", kFirst);
  decltype(&cuMulticastGetGranularity) multicast_unit =
      find<decltype(multicast_unit)>("cuMulticastGetGranularity", kMulticast);
  decltype(&cuMulticastCreate) multicast_create = find<decltype(multicast_create)>("cuMulticastCreate", kMulticast);
  decltype(&cuMulticastAddDevice) multicast_add = find<decltype(multicast_add)>("cuMulticastAddDevice", kMulticast);
  decltype(&cuMulticastBindMem) multicast_bind = find<decltype(multicast_bind)>("cuMulticastBindMem", kMulticast);
  decltype(&cuMulticastUnbind) multicast_unbind = find<decltype(multicast_unbind)>("cuMulticastUnbind", kMulticast);

  bool can_map() const {
    return unit != nullptr && create != nullptr && release != nullptr && reserve != nullptr && free != nullptr &&
           map != nullptr && unmap != nullptr && set_access != nullptr;
  }
  bool can_multicast() const {
    return attribute != nullptr && multicast_unit != nullptr && multicast_create != nullptr &&
           multicast_add != nullptr && multicast_bind != nullptr && multicast_unbind != nullptr;
  }

 private:
  static constexpr unsigned kFirst = 2000;
  static constexpr unsigned kMapping = 10020;
  static constexpr unsigned kMulticast = 12010;

  template <class Function>
  static Function find(const char* name, unsigned version = kMapping) {
    return driver_function<Function>(name, version);
  }
};

/// The runtime's codes are the driver's.
Status done(CUresult result, const char* what) { return checked(static_cast<cudaError_t>(result), what); }

CUmemLocation location_of(int device) {
  CUmemLocation location{};
  location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  location.id = device;
  return location;
}

CUmemAllocationProp properties_of(int device) {
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = location_of(device);
  return properties;
}

CUmulticastObjectProp properties_of(std::span<const int> devices, Bytes bytes) {
  CUmulticastObjectProp properties{};
  properties.numDevices = static_cast<unsigned>(devices.size());
  properties.size = bytes.value;
  return properties;
}

CUdeviceptr address_of(void* memory) { return reinterpret_cast<CUdeviceptr>(memory); }

/// The driver's calls are made in a device's context, as all of Tutti's are, though most of them need none.
class CudaMappings final : public DeviceMappings {
 public:
  bool is_there() const { return driver_.can_map(); }

  bool can_multicast(int device) override {
    if (!driver_.can_multicast()) return false;
    int supported = 0;
    // A driver that is older than this attribute answers with an error. The runtime has no such attribute.
    const CUresult asked = driver_.attribute(&supported, CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED, device);
    return asked == CUDA_SUCCESS && supported != 0;
  }

  Status granularity(std::span<const int> devices, bool multicast, Bytes* unit) override {
    const Scope scope(devices[0]);
    TUTTI_TRY(scope.status());
    std::size_t largest = 1;
    if (multicast) {
      const CUmulticastObjectProp properties = properties_of(devices, Bytes{0});
      TUTTI_TRY(done(driver_.multicast_unit(&largest, &properties, CU_MULTICAST_GRANULARITY_MINIMUM),
                     "cuMulticastGetGranularity"));
    }
    for (const int device : devices) {  // all are powers of two, so the largest is a multiple of each
      const CUmemAllocationProp properties = properties_of(device);
      std::size_t own = 1;
      TUTTI_TRY(
          done(driver_.unit(&own, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM), "cuMemGetAllocationGranularity"));
      largest = std::max(largest, own);
    }
    *unit = Bytes{largest};
    return {};
  }

  Status create(int device, Bytes bytes, Handle* memory) override {
    const Scope scope(device);
    TUTTI_TRY(scope.status());
    const CUmemAllocationProp properties = properties_of(device);
    CUmemGenericAllocationHandle made = 0;
    TUTTI_TRY(done(driver_.create(&made, bytes.value, &properties, 0), "cuMemCreate"));
    *memory = made;
    return {};
  }

  Status create_multicast(std::span<const int> devices, Bytes bytes, Handle* object) override {
    const Scope scope(devices[0]);
    TUTTI_TRY(scope.status());
    const CUmulticastObjectProp properties = properties_of(devices, bytes);
    CUmemGenericAllocationHandle made = 0;
    TUTTI_TRY(done(driver_.multicast_create(&made, &properties), "cuMulticastCreate"));
    Status added;
    for (std::size_t i = 0; i < devices.size() && added.ok(); ++i)
      added = done(driver_.multicast_add(made, devices[i]), "cuMulticastAddDevice");
    if (!added.ok()) {
      (void)driver_.release(made);
      return added;
    }
    *object = made;
    return {};
  }

  Status release(Handle handle) override {
    const AnyScope scope;
    return done(driver_.release(handle), "cuMemRelease");
  }

  Status bind(Handle object, int device, Handle memory, Bytes bytes) override {
    const Scope scope(device);
    TUTTI_TRY(scope.status());
    return done(driver_.multicast_bind(object, 0, memory, 0, bytes.value, 0), "cuMulticastBindMem");
  }
  Status unbind(Handle object, int device, Bytes bytes) override {
    const Scope scope(device);
    TUTTI_TRY(scope.status());
    return done(driver_.multicast_unbind(object, device, 0, bytes.value), "cuMulticastUnbind");
  }

  Status map(Handle handle, Bytes bytes, std::span<const int> devices, void** address) override {
    const Scope scope(devices[0]);
    TUTTI_TRY(scope.status());
    // The largest power of two that divides the size, of which the unit is one.
    const std::size_t alignment = bytes.value & (~bytes.value + 1);
    CUdeviceptr reserved = 0;
    TUTTI_TRY(done(driver_.reserve(&reserved, bytes.value, alignment, 0, 0), "cuMemAddressReserve"));
    Status mapped = done(driver_.map(reserved, bytes.value, 0, handle, 0), "cuMemMap");
    if (!mapped.ok()) {
      (void)driver_.free(reserved, bytes.value);
      return mapped;
    }
    std::vector<CUmemAccessDesc> access;
    for (const int device : devices) access.push_back({location_of(device), CU_MEM_ACCESS_FLAGS_PROT_READWRITE});
    void* const made = reinterpret_cast<void*>(reserved);
    Status allowed = done(driver_.set_access(reserved, bytes.value, access.data(), access.size()), "cuMemSetAccess");
    if (!allowed.ok()) {
      (void)take_back(made, bytes);
      return allowed;
    }
    *address = made;
    return {};
  }
  Status unmap(void* address, Bytes bytes) override {
    const AnyScope scope;
    return take_back(address, bytes);
  }

  // It has a stream of its own because others may have work that does not end soon.
  Status zero(int device, void* address, Bytes bytes) override {
    const Scope scope(device);
    TUTTI_TRY(scope.status());
    cudaStream_t stream = nullptr;
    TUTTI_TRY(checked(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreate"));
    Status zeroed = checked(cudaMemsetAsync(address, 0, bytes.value, stream), "cudaMemset");
    if (zeroed.ok()) zeroed = checked(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
    (void)cudaStreamDestroy(stream);
    return zeroed;
  }

 private:
  /// The calling thread works on a device, or on any, and disturbs no captures. The device is chosen first, because the
  /// call about captures, too, would begin to use one.
  struct Scope {
    explicit Scope(int number) : device(number) {}
    const Status& status() const { return device.status(); }
    const OnDevice device;
    const RelaxedCaptureScope captures;
  };
  struct AnyScope {
    const OnAnyDevice device;
    const RelaxedCaptureScope captures;
  };

  Status take_back(void* address, Bytes bytes) {
    TUTTI_TRY(done(driver_.unmap(address_of(address), bytes.value), "cuMemUnmap"));
    return done(driver_.free(address_of(address), bytes.value), "cuMemAddressFree");
  }

  const Functions driver_{};
};

}  // namespace

DeviceMappings* cuda_mappings() {
  static CudaMappings* const mappings = new CudaMappings;  // never destroyed, as the driver is not
  return mappings->is_there() ? mappings : nullptr;
}

}  // namespace tutti
