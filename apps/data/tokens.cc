#include "apps/data/tokens.h"

#include <utility>

#include "apps/data/rows_for_tests.h"
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

CountingRows::CountingRows(std::string kind, std::vector<int64_t> sizes, schedmp::Split split,
                           int64_t begin, int64_t length)
    : kind_(std::move(kind)),
      sizes_(std::move(sizes)),
      split_(split),
      rows_(made_up_rows(sizes_.front(), split)),
      vocabulary_(sizes_.back()),
      begin_(begin),
      labels_(length) {}

std::string CountingRows::fingerprint() const {
  return format("{} {} {}", kind_, fmt::join(sizes_, "x"),
                split_ == schedmp::Split::kTrain ? "train" : "test");
}

void CountingRows::count(std::span<const int64_t> rows, int64_t begin, int64_t length,
                         const ops::TensorView& to) const {
  KERF_CHECK(to.dtype == ops::DType::kInt64 && to.elements() == std::ssize(rows) * length);
  int64_t* out = to.i64();
  for (const int64_t row : rows) {
    KERF_CHECK(row >= 0 && row < rows_, "row {} of {}", row, rows_);
    const Count of_row(row, split_, vocabulary_);
    for (int64_t i = begin; i < begin + length; ++i) *out++ = of_row[i];
  }
}

void CountingRows::read_labels(std::span<const int64_t> rows, const ops::TensorView& to) const {
  count(rows, begin_, labels_, to);
}

Tokens::Tokens(const std::string& sizes, schedmp::Split split)
    : Tokens(parse_sizes(sizes, 3, 2, "ROWSxLENGTHxVOCABULARY", "tokens:4096x16x32"), split) {}
Tokens::Tokens(std::vector<int64_t> sizes, schedmp::Split split)
    : CountingRows("tokens", sizes, split, 1, sizes[1]), length_(sizes[1]) {}

std::optional<ops::ValueSpec> Tokens::input(std::string_view /*name*/) const {
  return ops::ValueSpec{ops::DType::kInt64, {ops::kBatch, length_}};
}

void Tokens::read_input(std::string_view /*name*/, std::span<const int64_t> rows,
                        const ops::TensorView& to) const {
  count(rows, 0, length_, to);
}

TokenPairs::TokenPairs(const std::string& sizes, schedmp::Split split)
    : TokenPairs(parse_sizes(sizes, 4, 2, "ROWSxSOURCExTARGETxVOCABULARY", "pairs:4096x16x16x32"),
                 split) {}
TokenPairs::TokenPairs(std::vector<int64_t> sizes, schedmp::Split split)
    : CountingRows("pairs", sizes, split, sizes[1], sizes[2]),
      source_(sizes[1]),
      target_(sizes[2]) {}

std::optional<ops::ValueSpec> TokenPairs::input(std::string_view name) const {
  if (name != kSource && name != kTarget) return std::nullopt;
  return ops::ValueSpec{ops::DType::kInt64, {ops::kBatch, name == kSource ? source_ : target_}};
}

void TokenPairs::read_input(std::string_view name, std::span<const int64_t> rows,
                            const ops::TensorView& to) const {
  if (name == kSource) return count(rows, 0, source_, to);
  count(rows, source_ - 1, target_, to);
  for (int64_t i = 0; i < std::ssize(rows); ++i) to.i64()[i * target_] = 0;
}

}  // namespace kerf::apps
