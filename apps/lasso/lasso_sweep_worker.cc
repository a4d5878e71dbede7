#include "apps/lasso/lasso_sweep_worker.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "apps/data/matrix_file.h"
#include "apps/lasso/soft_threshold.h"
#include "apps/lasso/squared_norm.h"
#include "runtime/error.h"

namespace kerf::apps {

namespace {

constexpr size_t kFewestMore = 100;  // columns that become active at a time

SparseColumns columns_of(const SparseColumns& whole, const std::vector<int32_t>& columns) {
  SparseColumns some;
  some.rows = whole.rows;
  some.columns = std::ssize(columns);
  for (const int32_t j : columns) {
    const auto rows = whole.rows_of(j);
    const auto values = whole.values_of(j);
    some.row.insert(some.row.end(), rows.begin(), rows.end());
    some.values.insert(some.values.end(), values.begin(), values.end());
    some.begins.push_back(some.entries());
  }
  return some;
}

}  // namespace

void LassoSweepWorker::start(runtime::Workplace& workplace, const LassoSweepJob& job) {
  activity_ = &workplace.activity;
  activity_->doing("reading its columns");
  lambda_ = job.lambda;
  const auto working = [this] { activity_->progress(); };
  const SparseColumns whole = read_matrix(job.x, {0, job.rows}, working);
  if (whole.columns != job.columns)
    throw Error(ErrorCode::kUsage,
                format("another matrix than the scheduler's: {} columns, not {}", whole.columns,
                       job.columns),
                job.x);
  std::vector<int32_t> own(static_cast<size_t>(job.end - job.begin));
  std::iota(own.begin(), own.end(), static_cast<int32_t>(job.begin));
  x_ = columns_of(whole, own);
  residual_.assign(static_cast<size_t>(job.rows), 0.0);
  before_ = residual_;
  b_.assign(static_cast<size_t>(x_.columns), 0.0);
  b_before_ = b_;
  for (int64_t j = 0; j < x_.columns; ++j)
    squared_norms_.push_back(squared_norm(x_, j, job.begin + j, job.x));
}

LassoSweepResult LassoSweepWorker::update(const LassoSweepTask& task) {
  take(task);
  if (task.keep) keep(task.kept);
  if (!task.mix.empty()) mix(task.mix);
  if (task.back) go_back();
  LassoSweepResult result;
  if (task.check || task.sweeps > 0) {
    result.l1 = l1();
    if (task.check)
      result.largest_product = look_at_all();
    else if (task.look)
      result.largest_product = look_at_active();
    before_ = residual_;
    b_before_ = b_;
    for (int32_t i = 0; i < task.sweeps; ++i) sweep();
    result.updates = std::ssize(active_) * task.sweeps;
    result.l1_swept = l1();
  }
  const std::vector<double>& asked = task.solution ? b_ : residual_;
  KERF_CHECK(task.asked_first >= 0 && task.asked_count >= 0 &&
             task.asked_first + task.asked_count <= std::ssize(asked));
  for (int64_t i = task.asked_first; i < task.asked_first + task.asked_count; ++i)
    result.asked.push_back(asked[static_cast<size_t>(i)] -
                           (task.solution ? 0 : before_[static_cast<size_t>(i)]));
  activity_->progress();
  return result;
}

void LassoSweepWorker::take(const LassoSweepTask& task) {
  KERF_CHECK(task.first >= 0 && task.first + std::ssize(task.residual) <= std::ssize(residual_));
  std::copy(task.residual.begin(), task.residual.end(), residual_.begin() + task.first);
}

void LassoSweepWorker::keep(double part) {
  for (const int32_t j : active_) {
    double& b = b_[static_cast<size_t>(j)];
    const double before = b_before_[static_cast<size_t>(j)];
    if (part != 1) b = before + part * (b - before);
  }
  remembered_.push_back(b_);
}

void LassoSweepWorker::mix(const std::vector<double>& coefficients) {
  KERF_CHECK(remembered_.size() == coefficients.size() + 1, "{} coefficients of {} iterates",
             coefficients.size(), remembered_.size());
  unmixed_ = remembered_.back();
  std::fill(b_.begin(), b_.end(), 0.0);
  for (size_t i = 0; i < coefficients.size(); ++i)
    for (size_t j = 0; j < b_.size(); ++j) b_[j] += coefficients[i] * remembered_[i + 1][j];
  remembered_.clear();
}

void LassoSweepWorker::go_back() {
  b_ = unmixed_;
  remembered_ = {b_};
}

// Active are the columns that are in use, and as many again of those that would move: first those
// farthest above lambda. So the sets grow with the solution.
double LassoSweepWorker::look_at_all() {
  active_.clear();
  std::vector<std::pair<double, int32_t>> above;
  double largest = 0;
  for (int64_t j = 0; j < x_.columns; ++j) {
    const double product = std::abs(product_of(x_, j, residual_));
    largest = std::max(largest, product);
    if (b_[static_cast<size_t>(j)] != 0)
      active_.push_back(static_cast<int32_t>(j));
    else if (product > lambda_)
      above.emplace_back(-product, static_cast<int32_t>(j));
  }
  const size_t more = std::min(above.size(), std::max(kFewestMore, active_.size()));
  std::partial_sort(above.begin(), above.begin() + static_cast<std::ptrdiff_t>(more), above.end());
  for (size_t i = 0; i < more; ++i) active_.push_back(above[i].second);
  std::sort(active_.begin(), active_.end());
  copy_active();
  activity_->progress();
  return largest;
}

void LassoSweepWorker::copy_active() { active_x_ = columns_of(x_, active_); }

double LassoSweepWorker::look_at_active() const {
  double largest = 0;
  for (int64_t i = 0; i < active_x_.columns; ++i)
    largest = std::max(largest, std::abs(product_of(active_x_, i, residual_)));
  return largest;
}

void LassoSweepWorker::sweep() {
  for (size_t place = 0; place < active_.size(); ++place) {
    const int32_t j = active_[place];
    const auto column = static_cast<int64_t>(place);
    const double norm = squared_norms_[static_cast<size_t>(j)];
    if (norm == 0) continue;
    double& b = b_[static_cast<size_t>(j)];
    const double next =
        soft_threshold(b + product_of(active_x_, column, residual_) / norm, lambda_ / norm);
    const double change = next - b;
    if (change == 0) continue;
    b = next;
    add_column(active_x_, column, -change, residual_);
  }
  activity_->progress();
}

double LassoSweepWorker::l1() const {
  double sum = 0;
  for (const double b : b_) sum += std::abs(b);
  return sum;
}

}  // namespace kerf::apps
