#include "device_comms.h"

#include <c10/util/Logging.h>

namespace tutti_torch {

std::shared_ptr<StreamEnd> DeviceComm::run(const Place& place, std::vector<Operand>& operands, const Call& call,
                                           std::vector<at::Tensor> kept, const std::function<void()>& failed) {
  const c10::Stream stream = place.aside ? side_ : place.caller;
  order(place.caller, stream);
  const c10::StreamGuard guard(stream);
  if (!place.aside) kept.clear();  // the caller's stream itself runs the call
  const auto end = std::make_shared<StreamEnd>(stream, place.caller, std::move(kept));
  if (takes_no_streams_ || !put(stream, operands, call, end, failed)) {
    takes_no_streams_ = true;
    carry(endpoint_, stream, operands, call);
    end->finish();
  }
  end->record();
  return end;
}

/// Whether Tutti takes the call on the stream. If not, nothing has been sent.
bool DeviceComm::put(const c10::Stream& stream, std::vector<Operand>& operands, const Call& call,
                     const std::shared_ptr<StreamEnd>& end, const std::function<void()>& failed) {
  std::shared_ptr<TuttiStream> calls;
  for (Operand& operand : operands) operand.open(Operand::Place::kDevice);
  try {
    calls = known(stream);
    const OnStream scope(endpoint_, calls->get());
    call(endpoint_, operands);
  } catch (const c10::NotImplementedError& error) {
    LOG(WARNING) << "tutti: tensors on " << stream.device()
                 << " go through host memory: " << error.what_without_backtrace();
    return false;
  }
  for (Operand& operand : operands) operand.close();
  end->watch(calls, failed);
  return true;
}

void DeviceComm::carry(Endpoint& endpoint, const c10::Stream& stream, std::vector<Operand>& operands,
                       const Call& call) {
  for (Operand& operand : operands) operand.open(Operand::Place::kHost);
  stream.synchronize();
  call(endpoint, operands);
  for (Operand& operand : operands) operand.close();
  stream.synchronize();
}

// The streams of torch's pool are never destroyed, so there are not many.
const std::shared_ptr<TuttiStream>& DeviceComm::known(const c10::Stream& stream) {
  std::shared_ptr<TuttiStream>& found = streams_[native_handle(stream)];
  if (!found) found = std::make_shared<TuttiStream>(stream);
  return found;
}

std::shared_ptr<DeviceComm> DeviceComms::of(const c10::Device& device, std::chrono::milliseconds timeout) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = made_.find(device.index());
    if (found != made_.end()) return found->second.second;
  }
  const std::string name = c10::str(name_, "/", device);
  tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;  // the rest is as the collectives' is
  config.timeoutSeconds = config.joinTimeoutSeconds = std::chrono::duration<double>(timeout).count();
  config.commName = name.c_str();
  config.device = device.index();
  tuttiComm_t comm = nullptr;
  collectives_->run("the first call on a device",
                    [&](tuttiComm_t parent) { return tuttiCommSplit(parent, 0, rank_, &comm, &config); });
  auto made = std::make_shared<DeviceComm>(comm, device);
  const std::lock_guard<std::mutex> lock(mutex_);
  if (aborted_) made->endpoint().abort();
  made_.emplace(device.index(), std::make_pair(device, made));
  return made;
}

std::vector<std::shared_ptr<DeviceComm>> DeviceComms::all() {
  std::vector<std::shared_ptr<DeviceComm>> comms;
  const std::lock_guard<std::mutex> lock(mutex_);
  for (const auto& [index, made] : made_) comms.push_back(made.second);
  return comms;
}

std::vector<c10::Device> DeviceComms::devices() {
  std::vector<c10::Device> devices;
  const std::lock_guard<std::mutex> lock(mutex_);
  for (const auto& [index, made] : made_) devices.push_back(made.first);
  return devices;
}

void DeviceComms::abort() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    aborted_ = true;
  }
  for (const auto& comm : all()) comm->endpoint().abort();
}

void DeviceComms::leave() {
  for (const auto& comm : all()) comm->endpoint().leave();
}

tuttiResult_t DeviceComms::error() {
  for (const auto& comm : all()) {
    const tuttiResult_t error = comm->endpoint().error();
    if (error != tuttiSuccess) return error;
  }
  return tuttiSuccess;
}

}  // namespace tutti_torch
