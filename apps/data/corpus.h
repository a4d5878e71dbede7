// Documents as counts of their words, a line each:
//
//   0:2 17:1 4093:1
//
// WORD:COUNT, words numbered from 0, in any order, each once in a document; a count is 1 or more.
// An empty line is a document without words. And vocabularies: a word a line, that of number 0
// first.
//
// Everything in a file is checked; it is gone through once, a piece at a time. Every function
// throws Error{kUsage} at "FILE:LINE" for what is no such file. Pure functions.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "apps/data/byte_source.h"
#include "ops/layout.h"

namespace kerf::apps {

struct WordCount {
  int32_t word = 0;
  int32_t count = 0;
  bool operator==(const WordCount&) const = default;
};

// Some documents.
struct Corpus {
  std::vector<int64_t> begins = {0};  // documents + 1: document d is [begins[d], begins[d + 1])
  std::vector<WordCount> entries;

  int64_t documents() const { return std::ssize(begins) - 1; }
  std::span<const WordCount> document(int64_t number) const {
    const auto d = static_cast<size_t>(number);
    return std::span(entries).subspan(static_cast<size_t>(begins[d]),
                                      static_cast<size_t>(begins[d + 1] - begins[d]));
  }
};

// How many tokens there are: a word that a document has twice is two.
struct TokenCounts {
  std::vector<int64_t> of_documents;
  std::vector<int64_t> of_words;  // up to the largest number, or as many as were given
  int64_t all = 0;                // at most 2^31 - 1
};

// `words`: how many there are; 0: as the largest number says.
TokenCounts count_tokens(const ByteSource& file, int64_t words = 0);

// Those of the range that the file has, of so many words. Lines of others are skipped.
Corpus read_documents(const ByteSource& file, int64_t words, ops::Range documents);

std::vector<std::string> read_vocabulary(const ByteSource& file);

}  // namespace kerf::apps
