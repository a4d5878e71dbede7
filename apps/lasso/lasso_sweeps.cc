#include "apps/lasso/lasso_sweeps.h"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "apps/data/even_range.h"
#include "apps/data/told_vector.h"
#include "apps/lasso/extrapolation.h"
#include "runtime/error.h"

namespace kerf::apps {

namespace {

// All columns are looked at when the active ones are nearer to their own optimum by this.
constexpr double kNearEnough = 0.3;
constexpr int kMostUnchecked = 300;  // rounds
// The end is near with a gap of so many tolerances.
constexpr double kNearTheEnd = 30;
// That are mixed, and the one before them.
constexpr size_t kIterates = 6, kFewestIterates = 4;

}  // namespace

LassoSweeps::LassoSweeps(const LassoSweepOptions& options, int workers, std::vector<double> y)
    : options_(options),
      workers_(workers),
      y_(std::move(y)),
      run_(options, options.columns, options.y),
      residual_(y_),
      b_(static_cast<size_t>(options.columns)),
      iterates_({y_}) {
  KERF_CHECK(options.lambda > 0 && options.sweeps >= 1 && std::ssize(y_) == options.rows);
}

LassoSweepJob LassoSweeps::job(int worker) {
  const ops::Range columns = even_range(options_.columns, workers_, worker);
  return {std::filesystem::absolute(options_.x).string(),
          columns.begin,
          columns.end,
          options_.rows,
          options_.columns,
          options_.lambda};
}

LassoSweeps::Decision LassoSweeps::schedule(int64_t round) {
  if (round == 0) run_.begin();
  if (phase_ == Phase::kOver) return schedmp::Done{};
  return phase_ == Phase::kSweeps ? tasks_of_sweeps() : tasks_of_solution();
}

// The residual piece by piece, the sweeps with its last, and what they changed piece by piece.
std::vector<LassoSweeps::Task> LassoSweeps::tasks_of_sweeps() const {
  std::vector<Task> tasks;
  const std::vector<ops::Range> pieces = pieces_of(options_.rows);
  for (const ops::Range& piece : pieces) {
    LassoSweepTask task;
    task.first = piece.begin;
    task.residual = piece_of(residual_, piece);
    if (piece.end == options_.rows) {
      task.keep = !back_;
      task.kept = kept_;
      task.mix = mix_;
      task.back = back_;
      task.look = look_;
      task.check = check_;
      task.sweeps = options_.sweeps;
      task.asked_count = pieces.front().size();
    }
    for (int worker = 0; worker < workers_; ++worker) tasks.push_back({worker, task});
  }
  for (size_t i = 1; i < pieces.size(); ++i) {
    LassoSweepTask task;
    task.asked_first = pieces[i].begin;
    task.asked_count = pieces[i].size();
    for (int worker = 0; worker < workers_; ++worker) tasks.push_back({worker, task});
  }
  return tasks;
}

std::vector<LassoSweeps::Task> LassoSweeps::tasks_of_solution() const {
  std::vector<Task> tasks;
  for (int worker = 0; worker < workers_; ++worker) {
    const ops::Range columns = even_range(options_.columns, workers_, worker);
    for (int64_t first = columns.begin; first < columns.end; first += kMostInAPiece) {
      LassoSweepTask task;
      task.solution = true;
      task.keep = first == columns.begin && !back_;
      task.kept = kept_;
      task.back = first == columns.begin && back_;
      task.asked_first = first - columns.begin;
      task.asked_count = std::min(kMostInAPiece, columns.end - first);
      tasks.push_back({worker, task, first});
    }
  }
  return tasks;
}

void LassoSweeps::aggregate(int64_t round, std::vector<Result> results) {
  if (phase_ == Phase::kSweeps)
    take_sweeps(round, results);
  else
    take_solution(results);
}

void LassoSweeps::take_solution(const std::vector<Result>& results) {
  for (const Result& each : results)
    std::copy(each.payload.asked.begin(), each.payload.asked.end(), b_.begin() + each.id);
  phase_ = Phase::kOver;
}

// Piece by piece, of each what all workers said.
LassoSweeps::Sum LassoSweeps::sum_of(const std::vector<Result>& results) {
  Sum sum;
  sum.before = {dot_of(residual_, residual_), dot_of(y_, residual_), 0, 0};
  sum.change.resize(residual_.size());
  const std::vector<ops::Range> pieces = pieces_of(options_.rows);
  const auto workers = static_cast<size_t>(workers_);
  KERF_CHECK(results.size() == tasks_of_pieces(pieces) * workers);
  for (size_t i = 0; i < results.size(); ++i) {
    const LassoSweepResult& said = results[i].payload;
    sum.before.l1 += said.l1;
    sum.before.largest_product = std::max(sum.before.largest_product, said.largest_product);
    sum.l1_swept += said.l1_swept;
    updates_ += said.updates;
    add_piece(sum.change, piece_answered(pieces, i / workers), said.asked);
  }
  return sum;
}

void LassoSweeps::take_sweeps(int64_t round, const std::vector<Result>& results) {
  const Sum sum = sum_of(results);
  const double objective = primal(sum.before, options_.lambda);
  const double dual_now = dual(sum.before, options_.lambda);
  if (check_) dual_ = std::max(dual_, dual_now);
  const bool back = goes_back(objective);
  // What it goes back to has the same dual solutions.
  if (check_ && ends_by_check(round + 1, back ? objective_ : objective)) return;
  if (back) {
    check_ = false;
    return;
  }
  if (!check_) {
    ++rounds_unchecked_;
    run_.note(round + 1, updates_, objective);
  }
  move(sum, objective);
  plan_next(look_ ? relative_gap(objective, dual_now) : 1);
}

bool LassoSweeps::ends_by_check(int64_t rounds, double objective) {
  last_gap_ = relative_gap(objective, dual_);
  due_ = false;
  rounds_unchecked_ = 0;
  if (!run_.check(rounds, updates_, objective, last_gap_)) return false;
  kept_ = 0;  // the gap is of what was before these sweeps
  phase_ = Phase::kSolution;
  return true;
}

// `gap` is of the active columns alone. Near the end a check waits for a mixture, whose dual
// solution is much the better one.
void LassoSweeps::plan_next(double gap) {
  due_ = due_ || gap <= std::max(options_.tolerance, kNearEnough * last_gap_) ||
         rounds_unchecked_ >= kMostUnchecked;
  if (iterates_.size() >= (due_ ? kFewestIterates : kIterates)) mix();
  const bool waits = mix_.empty() && last_gap_ < kNearTheEnd * options_.tolerance;
  check_ = run_.limit_is_reached(updates_) || (due_ && !waits);
  look_ = !look_ || !mix_.empty();
}

bool LassoSweeps::goes_back(double objective) {
  const bool mixed = !mix_.empty();
  mix_.clear();
  back_ = mixed && objective > objective_;
  if (!back_) return false;
  residual_ = unmixed_;
  iterates_ = {residual_};
  look_ = false;
  return true;
}

void LassoSweeps::move(const Sum& sum, double objective) {
  std::vector<double> whole = residual_;
  for (size_t row = 0; row < whole.size(); ++row) whole[row] += sum.change[row];
  const double of_whole = dot_of(whole, whole) / 2 + options_.lambda * sum.l1_swept;
  const bool falls = of_whole <= objective;
  kept_ = falls ? 1 : 1.0 / workers_;
  objective_ = falls ? of_whole : objective;
  if (falls)
    residual_ = std::move(whole);
  else
    for (size_t row = 0; row < residual_.size(); ++row) residual_[row] += kept_ * sum.change[row];
  iterates_.push_back(residual_);
}

// The workers forget what they remember when they mix, so it is mixed in any case.
void LassoSweeps::mix() {
  std::vector<double> last_alone(iterates_.size() - 1);
  last_alone.back() = 1;
  mix_ = extrapolation_of(iterates_).value_or(last_alone);
  unmixed_ = residual_;
  std::fill(residual_.begin(), residual_.end(), 0.0);
  for (size_t i = 0; i < mix_.size(); ++i)
    for (size_t row = 0; row < residual_.size(); ++row)
      residual_[row] += mix_[i] * iterates_[i + 1][row];
  iterates_.clear();
}

}  // namespace kerf::apps
