#include "ops/onnx_types.h"

#include <algorithm>
#include <array>

namespace kerf::ops {
namespace {

// By DType.
constexpr std::array<int32_t, 13> kOnnxTypes = {1, 11, 10, 16, 6, 7, 9, 3, 5, 2, 4, 12, 13};

}  // namespace

int32_t onnx_type(DType dtype) { return kOnnxTypes.at(static_cast<size_t>(dtype)); }

std::optional<DType> dtype_of_onnx(int64_t number) {
  const auto at = std::ranges::find(kOnnxTypes, number);
  if (at == kOnnxTypes.end()) return std::nullopt;
  return static_cast<DType>(at - kOnnxTypes.begin());
}

}  // namespace kerf::ops
