// What the executor does once a step, and what it reports: the step vector, and the updates that it
// allows.
#include <algorithm>
#include <cmath>

#include "ops/metrics.h"
#include "runtime/error.h"
#include "schedmp/training/executor.h"

namespace kerf::schedmp {

using ops::TensorView;
using partitioner::LocalCall;
using partitioner::LocalKind;
using partitioner::Part;

// Of a loss over classes; others have no notion of a right answer.
int64_t Executor::count_correct(const Site& site, const LocalCall& call) const {
  switch (model_.op(call.node).answers()) {
    case ops::Answers::kPicked:
      return ops::count_picked(view(site, call.inputs[0]), view(site, call.inputs[2]));
    case ops::Answers::kLargestScore:
      return ops::count_correct(view(site, call.inputs[0]), view(site, call.inputs[1]));
    case ops::Answers::kNone:
      break;
  }
  return 0;
}

// Of training, to the step vector: what is not finite there is skipped by every update.
void Executor::report_loss(const Site& site, const Instruction& instruction) {
  const LocalCall& call = call_of(site, instruction);
  const auto loss = static_cast<double>(*view(site, call.outputs[0]).f32());
  const int64_t correct = count_correct(site, call);
  if (data_.training) {
    double* share = entries(site.part, part(site).step_share);
    share[step_vector_.loss_of(site.micro_batch)] += loss;
    share[step_vector_.correct_of(site.micro_batch)] += static_cast<double>(correct);
    return;
  }
  losses_[static_cast<size_t>(site.micro_batch)] += loss;
  result_.has_loss = true;
  result_.correct += correct;
  if (!std::isfinite(loss))
    throw Error(ErrorCode::kUsage, "the loss of these weights is no finite number",
                kerf::format("{}, step {}", model_.node(call.node).name, data_.step));
}

double* Executor::entries(size_t part, int local) const {
  return parameters_.view(part, local).as<double>();
}

void Executor::measure(const Site& site, const Instruction& instruction) {
  double& entry = entries(site.part, part(site).step_share)[instruction.entry];
  if (local(site, instruction.local).kind != LocalKind::kStatistics) {
    entry += ops::squared_norm(view(site, instruction.local));
    return;
  }
  for (int micro_batch = 0; micro_batch < micro_batches_; ++micro_batch)
    if (samples(micro_batch) > 0)
      entry += ops::squared_norm(parameters_.statistics(site.part, instruction.local, micro_batch));
}

// Every sum goes up by number: micro-batches in order, and parameters in model order.
void Executor::conclude(const Site& site, const Instruction& instruction) {
  const double* shares = entries(site.part, instruction.local);
  partitioner::conclude(model_, step_vector_, {shares, static_cast<size_t>(step_vector_.size())},
                        entries(site.part, instruction.other));
}

bool Executor::is_finite(const Site& site) const {
  return entries(site.part, part(site).step_result)[partitioner::StepVector::kCause] == 0;
}

void Executor::update(const Site& site, const Instruction& instruction) {
  if (is_finite(site))
    parameters_.update(site.part, instruction.local, view(site, instruction.other));
}

// What every micro-batch that was not empty says, in their order.
void Executor::update_state(const Site& site, const Instruction& instruction) {
  if (!is_finite(site)) return;
  const TensorView& state = parameters_.view(site.part, instruction.local);
  for (int micro_batch = 0; micro_batch < micro_batches_; ++micro_batch) {
    if (samples(micro_batch) == 0) continue;
    const TensorView said = parameters_.statistics(site.part, instruction.other, micro_batch);
    for (int64_t i = 0; i < state.elements(); ++i)
      state.f32()[i] = instruction.keep * state.f32()[i] + (1 - instruction.keep) * said.f32()[i];
  }
}

void Executor::report_evaluation() {
  result_.loss = 0;
  for (const double loss : losses_) result_.loss += loss;
}

// One part of the plan concludes; its worker reports.
void Executor::report_step() {
  using partitioner::StepVector;
  for (size_t p = 0; p < current_->parts.size(); ++p) {
    const Part& part = *current_->parts[p];
    if (part.conclude.instructions.empty()) continue;
    const double* result = entries(p, part.step_result);
    result_.has_loss = true;
    result_.cause = static_cast<int>(result[StepVector::kCause]);
    result_.loss = result[StepVector::kLoss];
    result_.correct = static_cast<int64_t>(result[StepVector::kCorrect]);
    result_.squared_norm = result[StepVector::kSquaredNorm];
  }
}

}  // namespace kerf::schedmp
