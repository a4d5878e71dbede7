#include "apps/data/text_rows.h"

#include <algorithm>
#include <unordered_map>

#include "apps/data/sizes.h"
#include "runtime/error.h"

namespace kerf::apps {

namespace {

constexpr int64_t kBytesOfAlphabet = 256;
constexpr size_t kPieceOfText = size_t{1} << 20;
constexpr size_t kLongestWord = 4096;
constexpr size_t kMostWords = size_t{1} << 24;  // different ones
constexpr int64_t kShareForTests = 10;          // one row of so many

// Calls act(word) for every word of the file, and "\n" for every end of a line.
template <class Act>
void for_each_word(const FileBytes& file, const Act& act) {
  std::vector<std::byte> piece(kPieceOfText);
  std::string word;
  const auto end_word = [&] {
    if (!word.empty()) act(word);
    word.clear();
  };
  for (size_t at = 0; at < file.size(); at += piece.size()) {
    const auto part = std::span(piece).first(std::min(piece.size(), file.size() - at));
    file.read(at, part);
    for (size_t i = 0; i < part.size(); ++i) {
      const char letter = static_cast<char>(part[i]);
      const bool space = letter == ' ' || (letter >= '\t' && letter <= '\r');
      if (!space) word += letter;
      if (word.size() > kLongestWord)
        throw Error(ErrorCode::kUsage,
                    format("byte {}: a word of more than {} bytes", at + i, kLongestWord),
                    file.origin());
      if (space) end_word();
      if (letter == '\n') act(std::string("\n"));
    }
  }
  end_word();
}

}  // namespace

TextRows::TextRows(TokensOf tokens, const std::string& sizes_and_file, schedmp::Split split)
    : tokens_(tokens) {
  const size_t colon = sizes_and_file.find(':');
  if (colon == std::string::npos)
    throw Error(ErrorCode::kUsage, "expected LENGTHxVOCABULARY:FILE, as in text:128x256:book.txt",
                "--data");
  const Sizes sizes = parse_three_sizes("1x" + sizes_and_file.substr(0, colon),
                                        "LENGTHxVOCABULARY:FILE", "text:128x256:book.txt");
  length_ = sizes[1];
  vocabulary_ = sizes[2];
  file_ = std::make_unique<FileBytes>(sizes_and_file.substr(colon + 1));
  const int64_t count =
      tokens_ == TokensOf::kBytes ? static_cast<int64_t>(file_->size()) : count_words();
  const int64_t all = (count - 1) / length_;
  if (count < 1 || all < 2)
    throw Error(ErrorCode::kUsage,
                format("it has {} tokens; two rows of {} and a label behind them take {}", count,
                       length_, 2 * length_ + 1),
                file_->origin());
  const int64_t tests = std::max<int64_t>(1, all / kShareForTests);
  const bool train = split == schedmp::Split::kTrain;
  rows_ = train ? all - tests : tests;
  first_ = train ? 0 : all - tests;
}

int64_t TextRows::count_words() const {
  int64_t count = 0;
  for_each_word(*file_, [&](const std::string&) { ++count; });
  return count;
}

// Twice through the file: to count how common words are, and to number them.
void TextRows::number_words() const {
  std::call_once(numbered_, [this] {
    std::unordered_map<std::string, int64_t> counts;
    for_each_word(*file_, [&](const std::string& word) {
      ++counts[word];
      if (counts.size() > kMostWords)
        throw Error(ErrorCode::kUsage, format("it has more than {} different words", kMostWords),
                    file_->origin());
    });
    std::vector<std::pair<int64_t, std::string_view>> common;
    for (const auto& [word, count] : counts) common.emplace_back(-count, word);
    const auto kept = std::min<size_t>(common.size(), static_cast<size_t>(vocabulary_ - 1));
    std::partial_sort(common.begin(), common.begin() + static_cast<std::ptrdiff_t>(kept),
                      common.end());
    std::unordered_map<std::string_view, int32_t> number_of;
    for (size_t i = 0; i < kept; ++i)
      number_of.emplace(common[i].second, static_cast<int32_t>(i + 1));
    for_each_word(*file_, [&](const std::string& word) {
      const auto found = number_of.find(word);
      numbers_.push_back(found == number_of.end() ? 0 : found->second);
    });
    numbers_.shrink_to_fit();
    held_ = static_cast<int64_t>(numbers_.size() * sizeof(int32_t));
  });
}

int64_t TextRows::classes() const {
  return tokens_ == TokensOf::kBytes ? kBytesOfAlphabet : vocabulary_;
}

std::optional<ops::ValueSpec> TextRows::input(std::string_view /*name*/) const {
  return ops::ValueSpec{ops::DType::kInt64, {ops::kBatch, length_}};
}

std::string TextRows::fingerprint() const {
  return format("{} {}x{} {} from {} {:08x}", tokens_ == TokensOf::kBytes ? "text" : "words",
                length_, vocabulary_, rows_, first_, file_->checksum());
}

void TextRows::read(std::span<const int64_t> rows, int64_t shift, const ops::TensorView& to) const {
  KERF_CHECK(to.dtype == ops::DType::kInt64 &&
             to.elements() == static_cast<int64_t>(rows.size()) * length_);
  if (tokens_ == TokensOf::kWords) number_words();
  std::vector<std::byte> bytes(static_cast<size_t>(length_));
  int64_t* out = to.i64();
  for (const int64_t row : rows) {
    KERF_CHECK(row >= 0 && row < rows_, "row {} of {}", row, rows_);
    const int64_t begin = (first_ + row) * length_ + shift;
    if (tokens_ == TokensOf::kWords) {
      out = std::copy_n(numbers_.begin() + begin, length_, out);
      continue;
    }
    file_->read(static_cast<size_t>(begin), bytes);
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

}  // namespace kerf::apps
