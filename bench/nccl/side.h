// The two libraries behind one face: a collective that is put on a CUDA stream.
#pragma once

#include <cuda_runtime_api.h>
#include <nccl.h>
#include <tutti/tutti.h>

#include <cstddef>
#include <string>

#include "nccl/race.h"

namespace tutti::bench {

void check(cudaError_t error, const char* what);
void check(ncclResult_t result, const char* what);
void check(tuttiResult_t result, tuttiComm_t comm, const char* what);

/// Elements are floats; `count` is of the smaller buffer, the larger has one such block of each rank.
struct Operands {
  const float* send;
  float* recv;
  std::size_t count;
};

/// One thread. Calls go on the stream that it was made with.
class Side {
 public:
  virtual ~Side() = default;
  virtual const char* name() const = 0;
  /// Empty; or why the library does not offer this, found before anything was sent.
  virtual std::string put(const Operands& operands) = 0;
  /// Waits for all that was put there.
  virtual void settle() = 0;
};

class TuttiSide final : public Side {
 public:
  /// Borrows `comm` and `stream`.
  TuttiSide(const Race& race, tuttiComm_t comm, cudaStream_t stream);
  ~TuttiSide() override;
  TuttiSide(const TuttiSide&) = delete;
  TuttiSide& operator=(const TuttiSide&) = delete;
  const char* name() const override { return "tutti"; }
  std::string put(const Operands& operands) override;
  void settle() override;

 private:
  tuttiResult_t call(const Operands& operands);
  const Race& race_;
  tuttiComm_t comm_;
  cudaStream_t cuda_;
  tuttiStream_t stream_ = nullptr;
};

class NcclSide final : public Side {
 public:
  NcclSide(const Race& race, int rank, const ncclUniqueId& id, cudaStream_t stream);
  ~NcclSide() override;
  NcclSide(const NcclSide&) = delete;
  NcclSide& operator=(const NcclSide&) = delete;
  const char* name() const override { return "nccl"; }
  std::string put(const Operands& operands) override;
  void settle() override;

 private:
  const Race& race_;
  cudaStream_t cuda_;
  ncclComm_t comm_ = nullptr;
};

}  // namespace tutti::bench
