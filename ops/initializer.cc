#include "ops/initializer.h"

#include <algorithm>
#include <cmath>

#include "ops/pack.h"
#include "ops/random.h"

namespace kerf::ops {
namespace {

// Draws the numbers of each run of consecutive global indices, and scales them while they are in
// cache.
template <class Fill, class Scale>
void fill_runs(const TensorView& local, const Box& box, const Shape& shape, const Fill& fill,
               const Scale& scale) {
  constexpr int64_t kPiece = 4096;
  const Selection selection(Box::whole(shape.rank()), box, {DType::kFloat32, shape});
  for (const Selection::Run& run : selection.runs()) {
    for (int64_t done = 0; done < run.count; done += kPiece) {
      const std::span<float> to(local.f32() + run.from + done,
                                static_cast<size_t>(std::min(kPiece, run.count - done)));
      fill(run.at + done, to);
      for (float& number : to) number = scale(number);
    }
  }
}

void check(const TensorView& local, const Box& box, const Shape& shape,
           const Initializer& initializer) {
  KERF_CHECK(local.dtype == DType::kFloat32, "a parameter of {}", to_string(local.dtype));
  KERF_CHECK(!shape.batched(), "a parameter of shape {}", to_string(shape));
  KERF_CHECK(local.shape == local_shape(box, shape), "a local tensor of shape {} for box {} of {}",
             to_string(local.shape), to_string(box), to_string(shape));
  const bool any_sign = initializer.kind == Initializer::Kind::kConstant;
  if (!(std::isfinite(static_cast<float>(initializer.scale)) &&
        (any_sign || initializer.scale >= 0)))
    throw Error(ErrorCode::kUsage, format("an initializer's scale is {}; it is finite and not "
                                          "negative",
                                          initializer.scale));
}

}  // namespace

std::string_view to_string(Initializer::Kind kind) {
  switch (kind) {
    case Initializer::Kind::kZero:
      return "zero";
    case Initializer::Kind::kOne:
      return "one";
    case Initializer::Kind::kUniform:
      return "uniform";
    case Initializer::Kind::kNormal:
      return "normal";
    case Initializer::Kind::kConstant:
      return "constant";
  }
  KERF_CHECK(false, "initializer {} is unknown", static_cast<int>(kind));
  return {};
}

Initializer::Kind parse_initializer(const std::string& name) {
  using Kind = Initializer::Kind;
  for (const Kind kind : {Kind::kZero, Kind::kOne, Kind::kUniform, Kind::kNormal, Kind::kConstant})
    if (name == to_string(kind)) return kind;
  throw Error(
      ErrorCode::kUsage,
      format("initializer \"{}\" is unknown; use zero, one, uniform, normal or constant", name));
}

void initialize(const TensorView& local, const Box& box, const Shape& shape,
                const Initializer& initializer, uint64_t seed, uint32_t parameter) {
  check(local, box, shape, initializer);
  const RandomKey key{seed, kParameterPurpose + parameter, 0, 0};
  const auto scale = static_cast<float>(initializer.scale);
  switch (initializer.kind) {
    case Initializer::Kind::kZero:
      std::fill_n(local.f32(), local.elements(), 0.0F);
      return;
    case Initializer::Kind::kOne:
      std::fill_n(local.f32(), local.elements(), 1.0F);
      return;
    case Initializer::Kind::kUniform:
      fill_runs(
          local, box, shape,
          [&](int64_t first, std::span<float> to) { fill_uniform(key, first, to); },
          // 2u - 1 is exact, and no scale rounds the product up to itself.
          [scale](float u) { return (2 * u - 1) * scale; });
      return;
    case Initializer::Kind::kNormal:
      fill_runs(
          local, box, shape,
          [&](int64_t first, std::span<float> to) { fill_normal(key, first, to); },
          [scale](float z) { return z * scale; });
      return;
    case Initializer::Kind::kConstant:
      std::fill_n(local.f32(), local.elements(), scale);
      return;
  }
}

}  // namespace kerf::ops
