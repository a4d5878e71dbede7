// A topic model: how many tokens of each word have each topic, from which follows how probable
// words are in topics (topic_shares.h). As a folder:
//
//   model.txt    "kerf lda: ..." which says what it is, then a line each: topics K, words V,
//                tokens N, alpha A, beta B
//   counts.mtx   Matrix Market coordinates, words x topics, of counts that are not 0
//   topics.txt   a line for each topic: its number, its tokens, and its commonest words
//   words.txt    where words have names: a word a line
//
// A plain value; pure functions.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "apps/data/sparse_columns.h"

namespace kerf::apps {

inline constexpr int64_t kMostWordsOfTopics = int64_t{1} << 23;
inline constexpr double kLeastPrior = 1e-6, kMostPrior = 1e6;

struct TopicModel {
  double alpha = 0, beta = 0;           // of the Dirichlet priors; above 0
  SparseColumns counts;                 // topics x words: whole numbers from 1
  std::vector<std::string> vocabulary;  // by word, or empty

  int64_t topics() const { return counts.rows; }
  int64_t words() const { return counts.columns; }
  std::vector<int64_t> topic_tokens() const;  // by topic
  // What a word is called: its number where it has no name.
  std::string name_of(int64_t word) const;

  template <class Archive>
  void serialize(Archive& archive) {
    archive(alpha, beta, counts, vocabulary);
  }
};

// The numbers of so many words of each topic at most, the commonest first.
std::vector<std::vector<int64_t>> commonest_words(const TopicModel& model, size_t most);

// The folder must exist. Throws Error{kUnavailable} where the system refuses.
void write_topic_model(const std::filesystem::path& folder, const TopicModel& model);
// Everything that it reads is checked: all but topics.txt. Throws Error{kUsage} at the file.
TopicModel read_topic_model(const std::filesystem::path& folder);

}  // namespace kerf::apps
