#include "apps/data/tokens.h"

#include <algorithm>

#include "apps/data/sizes.h"
#include "ops/random.h"
#include "runtime/error.h"

namespace kerf::apps {

namespace {

constexpr uint32_t kTokenKey = 0x746f6b65;  // a Philox key
constexpr uint64_t kSteps = 3;              // a row counts by 1, 2 or 3

}  // namespace

Tokens::Tokens(const std::string& sizes, schedmp::Split split) : split_(split) {
  const Sizes three = parse_three_sizes(sizes, "ROWSxLENGTHxVOCABULARY", "tokens:4096x16x32");
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
    const auto r = static_cast<uint64_t>(row);
    const auto words = ops::philox({static_cast<uint32_t>(r), static_cast<uint32_t>(r >> 32), 0, 0},
                                   {kTokenKey, static_cast<uint32_t>(split_)});
    const auto first =
        static_cast<int64_t>(uint64_t{words[0]} * static_cast<uint64_t>(vocabulary_) >> 32);
    const auto step = static_cast<int64_t>(1 + (uint64_t{words[1]} * kSteps >> 32));
    for (int64_t i = shift; i < shift + length_; ++i) *out++ = (first + i * step) % vocabulary_;
  }
}

void Tokens::read_input(std::string_view /*name*/, std::span<const int64_t> rows,
                        const ops::TensorView& to) const {
  read(rows, 0, to);
}

void Tokens::read_labels(std::span<const int64_t> rows, const ops::TensorView& to) const {
  read(rows, 1, to);
}

}  // namespace kerf::apps
