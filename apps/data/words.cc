#include "apps/data/words.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "apps/data/host_memory.h"
#include "runtime/error.h"
#include "runtime/fingerprint.h"

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

Words::Words(std::shared_ptr<const ByteSource> file, int64_t vocabulary,
             std::vector<std::string> given)
    : file_(std::move(file)), vocabulary_(vocabulary), given_(std::move(given)) {
  if (std::ssize(given_) >= vocabulary_)
    throw Error(ErrorCode::kUsage,
                format("the weights were trained by {} words, but the model has numbers for {}",
                       given_.size(), vocabulary_ - 1),
                file_->origin());
  for_each_word(*file_, [&](const std::string&) { ++count_; });
}

const std::vector<std::string>& Words::names() const {
  if (!given_.empty()) return given_;
  std::call_once(named_, [&] {
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
    for (size_t i = 0; i < kept; ++i) names_.emplace_back(common[i].second);
  });
  return names_;
}

schedmp::Numbering Words::numbering() const { return {"words", names()}; }

std::string Words::given_text() const {
  if (given_.empty()) return {};
  runtime::Fingerprint sum;
  for (const std::string& name : given_) {
    sum.add_text(name);
    sum.add_text(" ");
  }
  return format(" by {} words {}", given_.size(), sum.hex());
}

bool Words::number_all() const {
  bool now = false;
  std::call_once(numbered_, [&] {
    std::unordered_map<std::string_view, int32_t> number_of;
    for (const std::string& name : names())
      number_of.emplace(name, static_cast<int32_t>(number_of.size() + 1));
    const auto bytes = static_cast<size_t>(count_) * sizeof(int32_t);
    if (const size_t memory = memory_of_host(); memory > 0 && bytes > memory)
      throw Error(ErrorCode::kUsage,
                  format("its words take {} bytes of memory, and this host has {}; divide the file",
                         bytes, memory),
                  file_->origin());
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
                                             const schedmp::DataRequest& request) {
  const bool given = request.numbering && request.numbering->what == "words";
  const auto names = given ? request.numbering->names : std::vector<std::string>();
  const std::lock_guard lock(mutex_);
  std::weak_ptr<const Words>& known = words_[{path, vocabulary, names}];
  std::shared_ptr<const Words> words = known.lock();
  if (words == nullptr) {
    words = std::make_shared<Words>(std::make_shared<FileBytes>(path, request.working), vocabulary,
                                    names);
    known = words;
  }
  return words;
}

}  // namespace kerf::apps
