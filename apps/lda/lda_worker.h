// Latent Dirichlet allocation on a worker: its documents' tokens and topics, which stay, and the
// words' topics, which come block by block. Which documents these are it is told by a task: it may
// be asked before how fast it is.
//
// A block is a row of counts for each of its words, and behind these how many tokens have each
// topic in all: as many as all workers had when they last had this block. While a worker has it, it
// adds what it changed itself since then, and works with that. So what is known of a worker that is
// j places round the ring is j times as many visits old as a worker has blocks, half a turn on the
// mean; of oneself, nothing.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "apps/data/corpus.h"
#include "apps/lda/document_topics.h"
#include "apps/lda/lda_messages.h"
#include "apps/lda/rising_logs.h"
#include "apps/lda/topic_sampler.h"
#include "schedmp/program.h"
#include "schedmp/state.h"
#include "schedmp/variables/travelling_blocks.h"

namespace kerf::apps {

// The words' topics, block by block.
using TopicRows = schedmp::TravellingBlocks<int32_t>;
// Of a block of so many words.
inline int64_t numbers_of_block(int64_t words, int topics) {
  return (words + 1) * whole_lanes(topics);
}

class LdaWorker : public schedmp::KeepsState<LdaWorker, schedmp::WorkerHalf<LdaMessages>> {
 public:
  void start(runtime::Workplace& workplace, const LdaJob& job) override;
  // kRead throws Error{kUsage} that names the file.
  LdaResult update(const LdaTask& task) override;
  template <class Archive>
  void state(Archive& archive) {
    std::optional<LdaTask> reading = reading_;
    archive(reading);
    if (!reading) return;  // all is as it was made
    read(*reading);
    archive(tokens_, *documents_, own_, told_, *blocks_);
  }

 protected:
  // A block that is here.
  struct Block {
    size_t number = 0;
    std::span<int32_t> rows;
    std::span<int32_t> totals;
  };
  // Draws the topics of own tokens of the block anew. That of a benchmark sleeps, too.
  virtual void sweep(const Block& block, int64_t number);
  int64_t own_tokens(const Block& block) const;

 private:
  // Own tokens of a block, word by word.
  struct Cell {
    struct Run {
      int32_t word = 0;  // within the block
      int64_t end = 0;   // of its tokens; they begin where the last word's end
    };
    int64_t begin = 0;  // of the cell's tokens among the worker's
    std::vector<Run> runs;
  };

  double pace();
  void read(const LdaTask& task);
  void take_documents(const Corpus& corpus);
  void sort_tokens(const Corpus& corpus);
  void draw_first_topics();
  Block split(int number, std::span<int32_t> values) const;
  std::span<int32_t> row(const Block& block, int64_t word) const;
  // Calls act(word, begin, end) for each run of the cell.
  template <class Act>
  void for_each_run(const Cell& cell, const Act& act) const;
  void turn(const LdaTask& task, LdaResult& result);
  void count(const Block& block);
  void look_at_documents(LdaResult& result) const;
  void look_at_words(const Block& block, LdaResult& result) const;
  void tell_rows(const LdaTask& task, LdaResult& result);

  runtime::Activity* activity_ = nullptr;
  int worker_ = 0;
  int topics_ = 0;
  uint64_t seed_ = 0;
  std::string file_;
  WordBlocks words_;
  std::optional<LdaTask> reading_;  // that is behind us
  std::vector<Cell> cells_;         // by block
  std::vector<Token> tokens_;       // cell by cell
  std::vector<int64_t> lengths_;    // of documents, in tokens
  std::optional<DocumentTopics> documents_;
  std::vector<int32_t> own_;                // own tokens by topic
  std::vector<std::vector<int32_t>> told_;  // the same when the block was last given on, by block
  std::vector<float> uniforms_;
  std::optional<TopicSampler> sampler_;
  std::optional<RisingLogs> logs_of_words_, logs_of_topics_, logs_of_documents_;
  std::optional<TopicRows> blocks_;
};

}  // namespace kerf::apps
