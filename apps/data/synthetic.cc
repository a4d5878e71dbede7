#include "apps/data/synthetic.h"

#include <algorithm>
#include <array>
#include <map>

#include "apps/data/rows_for_tests.h"
#include "apps/data/sizes.h"
#include "ops/random.h"
#include "runtime/error.h"

namespace kerf::apps {

namespace {

// Philox keys, one per purpose.
constexpr uint32_t kNoise = 0x6e6f6973;
constexpr uint32_t kPattern = 0x70617474;
constexpr uint32_t kLabel = 0x6c61626c;

std::array<uint32_t, 4> draw(uint32_t purpose, uint32_t split, int64_t row, int64_t column) {
  const auto r = static_cast<uint64_t>(row);
  return ops::philox(
      {static_cast<uint32_t>(r), static_cast<uint32_t>(r >> 32), static_cast<uint32_t>(column), 0},
      {purpose, split});
}

}  // namespace

Synthetic::Synthetic(const std::string& sizes, schedmp::Split split) : split_(split) {
  const auto three = parse_sizes(sizes, 3, 2, "ROWSxFEATURESxCLASSES", "synthetic:4096x784x10");
  rows_ = made_up_rows(three[0], split);
  features_ = three[1];
  classes_ = three[2];
}

std::string Synthetic::fingerprint() const {
  return format("synthetic {}x{}x{} {}", rows_, features_, classes_,
                split_ == schedmp::Split::kTrain ? "train" : "test");
}

int64_t Synthetic::label(int64_t row) const {
  const uint64_t word = draw(kLabel, static_cast<uint32_t>(split_), row, 0)[0];
  return static_cast<int64_t>(word * static_cast<uint64_t>(classes_) >> 32);
}

// Class by class, of those that occur, so that there is one pattern at a time.
void Synthetic::fill() const {
  values_.resize(static_cast<size_t>(rows_ * features_));
  held_ = rows_ * features_ * int64_t{sizeof(float)};
  std::map<int64_t, std::vector<int64_t>> rows_of;
  for (int64_t row = 0; row < rows_; ++row) rows_of[label(row)].push_back(row);
  std::vector<float> pattern(static_cast<size_t>(features_));
  for (const auto& [of_class, rows] : rows_of) {
    for (int64_t f = 0; f < features_; ++f)
      pattern[static_cast<size_t>(f)] = (draw(kPattern, 0, of_class, f)[0] & 1) == 0 ? -0.5F : 0.5F;
    for (const int64_t row : rows) fill_row(row, pattern);
  }
}

void Synthetic::fill_row(int64_t row, std::span<const float> pattern) const {
  float* out = values_.data() + row * features_;
  for (int64_t f = 0; f < features_; f += 4) {
    const auto words = draw(kNoise, static_cast<uint32_t>(split_), row, f);
    const int64_t last = std::min(f + 4, features_);
    for (int64_t i = f; i < last; ++i)
      out[i] = pattern[static_cast<size_t>(i)] +
               static_cast<float>(words[static_cast<size_t>(i - f)] >> 8) * 0x1p-23F - 1.0F;
  }
}

void Synthetic::prepare(std::span<const std::string> inputs) const {
  if (!inputs.empty()) std::call_once(fill_once_, [this] { fill(); });
}

void Synthetic::read_features(std::span<const int64_t> rows, const ops::TensorView& to) const {
  std::call_once(fill_once_, [this] { fill(); });
  KERF_CHECK(to.dtype == ops::DType::kFloat32 &&
             to.elements() == static_cast<int64_t>(rows.size()) * features_);
  float* out = to.f32();
  for (const int64_t row : rows) {
    KERF_CHECK(row >= 0 && row < rows_, "row {} of {}", row, rows_);
    out = std::copy_n(values_.data() + row * features_, features_, out);
  }
}

void Synthetic::read_targets(std::span<const int64_t> rows, const ops::TensorView& to) const {
  KERF_CHECK(to.elements() == static_cast<int64_t>(rows.size()) * classes_);
  float* out = to.f32();
  std::fill_n(out, to.elements(), 0.0F);
  for (const int64_t row : rows) {
    out[label(row)] = 1;
    out += classes_;
  }
}

void Synthetic::read_labels(std::span<const int64_t> rows, const ops::TensorView& to) const {
  if (to.dtype == ops::DType::kFloat32) return read_targets(rows, to);
  KERF_CHECK(to.dtype == ops::DType::kInt64 && to.elements() == static_cast<int64_t>(rows.size()));
  int64_t* out = to.i64();
  for (const int64_t row : rows) *out++ = label(row);
}

}  // namespace kerf::apps
