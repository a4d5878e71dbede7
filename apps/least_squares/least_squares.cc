#include "apps/least_squares/least_squares.h"

#include <algorithm>
#include <cmath>

#include "apps/data/even_range.h"
#include "ops/random.h"
#include "runtime/control.h"
#include "runtime/error.h"

namespace kerf::apps {

namespace {

constexpr int kInnerSweeps = 50;

enum Purpose : uint32_t { kMatrix = 1, kSolution = 2, kObservation = 3 };

double dot(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

void add(std::vector<double>& to, const std::vector<double>& from) {
  KERF_CHECK(to.size() == from.size(), "a share of {} numbers, not {}", from.size(), to.size());
  for (size_t i = 0; i < to.size(); ++i) to[i] += from[i];
}

// x* of b = A x* + noise.
std::vector<double> true_solution(const LeastSquaresOptions& options) {
  std::vector<double> solution(static_cast<size_t>(options.columns));
  for (size_t j = 0; j < solution.size(); ++j)
    solution[j] = ops::normal({options.seed, kSolution, 0, 0}, static_cast<int64_t>(j));
  return solution;
}

double noise(const LeastSquaresOptions& options, int64_t row) {
  return options.noise * ops::normal({options.seed, kObservation, 0, 0}, row);
}

// Minimises 1/2 d' G d + g' d by Gauss-Seidel: it cannot rise, even where G is singular.
std::vector<double> solve_block(const std::vector<double>& gram,
                                const std::vector<double>& gradient) {
  const size_t n = gradient.size();
  std::vector<double> d(n, 0.0);
  for (int sweep = 0; sweep < kInnerSweeps; ++sweep)
    for (size_t i = 0; i < n; ++i) {
      double slope = gradient[i];
      for (size_t j = 0; j < n; ++j) slope += gram[i * n + j] * d[j];
      if (gram[i * n + i] > 0) d[i] -= slope / gram[i * n + i];
    }
  return d;
}

}  // namespace

double matrix_entry(const LeastSquaresOptions& options, int64_t row, int64_t column) {
  if (column < options.columns)
    return ops::normal({options.seed, kMatrix, 0, 0}, row * options.columns + column);
  const std::vector<double> solution = true_solution(options);
  double value = noise(options, row);
  for (int64_t j = 0; j < options.columns; ++j)
    value += matrix_entry(options, row, j) * solution[static_cast<size_t>(j)];
  return value;
}

int largest_block() {
  // Of a share: gram and gradient, and what the message says beside them.
  const auto bytes = [](size_t block) { return block * (block + 1) * sizeof(double) + 1024; };
  size_t block = 1;
  while (bytes(block + 1) <= runtime::kMaxControlMessage) ++block;
  return static_cast<int>(block);
}

LeastSquares::LeastSquares(const LeastSquaresOptions& options, int workers, Observer observer)
    : options_(options), workers_(workers), observer_(std::move(observer)) {
  if (options.columns < 1 || options.block < 1 || options.sweeps < 0 || options.rows < workers)
    throw Error(ErrorCode::kUsage,
                kerf::format("{} rows x {} columns in blocks of {} do not suit {} workers",
                             options.rows, options.columns, options.block, workers),
                name());
  x_.assign(static_cast<size_t>(options.columns), 0.0);
  order_ = ops::permutation(options.columns, options.seed, 0);
}

LeastSquaresJob LeastSquares::job(int worker) {
  const ops::Range rows = even_range(options_.rows, workers_, worker);
  return {options_, rows.begin, rows.end};
}

std::vector<int32_t> LeastSquares::block_of(int64_t round) const {
  const int64_t blocks = (options_.columns + options_.block - 1) / options_.block;
  const int64_t first = round % blocks * options_.block;
  std::vector<int32_t> block;
  for (int64_t i = first; i < std::min(first + options_.block, options_.columns); ++i)
    block.push_back(static_cast<int32_t>(order_[static_cast<size_t>(i)]));
  return block;
}

bool LeastSquares::last_sweep_was_still(int64_t round) {
  const int64_t blocks = (options_.columns + options_.block - 1) / options_.block;
  if (round == 0 || round % blocks != 0) return false;
  const double change = std::sqrt(std::exchange(sweep_change_, 0.0));
  return change <= options_.tolerance * std::sqrt(dot(x_, x_));
}

LeastSquares::Decision LeastSquares::schedule(int64_t round) {
  const int64_t blocks = (options_.columns + options_.block - 1) / options_.block;
  converged_ = converged_ || last_sweep_was_still(round);
  const bool last = converged_ || round >= blocks * options_.sweeps;
  if (last && round > 0 && changed_.empty()) return schedmp::Done{};
  std::vector<int32_t> block = last ? std::vector<int32_t>{} : block_of(round);
  std::vector<Task> tasks;
  for (int worker = 0; worker < workers_; ++worker)
    tasks.push_back({worker, {changed_, change_, block}});
  changed_ = std::move(block);
  return tasks;
}

void LeastSquares::aggregate(int64_t round, std::vector<Result> results) {
  LeastSquaresShare total;
  total.gradient.assign(changed_.size(), 0.0);
  total.gram.assign(changed_.size() * changed_.size(), 0.0);
  for (const Result& result : results) {
    total.objective += result.payload.objective;
    add(total.gradient, result.payload.gradient);
    add(total.gram, result.payload.gram);
  }
  objectives_.push_back(total.objective);
  if (observer_) observer_(round, total.objective);
  change_ = solve_block(total.gram, total.gradient);
  for (size_t i = 0; i < changed_.size(); ++i) {
    x_[static_cast<size_t>(changed_[i])] += change_[i];
    sweep_change_ += change_[i] * change_[i];
  }
}

void LeastSquaresWorker::start(runtime::Workplace& workplace, const LeastSquaresJob& job) {
  const LeastSquaresOptions& options = job.options;
  activity_ = &workplace.activity;
  activity_->doing("making rows of A");
  const auto rows = static_cast<size_t>(job.end - job.begin);
  columns_.assign(static_cast<size_t>(options.columns), std::vector<double>(rows));
  residual_.assign(rows, 0.0);
  const std::vector<double> solution = true_solution(options);
  for (size_t i = 0; i < rows; ++i) {
    const int64_t row = job.begin + static_cast<int64_t>(i);
    double b = noise(options, row);
    for (size_t j = 0; j < columns_.size(); ++j) {
      columns_[j][i] = matrix_entry(options, row, static_cast<int64_t>(j));
      b += columns_[j][i] * solution[j];
    }
    residual_[i] = -b;
    activity_->progress();
  }
}

LeastSquaresShare LeastSquaresWorker::update(const LeastSquaresTask& task) {
  KERF_CHECK(task.changed.size() == task.change.size());
  for (size_t k = 0; k < task.changed.size(); ++k) {
    const std::vector<double>& column = columns_.at(static_cast<size_t>(task.changed[k]));
    for (size_t i = 0; i < residual_.size(); ++i) residual_[i] += task.change[k] * column[i];
  }
  LeastSquaresShare share;
  share.objective = dot(residual_, residual_) / 2;
  for (const int32_t j : task.block) {
    const std::vector<double>& column = columns_.at(static_cast<size_t>(j));
    share.gradient.push_back(dot(column, residual_));
    for (const int32_t k : task.block)
      share.gram.push_back(dot(column, columns_.at(static_cast<size_t>(k))));
    activity_->progress();
  }
  return share;
}

}  // namespace kerf::apps
