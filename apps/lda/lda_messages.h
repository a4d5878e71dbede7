// What the halves of latent Dirichlet allocation say to each other.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "apps/lda/word_blocks.h"

namespace kerf::apps {

struct LdaJob {
  std::string corpus;  // a file, absolute
  WordBlocks blocks;
  int32_t topics = 0;
  double alpha = 0, beta = 0;
  uint64_t seed = 0;

  template <class Archive>
  void serialize(Archive& archive) {
    archive(corpus, blocks, topics, alpha, beta, seed);
  }
};

enum class LdaWork : uint8_t {
  kPace,   // say how long a sweep over a sample of tokens takes
  kRead,   // own documents, and in a turn of the blocks add their tokens, of topics drawn uniformly
  kSweep,  // say how things are, and in a turn draw every own token's topic anew
  kLook,   // say how things are
  kRows,   // say what some words' counts are
};

struct LdaTask {
  LdaWork work = LdaWork::kRead;
  int64_t sweep = 0;             // from 1
  int64_t first = 0, count = 0;  // of kRead: documents; of kRows: words, from those of
  int32_t place = 0;             // the block that is at home at this place
  int64_t tokens = 0;            // of kRead: of these documents, as the scheduler saw them

  template <class Archive>
  void serialize(Archive& archive) {
    archive(work, sweep, first, count, place, tokens);
  }
};

struct LdaResult {
  double seconds = 0;  // of kPace
  // How things were when the task began: parts of log p(w, z), and how many tokens have each topic,
  // by own documents and by the words of blocks at home.
  double of_words = 0, of_documents = 0;
  std::vector<int32_t> topics_of_documents, topics_of_words;
  // Of kRows: counts that are not 0.
  std::vector<int32_t> words, topics, counts;

  template <class Archive>
  void serialize(Archive& archive) {
    archive(seconds, of_words, of_documents, topics_of_documents, topics_of_words, words, topics,
            counts);
  }
};

struct LdaMessages {
  using Job = LdaJob;
  using Task = LdaTask;
  using Result = LdaResult;
};

}  // namespace kerf::apps
