#include "apps/data/corpus.h"

#include <algorithm>

#include "apps/data/sparse_columns.h"
#include "apps/data/sparse_entries.h"
#include "apps/data/text_lines.h"
#include "runtime/error.h"

namespace kerf::apps {

namespace {

constexpr int64_t kMostTokens = INT32_MAX;  // any count of them fits four bytes

class DocumentLines {
 public:
  DocumentLines(const ByteSource& file, int64_t words) : lines_(file), words_(words) {
    if (words > 0) seen_.resize(static_cast<size_t>(words), -1);
  }

  // The next line; empty behind the last.
  std::optional<std::string_view> next() { return lines_.next(); }
  int64_t documents() const { return lines_.number(); }  // up to the line

  // Calls act(word, count) for each of the line.
  template <class Act>
  void for_each_word(std::string_view line, const Act& act) {
    Fields fields(line);
    while (!fields.done()) {
      const Fields before = fields;
      int64_t word = 0, count = 0;
      if (!fields.take_key(word)) [[unlikely]]
        lines_.expected("WORD:COUNT", before);
      if (word < 0 || word > most_word()) [[unlikely]]
        lines_.expected(format("a word from 0 to {}", most_word()), before);
      const Fields behind = fields;
      if (!fields.take(count) || count < 1 || count > kMostTokens) [[unlikely]]
        lines_.expected(format("a count from 1 to {} behind the ':'", kMostTokens), behind);
      expect_first(word);
      tokens_ += count;
      if (tokens_ > kMostTokens) [[unlikely]]
        lines_.refuse(format("more than {} tokens", kMostTokens));
      act(word, count);
    }
  }

 private:
  int64_t most_word() const { return words_ > 0 ? words_ - 1 : kMostIndices - 1; }
  // Of this word in this document.
  void expect_first(int64_t word) {
    if (word >= std::ssize(seen_)) {
      if (!may_claim(word + 1, lines_.file().size())) [[unlikely]]
        lines_.refuse(format("word {} is beyond what a file of {} bytes may claim", word,
                             lines_.file().size()));
      seen_.resize(static_cast<size_t>(std::max<int64_t>(word + 1, 2 * std::ssize(seen_))), -1);
    }
    int64_t& seen = seen_[static_cast<size_t>(word)];
    if (seen == lines_.number()) [[unlikely]]
      lines_.refuse(format("word {} is there twice", word));
    seen = lines_.number();
  }

  TextLines lines_;
  int64_t words_;
  int64_t tokens_ = 0;
  std::vector<int64_t> seen_;  // the last document with it, by word
};

}  // namespace

TokenCounts count_tokens(const ByteSource& file, int64_t words) {
  KERF_CHECK(words >= 0 && words <= kMostIndices, "{} words", words);
  DocumentLines lines(file, words);
  TokenCounts counts;
  counts.of_words.resize(static_cast<size_t>(words));
  while (const auto line = lines.next()) {
    int64_t& here = counts.of_documents.emplace_back();
    lines.for_each_word(*line, [&](int64_t word, int64_t count) {
      if (word >= std::ssize(counts.of_words))
        counts.of_words.resize(static_cast<size_t>(word) + 1);
      counts.of_words[static_cast<size_t>(word)] += count;
      here += count;
    });
    counts.all += here;
  }
  return counts;
}

Corpus read_documents(const ByteSource& file, int64_t words, ops::Range documents) {
  KERF_CHECK(words >= 1 && words <= kMostIndices, "{} words", words);
  DocumentLines lines(file, words);
  Corpus corpus;
  while (lines.documents() < documents.end) {
    const auto line = lines.next();
    if (!line) break;
    if (lines.documents() <= documents.begin) continue;
    lines.for_each_word(*line, [&](int64_t word, int64_t count) {
      corpus.entries.push_back({static_cast<int32_t>(word), static_cast<int32_t>(count)});
    });
    corpus.begins.push_back(std::ssize(corpus.entries));
  }
  return corpus;
}

std::vector<std::string> read_vocabulary(const ByteSource& file) {
  TextLines lines(file);
  std::vector<std::string> words;
  while (const auto line = lines.next()) {
    Fields fields(*line);
    const Fields before = fields;
    const std::string_view word = fields.word();
    if (word.empty() || !fields.done()) lines.expected("one word", word.empty() ? before : fields);
    if (std::ssize(words) == kMostIndices) lines.refuse(format("more than {} words", kMostIndices));
    words.emplace_back(word);
  }
  return words;
}

}  // namespace kerf::apps
