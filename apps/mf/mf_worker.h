// Matrix factorisation on a worker: its users' ratings and rows, which stay, and the items' rows,
// which come block by block. Which users these are it is told by a task: it may be asked before how
// fast it is.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "apps/mf/factor_rows.h"
#include "apps/mf/item_blocks.h"
#include "apps/mf/mf_messages.h"
#include "apps/mf/rank_ones.h"
#include "apps/mf/rating_cells.h"
#include "ops/layout.h"
#include "schedmp/program.h"
#include "schedmp/state.h"
#include "schedmp/variables/travelling_blocks.h"

namespace kerf::apps {

class MfWorker : public schedmp::KeepsState<MfWorker, schedmp::WorkerHalf<MfMessages>> {
 public:
  void start(runtime::Workplace& workplace, const MfJob& job) override;
  // kRead throws Error{kUsage} that names the file.
  MfResult update(const MfTask& task) override;
  template <class Archive>
  void state(Archive& archive) {
    std::optional<MfTask> reading = reading_;
    std::optional<Standard> standard = standard_;
    archive(reading, standard);
    if (reading) read(*reading);
    archive(users_, *blocks_);
    if (standard) standardise_by(*standard);
    if (rank_ones_) archive(*rank_ones_);
  }

 protected:
  // A step for each of the ratings, which take_steps() takes. That of a benchmark sleeps.
  virtual double steps(std::span<const Rating> ratings, const SgdRate& rate, float* users,
                       float* items);

 private:
  // Ratings are less the mean of all, by their scale.
  struct Standard {
    double mean = 0, scale = 1;
    template <class Archive>
    void serialize(Archive& archive) {
      archive(mean, scale);
    }
  };
  void draw_items(runtime::Workplace& workplace);
  double pace();
  void read(const MfTask& task);
  void read_ratings(ops::Range users);
  void draw_users(ops::Range users);
  // The row of this number.
  std::span<float> row(std::span<float> rows, int64_t number) const;
  void standardise_by(const Standard& standard);
  MfResult turn(const MfTask& task);
  std::vector<float> rows_of(const MfTask& task);

  runtime::Activity* activity_ = nullptr;
  int worker_ = 0;
  MfJob job_;
  int stride_ = 0;
  std::optional<ItemBlocks> items_;
  std::optional<MfTask> reading_;  // that is behind us
  Moments moments_;
  std::optional<Standard> standard_;  // that ratings are by
  RatingCells cells_, tests_;
  std::vector<int64_t> user_counts_;               // own ratings by user
  std::vector<std::vector<int64_t>> item_counts_;  // by block, by item
  std::vector<float> users_;                       // rows
  std::optional<ItemRows> blocks_;                 // the items' rows
  std::optional<RankOnes> rank_ones_;              // of kCcd
};

}  // namespace kerf::apps
