// The communicators for tensors on devices: one for each device that a group's tensors have been on, made by the first
// call on it.
#pragma once

#include <map>
#include <string>

#include "abort_hooks.h"
#include "operand.h"
#include "stream_end.h"

namespace tutti_torch {

/// Has the ranks of the group. One thread at a time uses it, but for abort() and error().
class DeviceComm {
 public:
  using Call = std::function<void(Endpoint&, std::vector<Operand>&)>;
  struct Place {
    c10::Stream caller;  ///< the stream that was current at the call
    bool aside;          ///< the call goes on a stream beside it: who needs its results waits for the work
  };

  DeviceComm(tuttiComm_t comm, const c10::Device& device) : endpoint_(comm), side_(pool_stream(device)) {}

  /// Puts the call on a stream, with copies of operands that do not lie as it needs them, and returns when it is there.
  /// `failed` is called from a thread of Tutti's if the call fails later. What cannot be put on a stream goes through
  /// host memory; then it has ended on return.
  std::shared_ptr<StreamEnd> run(const Place& place, std::vector<Operand>& operands, const Call& call,
                                 std::vector<at::Tensor> kept, const std::function<void()>& failed);
  Endpoint& endpoint() { return endpoint_; }
  /// Waits, on the host, for what was put on the stream beside the callers'.
  void drain() const { side_.synchronize(); }

 private:
  bool put(const c10::Stream& stream, std::vector<Operand>& operands, const Call& call,
           const std::shared_ptr<StreamEnd>& end, const std::function<void()>& failed);
  static void carry(Endpoint& endpoint, const c10::Stream& stream, std::vector<Operand>& operands, const Call& call);
  const std::shared_ptr<TuttiStream>& known(const c10::Stream& stream);

  Endpoint endpoint_;
  const c10::Stream side_;  // keeps the order of the calls that go beside their callers' streams
  std::map<void*, std::shared_ptr<TuttiStream>> streams_;
  bool takes_no_streams_ = false;
};

class DeviceComms {
 public:
  DeviceComms(std::shared_ptr<Endpoint> collectives, int rank, std::string name)
      : collectives_(std::move(collectives)), rank_(rank), name_(std::move(name)) {}

  /// The communicator for that device. The first call makes it, which all ranks do together; it waits so long for them.
  /// It counts as a call on the collectives' communicator: all ranks make it in the same order, one at a time.
  std::shared_ptr<DeviceComm> of(const c10::Device& device, std::chrono::milliseconds timeout);
  const Endpoint& collectives() const { return *collectives_; }
  /// Those that there are. Any thread.
  std::vector<std::shared_ptr<DeviceComm>> all();
  /// Their devices.
  std::vector<c10::Device> devices();
  /// Ends the calls on them with an error, and refuses others. Any thread.
  void abort();
  /// Says goodbye without waiting. Not beside calls.
  void leave();
  /// The error of the first communicator that failed.
  tuttiResult_t error();

 private:
  const std::shared_ptr<Endpoint> collectives_;
  const int rank_;
  const std::string name_;
  std::mutex mutex_;
  std::map<c10::DeviceIndex, std::pair<c10::Device, std::shared_ptr<DeviceComm>>> made_;
  bool aborted_ = false;
};

}  // namespace tutti_torch
