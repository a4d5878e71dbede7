#include "apps/mf/mf_worker.h"

#include <algorithm>

#include "apps/data/matrix_file.h"
#include "runtime/error.h"

namespace kerf::apps {

namespace {

SparseColumns ratings_of_users(const std::string& file, const MfJob& job, const Working& working) {
  SparseColumns ratings = read_matrix(file, {job.begin, job.end}, working);
  if (ratings.columns != job.items)
    throw Error(ErrorCode::kUsage,
                format("another matrix than the scheduler's: {} columns, not {}", ratings.columns,
                       job.items),
                file);
  return ratings;
}

}  // namespace

void MfWorker::start(runtime::Workplace& workplace, const MfJob& job) {
  activity_ = &workplace.activity;
  activity_->doing("reading its ratings");
  rank_ = job.rank;
  stride_ = padded(job.rank);
  algorithm_ = job.algorithm;
  items_.emplace(job.items, job.blocks, job.seed);
  read_ratings(job);
  if (algorithm_ == MfAlgorithm::kSgd) shuffle(cells_, job.seed, workplace.worker);
  draw_rows(workplace, job);
}

void MfWorker::read_ratings(const MfJob& job) {
  const Working working = [this] { activity_->progress(); };
  const SparseColumns ratings = ratings_of_users(job.ratings, job, working);
  moments_ = moments_of(ratings.values);
  cells_ = cells_of(ratings, *items_, moments_.mean);
  if (job.test.empty())
    tests_.resize(cells_.size());
  else
    tests_ = cells_of(ratings_of_users(job.test, job, working), *items_, moments_.mean);
  user_counts_.resize(static_cast<size_t>(job.end - job.begin));
  for (int block = 0; block < items_->blocks(); ++block) {
    auto& counts = item_counts_.emplace_back(static_cast<size_t>(items_->size(block)));
    for (const Rating& each : cells_[static_cast<size_t>(block)]) {
      ++user_counts_[static_cast<size_t>(each.user)];
      ++counts[static_cast<size_t>(each.item)];
    }
  }
}

void MfWorker::draw_rows(runtime::Workplace& workplace, const MfJob& job) {
  const auto row = [this](std::span<float> rows, int64_t number) {
    return rows.subspan(static_cast<size_t>(number * stride_), static_cast<size_t>(stride_));
  };
  users_.resize(user_counts_.size() * static_cast<size_t>(stride_));
  const bool zeros = algorithm_ == MfAlgorithm::kCcd;
  for (int64_t user = job.begin; user < job.end && !zeros; ++user)
    draw_row(FactorSide::kUsers, user, rank_, job.seed, row(users_, user - job.begin));
  std::vector<int64_t> sizes;
  for (int block = 0; block < items_->blocks(); ++block)
    sizes.push_back(items_->size(block) * (stride_ + (zeros ? kNumbersOfSums : 0)));
  blocks_.emplace(workplace, std::move(sizes));
  for (int place = 0; place < blocks_->home_blocks(); ++place)
    for (int64_t i = 0; i < items_->size(blocks_->home_block(place)); ++i)
      draw_row(FactorSide::kItems, items_->item(blocks_->home_block(place), i), rank_, job.seed,
               row(blocks_->at_home(place), i));
}

MfResult MfWorker::update(const MfTask& task) {
  MfResult result;
  if (task.work == MfWork::kMoments)
    result.moments = moments_;
  else if (task.work == MfWork::kRows)
    result.rows = rows_of(task);
  else
    result = turn(task);
  activity_->progress();
  return result;
}

void MfWorker::standardise_by(const Standard& standard) {
  if (standard_) return;
  standard_ = standard;
  standardise(cells_, standard.mean - moments_.mean, standard.scale);
  standardise(tests_, standard.mean - moments_.mean, standard.scale);
  if (algorithm_ == MfAlgorithm::kCcd)
    rank_ones_.emplace(cells_, std::ssize(user_counts_), rank_, stride_);
}

MfResult MfWorker::turn(const MfTask& task) {
  standardise_by({task.mean, task.scale});
  const SgdRate rate{static_cast<float>(task.step), static_cast<float>(task.lambda)};
  if (task.work == MfWork::kMinima) rank_ones_->iterate(*blocks_, rate.lambda, users_, *activity_);
  MfResult result;
  for (int i = 0; i < blocks_->blocks(); ++i) {
    const auto block = static_cast<size_t>(blocks_->block());
    const std::span<float> values = blocks_->take();
    if (rank_ones_) rank_ones_->settle(*blocks_, i, values, users_);
    float* rows = values.data();
    if (task.work == MfWork::kSteps)
      result.errors += take_steps(cells_[block], rate, stride_, users_.data(), rows);
    else
      result.errors += squared_errors(cells_[block], stride_, users_.data(), rows);
    result.squares += weighted_squares(rows, stride_, item_counts_[block]);
    result.test_errors += squared_errors(tests_[block], stride_, users_.data(), rows);
    result.tested += std::ssize(tests_[block]);
    blocks_->give();
    activity_->progress();
  }
  result.squares += weighted_squares(users_.data(), stride_, user_counts_);
  return result;
}

std::vector<float> MfWorker::rows_of(const MfTask& task) {
  const std::span<const float> rows = task.place < 0 ? users_ : blocks_->at_home(task.place);
  KERF_CHECK(task.first >= 0 && task.count >= 0 &&
             (task.first + task.count) * stride_ <= std::ssize(rows));
  std::vector<float> some;
  some.reserve(static_cast<size_t>(task.count * rank_));
  for (int64_t i = task.first; i < task.first + task.count; ++i) {
    const float* row = rows.data() + i * stride_;
    some.insert(some.end(), row, row + rank_);
  }
  return some;
}

}  // namespace kerf::apps
