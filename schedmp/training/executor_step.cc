// What the executor does once a step, and what it reports: its row and its weights' versions, the
// step vector, and the updates that it allows.

#include <algorithm>

#include "runtime/error.h"
#include "runtime/host_work.h"
#include "schedmp/training/executor.h"

namespace kerf::schedmp {

using ops::TensorView;
using partitioner::LocalCall;
using partitioner::LocalKind;
using partitioner::Part;
using partitioner::StepVector;

namespace {

bool of_home(const partitioner::Instruction& each) {
  return each.kind == partitioner::Instruction::Kind::kUpdate;
}

}  // namespace

void Executor::begin_row() {
  if (!current_->steps.go_on()) data_.ramps = {};
  row_ = &current_->rows[data_.ramps];
  if (!data_.ramps.fills) return;
  parameters_.count_versions();
  for (auto& [stage, weights] : current_->weights) weights.restart();
}

int Executor::behind(const ListRun& run) {
  const auto found = current_->weights.find(run.action.stage);
  const bool at_end = is_of_updates(run.action.kind) && run.list != &Part::apply;
  if (found == current_->weights.end() || at_end) return 0;
  const Site site{.micro_batch = run.micro_batch, .step = run.step};
  return found->second.take(run.action, current_->interpreter.place(site));
}

// The loss's own entry, and that of right answers: of training, of the step vector, where what is
// not finite is skipped by every update; else of the report.
void Executor::report_loss(const Site& site, const Instruction& instruction) {
  step_trace_.works();
  const LocalCall& call = call_of(site, instruction);
  double* loss = report_.data() + site.micro_batch;
  double* correct = report_.data() + micro_batches_;
  if (data_.training) {
    double* share = entries(site.part, part(site).step_share);
    loss = share + step_vector_.loss_of(site.micro_batch);
    correct = share + step_vector_.correct_of(site.micro_batch);
  } else {
    result_.has_loss = true;
  }
  bench_->add_scalar(view(site, call.outputs[0]), loss);
  const ops::Answers answers = model_.op(call.node).answers();
  if (answers == ops::Answers::kNone) return;
  const int labels = answers == ops::Answers::kPicked ? 2 : 1;
  const TensorView scores = view(site, call.inputs[0]);
  const TensorView answer = view(site, call.inputs[static_cast<size_t>(labels)]);
  bench_->add_correct(answers, scores, answer, correct);
  if (!data_.training) bench_->add_correct(answers, scores, answer, correct + 1, kTop);
}

double* Executor::entries(size_t part, int local) const {
  return parameters_.view(part, local).as<double>();
}

void Executor::measure(const Site& site, const Instruction& instruction) {
  step_trace_.works();
  double* entry = entries(site.part, part(site).step_share) + instruction.entry;
  if (local(site, instruction.local).kind != LocalKind::kStatistics)
    return bench_->add_squared_norm(view(site, instruction.local), entry);
  const MicroBatches taken = taken_now();
  for (int micro_batch = taken.first; micro_batch < taken.end; ++micro_batch)
    if (const auto said = statistics(site, instruction.local, micro_batch))
      bench_->add_squared_norm(*said, entry);
}

std::optional<TensorView> Executor::statistics(Site site, int local, int micro_batch) const {
  site.micro_batch = micro_batch;
  if (samples(site) == 0) return std::nullopt;
  return parameters_.statistics(site.part, local, current_->interpreter.place(site));
}

void Executor::begin_update() {
  step_trace_.works();
  const int stage = now_->action.stage;
  const int updates = current_->updates.at(stage);
  parameters_.set_pace({data_.learning_rate, data_.step * updates + now_->update + 1});
  const bool is_read = now_->update + 1 < updates || !data_.ramps.drains;
  for (size_t p = 0; p < current_->parts.size(); ++p)
    if (current_->parts[p]->stage == stage) parameters_.keep_version(p, is_read);
}

Executor::MicroBatches Executor::taken_now() const {
  if (now_->list != &Part::apply) return {0, micro_batches_};
  return {now_->first, now_->micro_batch + 1};
}

// The loss is the mean over the step, and what a gradient is of that over the update that takes it
// where the loss is.
int64_t Executor::rows_of_loss(const Site& site, const Instruction& instruction) const {
  const int64_t all = std::ssize(rows_of(site));
  const auto takers = current_->takers.find(part(site).stage);
  if (instruction.kind != Instruction::Kind::kGradient || takers == current_->takers.end())
    return all;
  const ListRun& taker = *takers->second[static_cast<size_t>(site.micro_batch)];
  return rows_between(site, taker.first, taker.micro_batch + 1);
}

// Every sum goes up by number: micro-batches in order, and parameters in model order.
void Executor::conclude(const Site& site, const Instruction& instruction) {
  step_trace_.works();
  const auto size = static_cast<size_t>(step_vector_.size());
  runtime::launch(
      workplace_.stream,
      [this, size](const double* shares, double* result) {
        partitioner::conclude(model_, step_vector_, {shares, size}, result);
      },
      runtime::memory<const double>(entries(site.part, instruction.local), size),
      runtime::memory(entries(site.part, instruction.other), StepVector::kResults));
}

ops::StepSays Executor::says(const Site& site) const {
  const double* result = entries(site.part, part(site).step_result);
  return {result + StepVector::kCause, result + StepVector::kSquaredNorm};
}

// Where no micro-batch that it takes has a row, as at the end of an epoch, there is no update.
void Executor::update(const Site& site, const Instruction& instruction) {
  if (updates_ != nullptr) return update_by_others(site, instruction);
  const MicroBatches taken = taken_now();
  if (rows_between(site, taken.first, taken.end) == 0) return;
  step_trace_.works();
  parameters_.update(site.part, instruction.local, view(site, instruction.other), says(site));
}

void Executor::update_by_others(const Site& site, const Instruction& instruction) {
  const auto& list = part(site).update.instructions;
  if (&*std::ranges::find_if(list, of_home) != &instruction) return;
  step_trace_.works();
  homes_.clear();
  for (const Instruction& each : list) {
    if (of_home(each)) homes_.push_back({each.local, view(site, each.other)});
    if (each.kind == Instruction::Kind::kUpdateState) apply_statistics(site, each);
  }
  updates_->update(site.part, homes_,
                   {.number = data_.step + 1,
                    .rows = std::ssize(rows_of(site)),
                    .ends = data_.ends,
                    .learning_rate = data_.learning_rate,
                    .says = says(site)});
}

// Of a part with homes that was done with their update.
void Executor::update_state(const Site& site, const Instruction& instruction) {
  if (updates_ == nullptr || std::ranges::none_of(part(site).update.instructions, of_home))
    apply_statistics(site, instruction);
}

// What every micro-batch that was not empty says, in their order.
void Executor::apply_statistics(const Site& site, const Instruction& instruction) {
  step_trace_.works();
  const TensorView& state = parameters_.view(site.part, instruction.local);
  const MicroBatches taken = taken_now();
  for (int micro_batch = taken.first; micro_batch < taken.end; ++micro_batch)
    if (const auto said = statistics(site, instruction.other, micro_batch))
      bench_->update_state(state, *said, instruction.keep, says(site).cause);
}

// The part of the plan that concludes, where it is one of this worker's.
void Executor::copy_report() {
  for (size_t p = 0; p < current_->parts.size(); ++p) {
    const Part& part = *current_->parts[p];
    if (part.conclude.instructions.empty()) continue;
    result_.has_loss = true;
    workplace_.stream.copy(report_.data(), entries(p, part.step_result),
                           StepVector::kResults * sizeof(double));
  }
}

void Executor::report_step() {
  if (!result_.has_loss) return;
  result_.cause = static_cast<int>(report_[StepVector::kCause]);
  result_.loss = report_[StepVector::kLoss];
  result_.correct = static_cast<int64_t>(report_[StepVector::kCorrect]);
  result_.squared_norm = report_[StepVector::kSquaredNorm];
}

void Executor::report_evaluation() {
  result_.loss = 0;
  for (int micro_batch = 0; micro_batch < micro_batches_; ++micro_batch)
    result_.loss += report_[static_cast<size_t>(micro_batch)];
  result_.correct = static_cast<int64_t>(report_[static_cast<size_t>(micro_batches_)]);
  result_.in_top = static_cast<int64_t>(report_[static_cast<size_t>(micro_batches_) + 1]);
}

}  // namespace kerf::schedmp
