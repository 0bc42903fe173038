// Every type, for suites that are instantiated for each.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <string>

#include "core/types.h"

namespace tutti {

inline constexpr std::array kAllTypes = {
    DataType::kInt8,     DataType::kUint8,   DataType::kInt16,   DataType::kUint16,     DataType::kInt32,
    DataType::kUint32,   DataType::kInt64,   DataType::kUint64,  DataType::kBool,       DataType::kFloat16,
    DataType::kBfloat16, DataType::kFloat32, DataType::kFloat64, DataType::kFloat8e4m3, DataType::kFloat8e5m2};

inline std::string name_of_type(const testing::TestParamInfo<DataType>& info) { return name_of(info.param); }

}  // namespace tutti
