#include "apps/lasso/lasso_sets.h"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "apps/data/even_range.h"
#include "apps/lasso/soft_threshold.h"
#include "runtime/error.h"

namespace kerf::apps {

namespace {

// In a list of a task or of a result, so that each fits into a control message.
constexpr size_t kMostNumbers = 40'000;
constexpr int64_t kMostColumns = 100'000;  // in a row
constexpr int64_t kObjectivesInAPass = 20;
// The objective falls from where it was with b = 0, unless updates work against each other.
constexpr double kDiverged = 10;
// With a larger gap it stands still for another reason.
constexpr double kRounding = 1e-6;

template <class To, class From>
std::vector<To> part_of(const std::vector<From>& all, size_t piece) {
  const size_t begin = std::min(piece * kMostNumbers, all.size());
  const size_t end = std::min(begin + kMostNumbers, all.size());
  return {all.begin() + static_cast<std::ptrdiff_t>(begin),
          all.begin() + static_cast<std::ptrdiff_t>(end)};
}

size_t pieces_of(size_t numbers) { return (numbers + kMostNumbers - 1) / kMostNumbers; }

template <class Number>
void add(std::vector<Number>& to, const std::vector<Number>& from) {
  if (to.empty()) to.resize(from.size());
  KERF_CHECK(to.size() == from.size(), "a result of {} numbers, not {}", from.size(), to.size());
  for (size_t i = 0; i < to.size(); ++i) to[i] += from[i];
}

schedmp::VariableSetOptions sets_of(const LassoSetOptions& options) {
  schedmp::VariableSetOptions sets = options.sets;
  sets.variables = options.columns;
  return sets;
}

[[noreturn]] void throw_diverged(schedmp::Sampling sampling) {
  throw Error(ErrorCode::kUsage,
              sampling == schedmp::Sampling::kPriorityFiltered
                  ? "it diverges: variables of one set depend on each other too much; a lower "
                    "--threshold may help, or a smaller --set-size or --depth"
                  : "it diverges: variables of one set depend on each other; take --schedule "
                    "priority+filter, or a smaller --set-size or --depth",
              "lasso");
}

}  // namespace

LassoSets::LassoSets(const LassoSetOptions& options, int workers)
    : options_(options),
      workers_(workers),
      run_(options, options.columns, options.y),
      sets_(sets_of(options)),
      b_(static_cast<size_t>(options.columns)),
      squared_norms_(b_.size()) {
  KERF_CHECK(options.rows >= workers && options.lambda > 0 && options.depth >= 1);
}

LassoSetJob LassoSets::job(int worker) {
  const ops::Range rows = even_range(options_.rows, workers_, worker);
  const auto absolute = [](const std::string& file) {
    return std::filesystem::absolute(file).string();
  };
  return {absolute(options_.x), absolute(options_.y), rows.begin, rows.end,
          options_.rows,        options_.columns};
}

// ---- schedule

LassoSets::Decision LassoSets::schedule(int64_t number) {
  if (number == 0) run_.begin();
  while (!over_) {
    if (phase_ == Phase::kDescent && check_is_due()) {
      phase_ = Phase::kCheck;
      next_column_ = 0;
    }
    if (std::optional<Round> round = next_round(number)) {
      std::vector<Task> tasks = tasks_of(*round);
      under_way_.emplace(number, *std::move(round));
      return tasks;
    }
    if (!under_way_.empty()) return schedmp::Wait{};
    end_phase();
  }
  return schedmp::Done{};
}

std::optional<LassoSets::Round> LassoSets::next_round(int64_t number) {
  if (phase_ == Phase::kDescent) return next_set(number);
  // A check is of one residual: nothing else is under way.
  if (phase_ == Phase::kCheck && next_column_ == 0 && !under_way_.empty()) return std::nullopt;
  return next_columns();
}

std::optional<LassoSets::Round> LassoSets::next_columns() {
  if (next_column_ == options_.columns) return std::nullopt;
  Round round;
  round.phase = phase_;
  round.first = next_column_;
  round.count = std::min(kMostColumns, options_.columns - next_column_);
  round.objective = phase_ == Phase::kCheck && next_column_ == 0;
  next_column_ += round.count;
  return round;
}

std::vector<int64_t> LassoSets::Round::asked() const {
  std::vector<int64_t> all = chosen.set;
  all.insert(all.end(), chosen.looked_at.begin(), chosen.looked_at.end());
  return all;
}

std::optional<LassoSets::Round> LassoSets::next_set(int64_t number) {
  schedmp::VariableSets::Chosen chosen = sets_.choose(number);
  if (chosen.empty()) return std::nullopt;
  Round round;
  round.chosen = std::move(chosen);
  round.l1 = l1_;
  scheduled_ += std::ssize(round.chosen.set) + std::ssize(round.chosen.looked_at);
  round.objective = scheduled_ >= next_objective_;
  if (round.objective)
    next_objective_ = scheduled_ + std::max<int64_t>(1, options_.columns / kObjectivesInAPass);
  return round;
}

bool LassoSets::check_is_due() const {
  return scheduled_ >= next_check_ || run_.limit_is_reached(scheduled_);
}

void LassoSets::end_phase() {
  KERF_CHECK(phase_ != Phase::kDescent, "no variable is left to choose, and none is under way");
  if (phase_ == Phase::kCheck) end_check();
  phase_ = phase_ == Phase::kNorms ? Phase::kCheck : Phase::kDescent;
  next_column_ = 0;
}

void LassoSets::end_check() {
  const double objective = primal(checked_, options_.lambda);
  const double gap = relative_gap(objective, dual(checked_, options_.lambda));
  over_ = run_.check(rounds_, updates_, objective, gap);
  if (run_.stalled() && gap > kRounding) throw_diverged(options_.sets.sampling);
  expect_no_rise(objective);
  next_check_ = scheduled_ + options_.columns;
  sets_.restart(deltas_);
  checked_ = {};
  deltas_.clear();
}

// What changed is applied in the first pieces, in whose last the rest begins.
std::vector<LassoSets::Task> LassoSets::tasks_of(const Round& round) {
  std::vector<LassoSetTask> pieces(std::max<size_t>(1, pieces_of(changed_.size())));
  for (size_t i = 0; i < pieces.size(); ++i) {
    pieces[i].changed = part_of<int32_t>(changed_, i);
    pieces[i].change = part_of<double>(change_, i);
  }
  changed_.clear();
  change_.clear();
  LassoSetTask& asks = pieces.back();
  asks.first = round.first;
  asks.count = round.count;
  asks.norms = round.phase == Phase::kNorms;
  asks.objective = round.objective;
  asks.gram_rows = part_of<int32_t>(round.chosen.wanted.rows, 0);
  asks.gram_columns = part_of<int32_t>(round.chosen.wanted.columns, 0);
  const std::vector<int64_t> asked = round.asked();
  asks.set = part_of<int32_t>(asked, 0);
  for (size_t i = 1; i < pieces_of(asked.size()); ++i) {
    pieces.emplace_back();
    pieces.back().set = part_of<int32_t>(asked, i);
  }
  std::vector<Task> tasks;
  for (const LassoSetTask& piece : pieces)
    for (int worker = 0; worker < workers_; ++worker) tasks.push_back({worker, piece});
  return tasks;
}

// ---- aggregate

// Piece by piece, of each what all workers said, in their order.
LassoSetResult LassoSets::sum_of(const std::vector<Result>& results) const {
  LassoSetResult sum;
  const auto workers = static_cast<size_t>(workers_);
  for (size_t piece = 0; piece < results.size(); piece += workers) {
    std::vector<double> products;
    for (size_t worker = 0; worker < workers; ++worker) {
      const LassoSetResult& said = results[piece + worker].payload;
      add(products, said.products);
      if (!said.gram.empty()) add(sum.gram, said.gram);
      if (!said.range.empty()) add(sum.range, said.range);
      sum.residual += said.residual;
      sum.fit += said.fit;
    }
    sum.products.insert(sum.products.end(), products.begin(), products.end());
  }
  return sum;
}

void LassoSets::aggregate(int64_t number, std::vector<Result> results) {
  const auto found = under_way_.find(number);
  KERF_CHECK(found != under_way_.end(), "round {} is not under way", number);
  const Round round = std::move(found->second);
  under_way_.erase(found);
  ++rounds_;
  const LassoSetResult sum = sum_of(results);
  switch (round.phase) {
    case Phase::kNorms:
      std::copy(sum.range.begin(), sum.range.end(), squared_norms_.begin() + round.first);
      break;
    case Phase::kCheck:
      take_check(round, sum);
      break;
    case Phase::kDescent:
      descend(number, round, sum);
      break;
  }
}

void LassoSets::take_check(const Round& round, const LassoSetResult& sum) {
  if (round.objective) {
    l1_ = 0;
    for (const double b : b_) l1_ += std::abs(b);
    checked_ = {sum.residual, sum.fit, l1_};
  }
  for (int64_t i = 0; i < round.count; ++i) {
    const double product = sum.range[static_cast<size_t>(i)];
    const int64_t column = round.first + i;
    checked_.largest_product = std::max(checked_.largest_product, std::abs(product));
    deltas_.push_back(delta(column, b_[static_cast<size_t>(column)], best(column, product)));
  }
}

void LassoSets::descend(int64_t number, const Round& round, const LassoSetResult& sum) {
  if (round.objective) {
    const double objective = sum.residual / 2 + options_.lambda * round.l1;
    if (!std::isfinite(objective)) throw_diverged(options_.sets.sampling);
    expect_no_rise(objective);
    run_.note(rounds_, updates_, objective);
  }
  const std::vector<int64_t> asked = round.asked();
  const size_t changing = round.chosen.set.size();
  std::vector<double> deltas;
  for (size_t i = 0; i < asked.size(); ++i) {
    const double value = best(asked[i], sum.products[i]);
    deltas.push_back(delta(asked[i], b_[static_cast<size_t>(asked[i])], value));
    if (i < changing) change(asked[i], value);
  }
  updates_ += std::ssize(asked);
  sets_.fold(number, deltas);
  if (!round.chosen.wanted.empty()) sets_.learn(round.chosen.wanted, correlations_of(round, sum));
}

std::vector<double> LassoSets::correlations_of(const Round& round,
                                               const LassoSetResult& sum) const {
  std::vector<double> correlations = sum.gram;
  // A column of zeros depends on nothing.
  const auto per_length = [&](int64_t column) {
    const double norm = squared_norms_[static_cast<size_t>(column)];
    return norm > 0 ? 1 / std::sqrt(norm) : 0;
  };
  std::vector<double> of_columns;
  for (const int64_t column : round.chosen.wanted.columns) of_columns.push_back(per_length(column));
  auto next = correlations.begin();
  for (const int64_t row : round.chosen.wanted.rows) {
    const double of_row = per_length(row);
    for (const double of_column : of_columns) *next++ *= of_row * of_column;
  }
  return correlations;
}

double LassoSets::best(int64_t column, double product) const {
  const double norm = squared_norms_[static_cast<size_t>(column)];
  if (norm == 0) return 0;
  return soft_threshold(b_[static_cast<size_t>(column)] + product / norm, options_.lambda / norm);
}

double LassoSets::delta(int64_t column, double from, double to) const {
  if (!std::isfinite(to)) throw_diverged(options_.sets.sampling);
  return (to - from) * std::sqrt(squared_norms_[static_cast<size_t>(column)]);
}

void LassoSets::change(int64_t column, double value) {
  double& b = b_[static_cast<size_t>(column)];
  if (value == b) return;
  l1_ += std::abs(value) - std::abs(b);
  changed_.push_back(static_cast<int32_t>(column));
  change_.push_back(value - b);
  b = value;
}

void LassoSets::expect_no_rise(double objective) const {
  if (objective > kDiverged * objective_of(run_.points().front()))
    throw_diverged(options_.sets.sampling);
}

}  // namespace kerf::apps
