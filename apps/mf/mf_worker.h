// Matrix factorisation on a worker: its users' ratings and rows, which stay, and the items' rows,
// which come block by block.
#pragma once

#include <optional>
#include <vector>

#include "apps/mf/factor_rows.h"
#include "apps/mf/item_blocks.h"
#include "apps/mf/mf_messages.h"
#include "apps/mf/rank_ones.h"
#include "apps/mf/rating_cells.h"
#include "schedmp/program.h"
#include "schedmp/state.h"
#include "schedmp/variables/travelling_blocks.h"

namespace kerf::apps {

class MfWorker : public schedmp::KeepsState<MfWorker, schedmp::WorkerHalf<MfMessages>> {
 public:
  // Reads its ratings. Throws Error{kUsage} that names the file.
  void start(runtime::Workplace& workplace, const MfJob& job) override;
  MfResult update(const MfTask& task) override;
  template <class Archive>
  void state(Archive& archive) {
    std::optional<Standard> standard = standard_;
    archive(standard, users_, *blocks_);
    if (standard) standardise_by(*standard);
    if (rank_ones_) archive(*rank_ones_);
  }

 private:
  // Ratings are less the mean of all, by their scale.
  struct Standard {
    double mean = 0, scale = 1;
    template <class Archive>
    void serialize(Archive& archive) {
      archive(mean, scale);
    }
  };
  void read_ratings(const MfJob& job);
  void draw_rows(runtime::Workplace& workplace, const MfJob& job);
  void standardise_by(const Standard& standard);
  MfResult turn(const MfTask& task);
  std::vector<float> rows_of(const MfTask& task);

  runtime::Activity* activity_ = nullptr;
  int rank_ = 0;
  int stride_ = 0;
  MfAlgorithm algorithm_ = MfAlgorithm::kSgd;
  std::optional<ItemBlocks> items_;
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
