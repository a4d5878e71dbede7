#include "apps/data/words.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>

#include "runtime/error.h"

namespace kerf::apps {

namespace {

constexpr size_t kPieceOfText = size_t{1} << 20;
constexpr size_t kLongestWord = 4096;
constexpr size_t kMostWords = size_t{1} << 24;  // different ones

// Calls act(word) for every word of the file, and "\n" for every end of a line.
template <class Act>
void for_each_word(const ByteSource& file, const Act& act) {
  std::vector<std::byte> piece(std::min(kPieceOfText, file.size()));
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

Words::Words(std::shared_ptr<const ByteSource> file, int64_t vocabulary)
    : file_(std::move(file)), vocabulary_(vocabulary) {
  for_each_word(*file_, [&](const std::string&) { ++count_; });
}

// Once to count how common words are, and once to number them.
bool Words::number() const {
  bool now = false;
  std::call_once(numbered_, [&] {
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
    std::vector<int32_t> numbers;
    numbers.reserve(static_cast<size_t>(count_));
    for_each_word(*file_, [&](const std::string& word) {
      const auto found = number_of.find(word);
      numbers.push_back(found == number_of.end() ? 0 : found->second);
    });
    if (std::ssize(numbers) != count_)
      throw Error(ErrorCode::kUsage,
                  format("it has {} words; it had {} when it was opened", numbers.size(), count_),
                  file_->origin());
    numbers_ = std::move(numbers);
    now = true;
  });
  return now;
}

std::shared_ptr<const Words> OpenWords::open(const std::filesystem::path& path, int64_t vocabulary,
                                             const Working& working) {
  const std::lock_guard lock(mutex_);
  std::weak_ptr<const Words>& known = words_[{path, vocabulary}];
  std::shared_ptr<const Words> words = known.lock();
  if (words == nullptr) {
    words = std::make_shared<Words>(std::make_shared<FileBytes>(path, working), vocabulary);
    known = words;
  }
  return words;
}

}  // namespace kerf::apps
