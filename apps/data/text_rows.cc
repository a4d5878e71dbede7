#include "apps/data/text_rows.h"

#include <algorithm>
#include <utility>

#include "apps/data/rows_for_tests.h"
#include "apps/data/sizes.h"
#include "runtime/error.h"

namespace kerf::apps {

namespace {

constexpr int64_t kBytesOfAlphabet = 256;

}  // namespace

TextRows::TextRows(std::shared_ptr<const ByteSource> bytes, int64_t length, schedmp::Split split)
    : length_(length), vocabulary_(kBytesOfAlphabet), bytes_(std::move(bytes)) {
  divide(static_cast<int64_t>(bytes_->size()), split);
}

TextRows::TextRows(std::shared_ptr<const Words> words, int64_t length, int64_t vocabulary,
                   schedmp::Split split)
    : length_(length), vocabulary_(vocabulary), words_(std::move(words)) {
  divide(words_->count(), split);
}

void TextRows::divide(int64_t tokens, schedmp::Split split) {
  const int64_t all = (tokens - 1) / length_;
  if (tokens < 1 || all < 2)
    throw Error(ErrorCode::kUsage,
                format("it has {} tokens; two rows of {} and a label behind them take {}", tokens,
                       length_, 2 * length_ + 1),
                file().origin());
  const SomeRows mine = rows_of_split(all, split);
  rows_ = mine.count;
  first_ = mine.first;
}

std::optional<ops::ValueSpec> TextRows::input(std::string_view /*name*/) const {
  return ops::ValueSpec{ops::DType::kInt64, {ops::kBatch, length_}};
}

std::string TextRows::fingerprint() const {
  return format("{} {}x{} {} from {} {:08x}{}", words_ == nullptr ? "text" : "words", length_,
                vocabulary_, rows_, first_, file().checksum(),
                words_ == nullptr ? "" : words_->given_text());
}

schedmp::Numbering TextRows::numbering() const {
  return words_ == nullptr ? schedmp::Numbering{} : words_->numbering();
}

void TextRows::prepare(std::span<const std::string> /*inputs*/) const {
  if (words_ != nullptr && words_->number_all())
    held_ = static_cast<int64_t>(words_->numbers().size_bytes());
}

void TextRows::read(std::span<const int64_t> rows, int64_t shift, const ops::TensorView& to) const {
  KERF_CHECK(to.dtype == ops::DType::kInt64 &&
             to.elements() == static_cast<int64_t>(rows.size()) * length_);
  prepare({});
  std::vector<std::byte> bytes(static_cast<size_t>(length_));
  int64_t* out = to.i64();
  for (const int64_t row : rows) {
    KERF_CHECK(row >= 0 && row < rows_, "row {} of {}", row, rows_);
    const int64_t begin = (first_ + row) * length_ + shift;
    if (words_ != nullptr) {
      out = std::copy_n(words_->numbers().begin() + begin, length_, out);
      continue;
    }
    bytes_->read(static_cast<size_t>(begin), bytes);
    for (const std::byte byte : bytes) *out++ = static_cast<int64_t>(byte);
  }
}

void TextRows::read_input(std::string_view /*name*/, std::span<const int64_t> rows,
                          const ops::TensorView& to) const {
  read(rows, 0, to);
}

void TextRows::read_labels(std::span<const int64_t> rows, const ops::TensorView& to) const {
  read(rows, 1, to);
}

std::shared_ptr<const TextRows> open_text(TokensOf tokens, const std::string& sizes_and_file,
                                          schedmp::Split split, const schedmp::DataRequest& request,
                                          OpenWords* open) {
  const bool bytes = tokens == TokensOf::kBytes;
  const char* const form = bytes ? "LENGTH:FILE" : "LENGTHxVOCABULARY:FILE";
  const char* const example = bytes ? "text:128:book.txt" : "words:128x10000:book.txt";
  const size_t colon = sizes_and_file.find(':');
  if (colon == std::string::npos)
    throw Error(ErrorCode::kUsage, format("expected {}, as in {}", form, example), "--data");
  const auto sizes = parse_sizes(sizes_and_file.substr(0, colon), bytes ? 1 : 2, 1, form, example);
  const int64_t length = sizes[0];
  const std::string path = sizes_and_file.substr(colon + 1);
  if (bytes)
    return std::make_shared<TextRows>(std::make_shared<FileBytes>(path, request.working), length,
                                      split);
  const int64_t vocabulary = sizes[1];
  OpenWords alone;
  return std::make_shared<TextRows>(
      (open == nullptr ? alone : *open).open(path, vocabulary, request), length, vocabulary, split);
}

}  // namespace kerf::apps
