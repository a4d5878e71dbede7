#include "apps/lasso/lasso_set_worker.h"

#include "apps/data/matrix_file.h"
#include "apps/data/transposed.h"
#include "apps/lasso/squared_norm.h"
#include "runtime/error.h"

namespace kerf::apps {

void LassoSetWorker::start(runtime::Workplace& workplace, const LassoSetJob& job) {
  activity_ = &workplace.activity;
  job_ = job;
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

std::vector<double> LassoSetWorker::gram(const LassoSetTask& task) {
  std::vector<double> gram;
  if (task.gram_rows.empty()) return gram;
  if (by_row_.columns == 0) {
    by_row_ = transposed(x_);
    products_.assign(static_cast<size_t>(x_.columns), 0.0);
  }
  gram.reserve(task.gram_rows.size() * task.gram_columns.size());
  for (const int32_t i : task.gram_rows) {
    add_products_of(i);
    for (const int32_t j : task.gram_columns) gram.push_back(products_[static_cast<size_t>(j)]);
    for (const int32_t row : x_.rows_of(i))
      for (const int32_t j : by_row_.rows_of(row)) products_[static_cast<size_t>(j)] = 0;
    activity_->progress();
  }
  return gram;
}

void LassoSetWorker::add_products_of(int32_t column) {
  const auto rows = x_.rows_of(column);
  const auto values = x_.values_of(column);
  for (size_t i = 0; i < rows.size(); ++i) add_column(by_row_, rows[i], values[i], products_);
}

LassoSetResult LassoSetWorker::update(const LassoSetTask& task) {
  KERF_CHECK(task.changed.size() == task.change.size());
  for (size_t k = 0; k < task.changed.size(); ++k)
    add_column(x_, task.changed[k], -task.change[k], residual_);
  LassoSetResult result;
  result.products.reserve(task.set.size());
  for (const int32_t j : task.set) result.products.push_back(product_of(x_, j, residual_));
  result.gram = gram(task);
  result.range.reserve(static_cast<size_t>(task.count));
  for (int64_t j = task.first; j < task.first + task.count; ++j)
    result.range.push_back(task.norms ? squared_norm(x_, j, j, job_.x)
                                      : product_of(x_, j, residual_));
  activity_->progress();
  if (!task.objective) return result;
  for (size_t i = 0; i < y_.size(); ++i) {
    result.residual += residual_[i] * residual_[i];
    result.fit += y_[i] * residual_[i];
  }
  return result;
}

}  // namespace kerf::apps
