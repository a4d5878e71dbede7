#include "apps/data/tokens.h"

#include <algorithm>

#include "apps/data/sizes.h"
#include "ops/random.h"
#include "runtime/error.h"

namespace kerf::apps {

namespace {

constexpr uint32_t kTokenKey = 0x746f6b65;  // a Philox key
constexpr std::string_view kSource = "source";
constexpr std::string_view kTarget = "target";
constexpr uint64_t kSteps = 3;  // a row counts by 1, 2 or 3

// What a row counts, for ever.
class Count {
 public:
  Count(int64_t row, schedmp::Split split, int64_t vocabulary) : vocabulary_(vocabulary) {
    const auto r = static_cast<uint64_t>(row);
    const auto words = ops::philox({static_cast<uint32_t>(r), static_cast<uint32_t>(r >> 32), 0, 0},
                                   {kTokenKey, static_cast<uint32_t>(split)});
    first_ = static_cast<int64_t>(uint64_t{words[0]} * static_cast<uint64_t>(vocabulary) >> 32);
    step_ = static_cast<int64_t>(1 + (uint64_t{words[1]} * kSteps >> 32));
  }
  int64_t operator[](int64_t i) const { return (first_ + i * step_) % vocabulary_; }

 private:
  int64_t vocabulary_;
  int64_t first_ = 0;
  int64_t step_ = 0;
};

}  // namespace

Tokens::Tokens(const std::string& sizes, schedmp::Split split) : split_(split) {
  const auto three = parse_sizes(sizes, 3, "ROWSxLENGTHxVOCABULARY", "tokens:4096x16x32");
  rows_ = split == schedmp::Split::kTest ? std::max<int64_t>(1, three[0] / 8) : three[0];
  length_ = three[1];
  vocabulary_ = three[2];
}

std::optional<ops::ValueSpec> Tokens::input(std::string_view /*name*/) const {
  return ops::ValueSpec{ops::DType::kInt64, {ops::kBatch, length_}};
}

std::string Tokens::fingerprint() const {
  return format("tokens {}x{}x{} {}", rows_, length_, vocabulary_,
                split_ == schedmp::Split::kTrain ? "train" : "test");
}

void Tokens::read(std::span<const int64_t> rows, int64_t shift, const ops::TensorView& to) const {
  KERF_CHECK(to.dtype == ops::DType::kInt64 &&
             to.elements() == static_cast<int64_t>(rows.size()) * length_);
  int64_t* out = to.i64();
  for (const int64_t row : rows) {
    KERF_CHECK(row >= 0 && row < rows_, "row {} of {}", row, rows_);
    const Count count(row, split_, vocabulary_);
    for (int64_t i = shift; i < shift + length_; ++i) *out++ = count[i];
  }
}

void Tokens::read_input(std::string_view /*name*/, std::span<const int64_t> rows,
                        const ops::TensorView& to) const {
  read(rows, 0, to);
}

void Tokens::read_labels(std::span<const int64_t> rows, const ops::TensorView& to) const {
  read(rows, 1, to);
}

TokenPairs::TokenPairs(const std::string& sizes, schedmp::Split split) : split_(split) {
  constexpr const char* kForm = "ROWSxSOURCExTARGETxVOCABULARY";
  constexpr const char* kExample = "pairs:4096x16x16x32";
  const auto four = parse_sizes(sizes, 4, kForm, kExample);
  rows_ = split == schedmp::Split::kTest ? std::max<int64_t>(1, four[0] / 8) : four[0];
  source_ = four[1];
  target_ = four[2];
  vocabulary_ = four[3];
}

std::optional<ops::ValueSpec> TokenPairs::input(std::string_view name) const {
  if (name != kSource && name != kTarget) return std::nullopt;
  return ops::ValueSpec{ops::DType::kInt64, {ops::kBatch, name == kSource ? source_ : target_}};
}

std::string TokenPairs::fingerprint() const {
  return format("pairs {}x{}x{}x{} {}", rows_, source_, target_, vocabulary_,
                split_ == schedmp::Split::kTrain ? "train" : "test");
}

void TokenPairs::read_input(std::string_view name, std::span<const int64_t> rows,
                            const ops::TensorView& to) const {
  const int64_t length = name == kSource ? source_ : target_;
  KERF_CHECK(to.dtype == ops::DType::kInt64 && to.elements() == std::ssize(rows) * length);
  int64_t* out = to.i64();
  for (const int64_t row : rows) {
    KERF_CHECK(row >= 0 && row < rows_, "row {} of {}", row, rows_);
    const Count count(row, split_, vocabulary_);
    for (int64_t i = 0; i < length; ++i)
      *out++ = name == kSource ? count[i] : i == 0 ? 0 : count[source_ + i - 1];
  }
}

void TokenPairs::read_labels(std::span<const int64_t> rows, const ops::TensorView& to) const {
  KERF_CHECK(to.dtype == ops::DType::kInt64 && to.elements() == std::ssize(rows) * target_);
  int64_t* out = to.i64();
  for (const int64_t row : rows) {
    KERF_CHECK(row >= 0 && row < rows_, "row {} of {}", row, rows_);
    const Count count(row, split_, vocabulary_);
    for (int64_t i = 0; i < target_; ++i) *out++ = count[source_ + i];
  }
}

}  // namespace kerf::apps
