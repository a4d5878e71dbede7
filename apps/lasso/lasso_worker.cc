#include "apps/lasso/lasso_worker.h"

#include "apps/data/matrix_file.h"
#include "apps/lasso/transposed.h"
#include "runtime/error.h"

namespace kerf::apps {

void LassoWorker::start(runtime::Workplace& workplace, const LassoJob& job) {
  activity_ = &workplace.activity;
  activity_->doing("reading its rows");
  const auto working = [this] { activity_->progress(); };
  x_ = read_matrix(job.x, {job.begin, job.end}, working);
  const std::vector<double> y = read_column(job.y, working);
  if (x_.columns != job.columns || std::ssize(y) != job.rows)
    throw Error(ErrorCode::kUsage,
                format("another matrix than the scheduler's: {} columns and {} rows, not {} and {}",
                       x_.columns, y.size(), job.columns, job.rows),
                job.x);
  y_.assign(y.begin() + job.begin, y.begin() + job.end);
  residual_ = y_;
}

double LassoWorker::product(int32_t column, const std::vector<double>& vector) const {
  const auto rows = x_.rows_of(column);
  const auto values = x_.values_of(column);
  double sum = 0;
  for (size_t i = 0; i < rows.size(); ++i) sum += values[i] * vector[static_cast<size_t>(rows[i])];
  return sum;
}

std::vector<float> LassoWorker::gram(const LassoTask& task) {
  std::vector<float> gram;
  if (task.gram_rows.empty()) return gram;
  if (by_row_.columns == 0) {
    by_row_ = transposed(x_);
    products_.assign(static_cast<size_t>(x_.columns), 0.0);
  }
  gram.reserve(task.gram_rows.size() * task.gram_columns.size());
  for (const int32_t i : task.gram_rows) {
    add_products_of(i);
    for (const int32_t j : task.gram_columns)
      gram.push_back(static_cast<float>(products_[static_cast<size_t>(j)]));
    for (const int32_t row : x_.rows_of(i))
      for (const int32_t j : by_row_.rows_of(row)) products_[static_cast<size_t>(j)] = 0;
    activity_->progress();
  }
  return gram;
}

void LassoWorker::add_products_of(int32_t column) {
  const auto rows = x_.rows_of(column);
  const auto values = x_.values_of(column);
  for (size_t i = 0; i < rows.size(); ++i) {
    const auto others = by_row_.rows_of(rows[i]);
    const auto of_others = by_row_.values_of(rows[i]);
    for (size_t k = 0; k < others.size(); ++k)
      products_[static_cast<size_t>(others[k])] += values[i] * of_others[k];
  }
}

LassoShare LassoWorker::update(const LassoTask& task) {
  KERF_CHECK(task.changed.size() == task.change.size());
  for (size_t k = 0; k < task.changed.size(); ++k) {
    const auto rows = x_.rows_of(task.changed[k]);
    const auto values = x_.values_of(task.changed[k]);
    for (size_t i = 0; i < rows.size(); ++i)
      residual_[static_cast<size_t>(rows[i])] -= task.change[k] * values[i];
  }
  LassoShare share;
  share.products.reserve(task.set.size());
  for (const int32_t j : task.set) share.products.push_back(product(j, residual_));
  share.gram = gram(task);
  share.range.reserve(static_cast<size_t>(task.count));
  for (int64_t j = task.first; j < task.first + task.count; ++j) {
    const auto column = static_cast<int32_t>(j);
    double norm = 0;
    if (task.norms)
      for (const double value : x_.values_of(column)) norm += value * value;
    share.range.push_back(task.norms ? norm : product(column, residual_));
  }
  activity_->progress();
  if (!task.objective) return share;
  for (size_t i = 0; i < y_.size(); ++i) {
    share.residual += residual_[i] * residual_[i];
    share.fit += y_[i] * residual_[i];
  }
  return share;
}

}  // namespace kerf::apps
