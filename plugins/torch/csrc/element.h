// torch's dtypes and reductions in Tutti's words.
#pragma once

#include <ATen/ATen.h>
#include <torch/csrc/distributed/c10d/Types.hpp>

#include "endpoint.h"

namespace tutti_torch {

/// How the elements of a tensor travel: `per` elements of `type` each.
struct Element {
  tuttiDataType_t type = tuttiUint8;
  std::size_t per = 1;
};

/// For operations that only move: any dtype; what Tutti does not know moves as bytes.
Element moved(at::ScalarType dtype);
/// For reductions: raises ValueError where `op` does not make sense for `dtype`. Complex numbers are two reals.
Element reduced(at::ScalarType dtype, const c10d::ReduceOp& op, const char* operation);

/// The operation on one communicator while it lives: PREMUL_SUM is made and destroyed.
class Reduction {
 public:
  Reduction(const c10d::ReduceOp& op, tuttiDataType_t type, Endpoint& endpoint);
  ~Reduction();
  Reduction(const Reduction&) = delete;
  Reduction& operator=(const Reduction&) = delete;
  tuttiRedOp_t get() const { return op_; }

 private:
  Endpoint* endpoint_;
  tuttiRedOp_t op_ = tuttiSum;
  bool made_ = false;
};

}  // namespace tutti_torch
