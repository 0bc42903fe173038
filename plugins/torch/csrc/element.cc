#include "element.h"

namespace tutti_torch {
namespace {

constexpr Element kBytes{tuttiUint8, 0};  // per: the element's size

Element known(at::ScalarType dtype) {
  switch (dtype) {
    case at::kChar:
      return {tuttiInt8, 1};
    case at::kByte:
      return {tuttiUint8, 1};
    case at::kShort:
      return {tuttiInt16, 1};
    case at::kUInt16:
      return {tuttiUint16, 1};
    case at::kInt:
      return {tuttiInt32, 1};
    case at::kUInt32:
      return {tuttiUint32, 1};
    case at::kLong:
      return {tuttiInt64, 1};
    case at::kUInt64:
      return {tuttiUint64, 1};
    case at::kHalf:
      return {tuttiFloat16, 1};
    case at::kBFloat16:
      return {tuttiBfloat16, 1};
    case at::kFloat:
      return {tuttiFloat32, 1};
    case at::kDouble:
      return {tuttiFloat64, 1};
    case at::kBool:
      return {tuttiBool, 1};
    case at::kFloat8_e4m3fn:
      return {tuttiFloat8e4m3, 1};
    case at::kFloat8_e5m2:
      return {tuttiFloat8e5m2, 1};
    case at::kComplexHalf:
      return {tuttiFloat16, 2};
    case at::kComplexFloat:
      return {tuttiFloat32, 2};
    case at::kComplexDouble:
      return {tuttiFloat64, 2};
    default:
      return kBytes;
  }
}

tuttiRedOp_t built_in(c10d::ReduceOp::RedOpType op) {
  switch (op) {
    case c10d::ReduceOp::SUM:
      return tuttiSum;
    case c10d::ReduceOp::AVG:
      return tuttiAvg;
    case c10d::ReduceOp::PRODUCT:
      return tuttiProd;
    case c10d::ReduceOp::MIN:
      return tuttiMin;
    case c10d::ReduceOp::MAX:
      return tuttiMax;
    case c10d::ReduceOp::BAND:
      return tuttiBitAnd;
    case c10d::ReduceOp::BOR:
      return tuttiBitOr;
    case c10d::ReduceOp::BXOR:
      return tuttiBitXor;
    default:
      C10_THROW_ERROR(ValueError, "tutti: this ReduceOp is not known");
  }
}

}  // namespace

Element moved(at::ScalarType dtype) {
  const Element element = known(dtype);
  return element.per != 0 ? element : Element{tuttiUint8, c10::elementSize(dtype)};
}

Element reduced(at::ScalarType dtype, const c10d::ReduceOp& op, const char* operation) {
  const Element element = known(dtype);
  if (element.per == 0)
    C10_THROW_ERROR(ValueError, c10::str("tutti: ", operation, ": ", dtype, " can be moved but not reduced"));
  const c10d::ReduceOp::RedOpType kind = op.op_;
  const bool linear = kind == c10d::ReduceOp::SUM || kind == c10d::ReduceOp::AVG || kind == c10d::ReduceOp::PREMUL_SUM;
  if (at::isComplexType(dtype) && !linear)
    C10_THROW_ERROR(ValueError, c10::str("tutti: ", operation, ": complex numbers can be summed and averaged only"));
  return element;
}

Reduction::Reduction(const c10d::ReduceOp& op, tuttiDataType_t type, Endpoint& endpoint) : endpoint_(&endpoint) {
  if (op.op_ != c10d::ReduceOp::PREMUL_SUM) {
    op_ = built_in(op.op_);
    return;
  }
  const auto* supplement = dynamic_cast<const c10d::NCCLPreMulSumSupplement*>(op.supplement_.get());
  TORCH_CHECK(supplement != nullptr, "tutti: PREMUL_SUM without a factor");
  const double factor =
      supplement->tensor_factor.defined() ? supplement->tensor_factor.item<double>() : supplement->double_factor;
  at::ScalarType dtype = at::kFloat;
  if (type == tuttiFloat16) dtype = at::kHalf;
  if (type == tuttiBfloat16) dtype = at::kBFloat16;
  if (type == tuttiFloat64) dtype = at::kDouble;
  if (dtype == at::kFloat && type != tuttiFloat32)
    C10_THROW_ERROR(ValueError, "tutti: PREMUL_SUM is for floating point numbers of 16 bits and more");
  at::Tensor scalar = at::full({1}, factor, at::TensorOptions().dtype(dtype));
  endpoint.run("PREMUL_SUM", [&](tuttiComm_t comm) {
    return tuttiRedOpCreatePreMulSum(&op_, scalar.data_ptr(), type, tuttiScalarHostImmediate, comm);
  });
  made_ = true;
}

Reduction::~Reduction() {
  if (!made_ || endpoint_->aborted()) return;
  try {
    endpoint_->run("PREMUL_SUM", [&](tuttiComm_t comm) { return tuttiRedOpDestroy(op_, comm); });
  } catch (const c10::Error&) {  // the communicator failed: the call that did says why
  }
}

}  // namespace tutti_torch
