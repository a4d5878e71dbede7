// Latent Dirichlet allocation by collapsed Gibbs sampling (Griffiths and Steyvers: "Finding
// scientific topics", PNAS 2004), over blocks of words that rotate (Zheng, Kim, Ho and Xing:
// "Model-parallel inference for big topic models", arXiv:1411.2305; Kim et al., EuroSys 2016).
//
// Documents are divided over the workers, and stay there with the topics of their tokens. Words
// are divided into blocks (word_blocks.h), whose counts by topic travel from worker to worker. An
// iteration is a turn: every worker has every block once, and draws the topic of each of its tokens
// of it anew (topic_sampler.h). No two workers ever have a word at once. How many tokens a topic
// has in all changes everywhere at once; it travels with the blocks (lda_worker.h).
//
//   schedule   tells who has which documents: as many tokens each, or in proportion to the speeds
//              that it asked for before. Then it tells everybody to turn; a turn is told while
//              another is under way
//   update     turns
//   aggregate  checks that no token was lost, and adds the likelihood up
//
// How well topics z explain words w is told by the logarithm of their joint probability, the
// Dirichlet priors integrated out: with G the logarithm of the gamma function,
//
//   log p(w, z) = sum over topics k of G(V beta) - G(n_k + V beta)
//                                    + sum over words w of G(n_wk + beta) - G(beta)
//               + sum over documents d of G(K alpha) - G(n_d + K alpha)
//                                       + sum over topics k of G(n_dk + alpha) - G(alpha)
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "apps/data/corpus.h"
#include "apps/data/sparse_entries.h"
#include "apps/lda/lda_messages.h"
#include "apps/lda/rising_logs.h"
#include "apps/lda/topic_model.h"
#include "apps/report/history.h"
#include "schedmp/program.h"
#include "schedmp/state.h"

namespace kerf::apps {

struct LdaOptions {
  std::string corpus;  // a file
  int topics = 100;
  double alpha = 0.1, beta = 0.01;
  int blocks_per_worker = 2;
  bool balance = false;      // documents in proportion to measured speeds
  int64_t iterations = 100;  // at most
  double most_seconds = 0;   // 0: no limit
  uint64_t seed = 1;
};

class Lda : public schedmp::KeepsState<Lda, schedmp::SchedulerHalf<LdaMessages>> {
 public:
  // Metrics of its history, which has a point behind each iteration, and one behind none: of the
  // topics that were drawn first.
  enum Metrics : uint8_t { kLogLikelihood, kPerToken };

  // tokens: of the corpus, which has a document for each worker.
  Lda(const LdaOptions& options, const TokenCounts& tokens, int workers);

  std::string name() const override { return "lda"; }
  int depth() const override { return 2; }
  Job job(int worker) override;
  schedmp::LaneTable lanes(int workers) const override;
  Decision schedule(int64_t round) override;
  void aggregate(int64_t round, std::vector<Result> results) override;
  template <class Archive>
  void state(Archive& archive) {
    archive(phase_, told_, borders_, sweeps_, counted_, behind_, history_, model_);
  }

  History& history() { return history_; }
  const std::vector<HistoryPoint>& points() const { return history_.points(); }
  const TopicModel& model() const { return model_; }
  // How many documents each worker has.
  std::vector<int64_t> documents_of_workers() const;

 private:
  // What rounds are, one behind the other; sweeps are many.
  enum class Phase : uint8_t { kPace, kRead, kSweeps, kLook, kRows, kOver };

  // Whether the next round needs a result that is not in.
  bool waits() const;
  std::vector<Task> for_all(const LdaTask& task) const;
  std::vector<Task> tasks_of_reading() const;
  std::vector<Task> tasks_of_rows() const;
  void take_pace(const std::vector<Result>& results);
  void take_look(const std::vector<Result>& results);
  void take_rows(const std::vector<Result>& results);
  double log_likelihood(const std::vector<Result>& results,
                        const std::vector<int64_t>& topics) const;

  LdaOptions options_;
  int workers_;
  int64_t tokens_;
  std::vector<int64_t> tokens_of_documents_;
  WordBlocks blocks_;
  RisingLogs logs_of_totals_;
  Phase phase_;                   // of the next round
  std::vector<Phase> told_;       // of every round
  std::vector<int64_t> borders_;  // worker w has documents from borders_[w] to borders_[w + 1]
  int64_t sweeps_ = 0;            // told
  bool counted_ = false;
  double behind_ = 0;  // seconds until the last sweep was done
  History history_;    // from the first sweep on
  TopicModel model_;
};

}  // namespace kerf::apps
