// Matrix factorisation by block rotation (Gemulla, Nijkamp, Haas and Sismanis: "Large-scale matrix
// factorization with distributed stochastic gradient descent", KDD 2011). Of a rating r of item i
// by user u the model is m + p_u . q_i, with m the mean of all ratings, and
//
//   P = sum over ratings of (r - m - p_u . q_i)^2 + lambda (|p_u|^2 + |q_i|^2)
//
// is made small: a row is held back in proportion to how often it is rated.
//
// Users are divided over the workers, with their ratings and rows. Items are divided into blocks
// whose rows travel from worker to worker (schedmp/variables/travelling_blocks.h). An iteration is
// a turn: every worker has every block once, and takes a step for each of its ratings of it. No two
// workers ever have the same row, so that all is as if one did it alone, block by block.
//
//   schedule   tells who has which users: as many each, or in proportion to the speeds that it
//              asked for before. Then it tells everybody to turn, and by which steps:
//              step / (1 + decay t^1.5) (Yun et al.: "NOMAD", VLDB 2014); a turn is told while
//              another is under way
//   update     turns
//   aggregate  adds the errors up that were met on the way
//
// By CCD++ an iteration is the minimum along every number of the rows, in 2 rank + 1 turns
// (rank_ones.h); errors are of the rows behind it.
//
// Ratings are divided by their standard deviation s within, so that the same steps fit any scale:
// rows are 1 / sqrt(s) of what they are outside, and lambda is lambda / s.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "apps/mf/item_blocks.h"
#include "apps/mf/mf_messages.h"
#include "apps/report/history.h"
#include "schedmp/program.h"
#include "schedmp/state.h"

namespace kerf::apps {

struct MfOptions {
  std::string ratings, test;  // files; test may be empty
  int64_t users = 0;
  int64_t items = 0;
  int rank = 12;
  MfAlgorithm algorithm = MfAlgorithm::kSgd;
  double lambda = 0.01;
  double step = 0.12;  // and decay: of kSgd
  double decay = 0.2;
  int blocks_per_worker = 2;
  bool balance = false;     // users in proportion to measured speeds
  int64_t iterations = 30;  // at most
  // Converged where an iteration makes the objective smaller by less, relatively; 0: never.
  double tolerance = 1e-3;
  double most_seconds = 0;  // 0: no limit
  uint64_t seed = 1;
};

class Mf : public schedmp::KeepsState<Mf, schedmp::SchedulerHalf<MfMessages>> {
 public:
  // Metrics of its history, which has a point for each iteration.
  enum Metrics : uint8_t { kObjective, kTrainRmse, kTestRmse };

  Mf(const MfOptions& options, int workers);

  std::string name() const override { return "mf"; }
  int depth() const override { return 2; }
  Job job(int worker) override;
  schedmp::LaneTable lanes(int workers) const override;
  Decision schedule(int64_t round) override;
  void aggregate(int64_t round, std::vector<Result> results) override;
  template <class Archive>
  void state(Archive& archive) {
    archive(phase_, told_, borders_, moments_, scale_, turns_, iterations_, converged_, history_,
            asked_, users_, items_);
  }

  double mean() const { return moments_.mean; }
  int64_t ratings() const { return moments_.count; }
  // How many users each worker has.
  std::vector<int64_t> users_of_workers() const;
  // Row by row, `rank` numbers each.
  const std::vector<double>& users() const { return users_; }
  const std::vector<double>& items() const { return items_; }
  // Errors of kSgd are those that were met on the way, but for the last point, which is of the rows
  // as they are in the end.
  History& history() { return history_; }
  const std::vector<HistoryPoint>& points() const { return history_.points(); }
  bool converged() const { return converged_; }

 private:
  // What rounds are, one behind the other; turns are many.
  enum class Phase : uint8_t { kPace, kRead, kTurns, kErrors, kRows, kOver };

  // Whether the next round needs a result that is not in.
  bool waits() const;
  std::vector<Task> for_all(const MfTask& task) const;
  std::vector<Task> tasks_of_reading() const;
  MfTask turn(MfWork work) const;
  MfTask next_turn();
  std::vector<Task> tasks_of_rows();
  void take_pace(const std::vector<Result>& results);
  void take_moments(const std::vector<Result>& results);
  void take_turn(const std::vector<Result>& results, bool last);
  void take_rows(const std::vector<Result>& results);
  bool ends_with(double objective);

  // Where the rows go that a task of kRows asks for.
  struct Asked {
    int block = -1;  // -1: of users
    int64_t first = 0;
    template <class Archive>
    void serialize(Archive& archive) {
      archive(block, first);
    }
  };

  MfOptions options_;
  int workers_;
  ItemBlocks blocks_;
  Phase phase_;                   // of the next round
  std::vector<Phase> told_;       // of every round
  std::vector<int64_t> borders_;  // worker w has users from borders_[w] to borders_[w + 1]
  Moments moments_;
  double scale_ = 1;
  int64_t turns_ = 0;       // told
  int64_t iterations_ = 0;  // behind us
  bool converged_ = false;
  History history_;  // from the first turn on
  std::vector<Asked> asked_;
  std::vector<double> users_, items_;
};

}  // namespace kerf::apps
