#include "apps/classifier/classifier_worker.h"

#include <algorithm>
#include <cmath>

#include "ops/random.h"
#include "runtime/error.h"

namespace kerf::apps {

namespace {

constexpr int kLongestRest = 15;  // sweeps
constexpr int64_t kRowsOfASign = 256;

std::vector<double> signs_of(const LabelledRows& read, const ClassifierJob& job) {
  std::vector<double> signs;
  for (const double label : read.labels) {
    if (label != job.labels.positive && label != job.labels.negative)
      throw Error(ErrorCode::kUsage,
                  format("another file than the scheduler's: a label of {}", label), job.file.data);
    signs.push_back(label == job.labels.positive ? 1 : -1);
  }
  return signs;
}

}  // namespace

void ClassifierWorker::start(runtime::Workplace& workplace, const ClassifierJob& job) {
  activity_ = &workplace.activity;
  activity_->doing("reading its rows");
  loss_ = job.loss;
  c_ = job.c;
  const LabelledRows read =
      read_labelled(job.file, {job.begin, job.end}, job.columns, [this] { activity_->progress(); });
  const auto order = ops::permutation(read.rows.columns, job.seed, workplace.worker);
  rows_ = TrainingRows(read.rows, signs_of(read, job), order, job.bias);
  for (int64_t i = 0; i < rows_.count(); ++i)
    if (!std::isfinite(c_ * rows_.squares(i)))
      throw Error(ErrorCode::kUsage,
                  format("C times the sum of squares of row {} is no finite number; scale it",
                         job.begin + order[static_cast<size_t>(i)] + 1),
                  job.file.data);
  weights_.assign(static_cast<size_t>(job.columns) + (job.bias == 0 ? 0 : 1), 0.0);
  given_ = weights_;
  const double start = with_loss(loss_, c_, [](const auto& loss) { return loss.kStart; });
  states_.assign(static_cast<size_t>(rows_.count()), start);
  before_ = states_;
  rests_.resize(states_.size());
}

ClassifierResult ClassifierWorker::update(const ClassifierTask& task) {
  take(task);
  ClassifierResult result;
  if (task.check || task.sweeps > 0)
    with_loss(loss_, c_, [&](const auto& loss) { work(loss, task, result); });
  KERF_CHECK(task.asked_first >= 0 && task.asked_count >= 0 &&
             task.asked_first + task.asked_count <= std::ssize(weights_));
  result.asked.resize(static_cast<size_t>(task.asked_count));
  for (size_t i = 0; i < result.asked.size(); ++i) {
    const size_t feature = static_cast<size_t>(task.asked_first) + i;
    result.asked[i] = weights_[feature] - given_[feature];
  }
  activity_->progress();
  return result;
}

void ClassifierWorker::take(const ClassifierTask& task) {
  KERF_CHECK(task.first >= 0 && task.first + std::ssize(task.weights) <= std::ssize(weights_));
  std::copy(task.weights.begin(), task.weights.end(), weights_.begin() + task.first);
}

template <class Loss>
void ClassifierWorker::work(const Loss& loss, const ClassifierTask& task,
                            ClassifierResult& result) {
  if (task.kept != 1) keep(loss, task.kept);
  result.dual = dual_;
  if (task.check) result.losses = look_at_all(loss);
  given_ = weights_;
  before_ = states_;
  for (int32_t i = 0; i < task.sweeps; ++i) sweep(loss, result);
  result.gap = gap_;
  dual_ = dual(loss);
  result.dual_swept = dual_;
}

template <class Loss>
void ClassifierWorker::keep(const Loss& loss, double part) {
  for (size_t i = 0; i < states_.size(); ++i)
    if (states_[i] != before_[i]) states_[i] = loss.between(before_[i], states_[i], part);
  dual_ = dual(loss);
}

template <class Loss>
double ClassifierWorker::look_at_all(const Loss& loss) {
  double sum = 0;
  for (int64_t row = 0; row < rows_.count(); ++row) {
    const auto i = static_cast<size_t>(row);
    const double margin = rows_.product(row, weights_);
    sum += loss.loss(margin);
    if (rests_[i].left > 0 && loss.best(states_[i], margin, rows_.squares(row)) != states_[i])
      rests_[i] = {};
    if (row % kRowsOfASign == 0) activity_->progress();
  }
  return sum;
}

template <class Loss>
void ClassifierWorker::sweep(const Loss& loss, ClassifierResult& result) {
  gap_ = 0;
  for (int64_t row = 0; row < rows_.count(); ++row) {
    if (row % kRowsOfASign == 0) activity_->progress();
    const auto i = static_cast<size_t>(row);
    Rest& rest = rests_[i];
    if (rest.left > 0) {
      --rest.left;
      continue;
    }
    double& state = states_[i];
    const double margin = rows_.product(row, weights_);
    gap_ += loss.gap(state, margin);
    const double best = loss.best(state, margin, rows_.squares(row));
    const double change = loss.a(best) - loss.a(state);
    state = best;
    if (change != 0) rows_.add(row, change, weights_);
    const int longer = std::min(2 * rest.last + 1, kLongestRest);
    rest.left = rest.last = static_cast<uint8_t>(change == 0 ? longer : 0);
    ++result.updates;
  }
}

template <class Loss>
double ClassifierWorker::dual(const Loss& loss) const {
  double sum = 0;
  for (const double state : states_) sum += loss.dual(state);
  return sum;
}

}  // namespace kerf::apps
