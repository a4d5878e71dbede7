#include "apps/mf/mf_worker.h"

#include <algorithm>

#include "apps/data/matrix_file.h"
#include "runtime/error.h"
#include "schedmp/variables/measured_pace.h"

namespace kerf::apps {

namespace {

constexpr int64_t kSampleUsers = 1024, kSampleRatings = int64_t{1} << 14;

SparseColumns ratings_of_users(const std::string& file, ops::Range users, int64_t items,
                               const Working& working) {
  SparseColumns ratings = read_matrix(file, users, working);
  if (ratings.columns != items)
    throw Error(
        ErrorCode::kUsage,
        format("another matrix than the scheduler's: {} columns, not {}", ratings.columns, items),
        file);
  return ratings;
}

}  // namespace

void MfWorker::start(runtime::Workplace& workplace, const MfJob& job) {
  activity_ = &workplace.activity;
  worker_ = workplace.worker;
  job_ = job;
  stride_ = padded(job.rank);
  items_.emplace(job.items, job.blocks, job.seed);
  draw_items(workplace);
}

std::span<float> MfWorker::row(std::span<float> rows, int64_t number) const {
  return rows.subspan(static_cast<size_t>(number * stride_), static_cast<size_t>(stride_));
}

void MfWorker::draw_items(runtime::Workplace& workplace) {
  const bool sums = job_.algorithm == MfAlgorithm::kCcd;
  std::vector<int64_t> sizes;
  for (int block = 0; block < items_->blocks(); ++block)
    sizes.push_back(items_->size(block) * (stride_ + (sums ? kNumbersOfSums : 0)));
  blocks_.emplace(workplace, std::move(sizes));
  for (int place = 0; place < blocks_->home_blocks(); ++place)
    for (int64_t i = 0; i < items_->size(blocks_->home_block(place)); ++i)
      draw_row(FactorSide::kItems, items_->item(blocks_->home_block(place), i), job_.rank,
               job_.seed, row(blocks_->at_home(place), i));
}

// With the rows of a block at home, which steps of size 0 leave as they are.
double MfWorker::pace() {
  activity_->doing("measuring its pace");
  const std::vector<Rating> sample =
      sample_of_ratings(kSampleRatings, kSampleUsers, items_->size(blocks_->home_block(0)));
  std::vector<float> users(static_cast<size_t>(kSampleUsers * stride_));
  const std::span<float> items = blocks_->at_home(0);
  return schedmp::measured_pace([&] {
    steps(sample, {}, users.data(), items.data());
    activity_->progress();
  });
}

// Once: a task that is told again, or comes from a snapshot of this half, finds it done.
void MfWorker::read(const MfTask& task) {
  if (reading_) return;
  KERF_CHECK(task.first >= 0 && task.count >= 0 && task.first <= job_.users - task.count,
             "users from {} on, {} of {}", task.first, task.count, job_.users);
  activity_->doing("reading its ratings");
  const ops::Range users{task.first, task.first + task.count};
  read_ratings(users);
  if (job_.algorithm == MfAlgorithm::kSgd) shuffle(cells_, job_.seed, worker_);
  draw_users(users);
  reading_ = task;
}

void MfWorker::read_ratings(ops::Range users) {
  const Working working = [this] { activity_->progress(); };
  const SparseColumns ratings = ratings_of_users(job_.ratings, users, job_.items, working);
  moments_ = moments_of(ratings.values);
  cells_ = cells_of(ratings, *items_, moments_.mean);
  if (job_.test.empty())
    tests_.resize(cells_.size());
  else
    tests_ =
        cells_of(ratings_of_users(job_.test, users, job_.items, working), *items_, moments_.mean);
  user_counts_.resize(static_cast<size_t>(users.size()));
  for (int block = 0; block < items_->blocks(); ++block) {
    auto& counts = item_counts_.emplace_back(static_cast<size_t>(items_->size(block)));
    for (const Rating& each : cells_[static_cast<size_t>(block)]) {
      ++user_counts_[static_cast<size_t>(each.user)];
      ++counts[static_cast<size_t>(each.item)];
    }
  }
}

void MfWorker::draw_users(ops::Range users) {
  users_.resize(user_counts_.size() * static_cast<size_t>(stride_));
  if (job_.algorithm == MfAlgorithm::kCcd) return;  // zeros
  for (int64_t user = users.begin; user < users.end; ++user)
    draw_row(FactorSide::kUsers, user, job_.rank, job_.seed, row(users_, user - users.begin));
}

MfResult MfWorker::update(const MfTask& task) {
  MfResult result;
  switch (task.work) {
    case MfWork::kPace:
      result.seconds = pace();
      break;
    case MfWork::kRead:
      read(task);
      result.moments = moments_;
      break;
    case MfWork::kRows:
      result.rows = rows_of(task);
      break;
    default:
      result = turn(task);
  }
  activity_->progress();
  return result;
}

void MfWorker::standardise_by(const Standard& standard) {
  if (standard_) return;
  standard_ = standard;
  standardise(cells_, standard.mean - moments_.mean, standard.scale);
  standardise(tests_, standard.mean - moments_.mean, standard.scale);
  if (job_.algorithm == MfAlgorithm::kCcd)
    rank_ones_.emplace(cells_, std::ssize(user_counts_), job_.rank, stride_);
}

double MfWorker::steps(std::span<const Rating> ratings, const SgdRate& rate, float* users,
                       float* items) {
  return take_steps(ratings, rate, stride_, users, items);
}

MfResult MfWorker::turn(const MfTask& task) {
  activity_->doing("a turn of the blocks");
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
      result.errors += steps(cells_[block], rate, users_.data(), rows);
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
  some.reserve(static_cast<size_t>(task.count * job_.rank));
  for (int64_t i = task.first; i < task.first + task.count; ++i) {
    const float* row = rows.data() + i * stride_;
    some.insert(some.end(), row, row + job_.rank);
  }
  return some;
}

}  // namespace kerf::apps
