#include "schedmp/training/shared_weights.h"

#include <algorithm>
#include <utility>

#include "runtime/time.h"

namespace kerf::schedmp {

using ops::TensorView;

SharedWeights::SharedWeights(const partitioner::Model& model,
                             std::vector<const partitioner::Part*> parts, Parameters& parameters,
                             ops::Workbench& bench, Tables& tables,
                             const std::vector<std::pair<int, int>>& table_of_part,
                             const ops::OptimizerOptions& optimizer, const ReplicaOptions& replicas)
    : parts_(std::move(parts)),
      parameters_(parameters),
      bench_(bench),
      optimizer_(optimizer),
      replicas_(replicas),
      shared_(parts_.size()) {
  for (size_t p = 0; p < parts_.size(); ++p) {
    const auto found =
        std::ranges::find(table_of_part, parts_[p]->part, &std::pair<int, int>::first);
    if (found == table_of_part.end()) continue;
    Shared& shared = shared_[p];
    shared.table = &tables.at(found->second);
    shared.tensors = shared_tensors(*parts_[p]);
    shared.base.resize(static_cast<size_t>(shared.table->spec().rows * kSharedWidth));
    if (!replicas_.averages()) shared.accrued.resize(shared.base.size());
    for (const SharedTensor& tensor : shared.tensors) {
      const auto value = parts_[p]->locals[static_cast<size_t>(tensor.local)].value;
      shared.decays.push_back(optimizer_.decays(model.value(value).name) ? 1 : 0);
      take(p, tensor, of_rows(shared.base, tensor));
    }
    bench_.stream().synchronize();
    const std::span<float> own = shared.table->own();
    for (int64_t row = 0; row < shared.table->own_rows(); ++row)
      std::copy_n(shared.base.begin() + shared.table->row(row) * kSharedWidth, kSharedWidth,
                  own.begin() + row * kSharedWidth);
  }
}

void SharedWeights::update(size_t part, std::span<const Home> homes, const Step& step) {
  Shared& shared = shared_[part];
  double cause = 0;
  double squared_norm = 0;
  bench_.stream().copy(&cause, step.says.cause, sizeof cause);
  bench_.stream().copy(&squared_norm, step.says.squared_norm, sizeof squared_norm);
  bench_.stream().synchronize();
  ++shared.steps;
  const bool counts = step.rows > 0 && cause == 0;
  if (counts && !replicas_.averages())
    accrue(shared, homes, ops::clip_scale(optimizer_.options().most_norm, squared_norm));
  if (counts && replicas_.steps_alone()) step_alone(part, homes, step);
  const bool pushes = step.ends || shared.steps % replicas_.pushes_every() == 0;
  const bool fetches = step.ends || shared.steps % replicas_.fetches_every() == 0;
  if (pushes) push(shared, part, step.learning_rate);
  if (pushes || !replicas_.averages())
    shared.table->clock(step.ends && replicas_.server_groups > 1);
  if (fetches) fetch(shared, part, step.ends);
}

void SharedWeights::accrue(Shared& shared, std::span<const Home> homes, float scale) {
  ++shared.accrued_steps;
  for (const Home& home : homes) {
    const auto tensor = std::ranges::find(shared.tensors, home.local, &SharedTensor::local);
    if (tensor == shared.tensors.end()) continue;  // it has no element
    scratch_.resize(static_cast<size_t>(tensor->elements));
    bench_.stream().copy(scratch_.data(), home.gradient.data, home.gradient.bytes());
    bench_.stream().synchronize();
    const std::span<float> sum = of_rows(shared.accrued, *tensor);
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += scale * scratch_[i];
  }
}

void SharedWeights::step_alone(size_t part, std::span<const Home> homes, const Step& step) {
  for (const Home& home : homes) parameters_.update(part, home.local, home.gradient, step.says);
}

void SharedWeights::push(Shared& shared, size_t part, double rate) {
  if (!replicas_.averages()) push_gradients(shared, rate);
  push_growth(shared, part);
}

// One message for what decays, one for what does not, or more where they are many.
void SharedWeights::push_gradients(Shared& shared, double rate) {
  if (std::exchange(shared.accrued_steps, 0) == 0) return;
  for (const bool decays : {true, false}) {
    std::vector<ops::Range> rows;
    std::vector<float> numbers;
    for (size_t i = 0; i < shared.tensors.size(); ++i) {
      const SharedTensor& tensor = shared.tensors[i];
      if (tensor.is_state || (shared.decays[i] != 0) != decays) continue;
      rows.push_back(tensor.rows);
      const auto begin = shared.accrued.begin() + tensor.rows.begin * kSharedWidth;
      numbers.insert(numbers.end(), begin, begin + tensor.rows.size() * kSharedWidth);
    }
    if (!rows.empty()) shared.table->push(rows, numbers, {.rate = rate, .decays = decays});
  }
  std::ranges::fill(shared.accrued, 0.0F);
}

void SharedWeights::push_growth(Shared& shared, size_t part) {
  std::vector<ops::Range> rows;
  std::vector<float> numbers;
  for (const SharedTensor& tensor : shared.tensors) {
    if (!grows(tensor)) continue;
    rows.push_back(tensor.rows);
    const size_t before = numbers.size();
    numbers.resize(before + static_cast<size_t>(tensor.rows.size() * kSharedWidth));
    const std::span<float> grown =
        std::span(numbers).subspan(before).first(static_cast<size_t>(tensor.elements));
    take(part, tensor, grown);
    bench_.stream().synchronize();
    const std::span<float> base = of_rows(shared.base, tensor);
    for (size_t i = 0; i < grown.size(); ++i) grown[i] -= std::exchange(base[i], grown[i]);
  }
  if (!rows.empty()) shared.table->add(rows, numbers, 1.0F / static_cast<float>(replicas_.count));
}

// What has grown here and was not pushed yet is on top of what all came to.
void SharedWeights::fetch(Shared& shared, size_t part, bool settled) {
  read(shared, settled);
  for (const SharedTensor& tensor : shared.tensors) {
    const std::span<float> fetched = of_rows(fetched_, tensor);
    if (grows(tensor)) {
      scratch_.resize(fetched.size());
      take(part, tensor, scratch_);
      bench_.stream().synchronize();
      const std::span<float> base = of_rows(shared.base, tensor);
      for (size_t i = 0; i < fetched.size(); ++i) {
        const float unpushed = scratch_[i] - base[i];
        base[i] = fetched[i];
        fetched[i] += unpushed;
      }
    }
    give(part, tensor, fetched);
  }
  bench_.stream().synchronize();
  parameters_.changed();
}

void SharedWeights::read(Shared& shared, bool settled) {
  const int64_t begin = runtime::now_ns();
  const std::vector<ops::Range> all{{0, shared.table->spec().rows}};
  fetched_.resize(static_cast<size_t>(shared.table->spec().rows * kSharedWidth));
  if (settled) {
    shared.table->read_settled(all, fetched_);
    // And nobody of any group goes on before all have read the same.
    shared.table->clock(replicas_.server_groups > 1);
    scratch_.resize(kSharedWidth);
    shared.table->read_settled({{0, 1}}, scratch_);
  } else {
    staleness_ = std::max(staleness_, shared.table->read(all, fetched_));
  }
  waited_ns_ += runtime::now_ns() - begin;
}

int64_t SharedWeights::take_staleness() { return std::exchange(staleness_, 0); }

void SharedWeights::take(size_t part, const SharedTensor& tensor, std::span<float> numbers) {
  const TensorView& view = parameters_.view(part, tensor.local);
  bench_.stream().copy(numbers.data(), view.data, view.bytes());
}

void SharedWeights::give(size_t part, const SharedTensor& tensor, std::span<const float> numbers) {
  const TensorView& view = parameters_.view(part, tensor.local);
  bench_.stream().copy(view.data, numbers.data(), view.bytes());
}

}  // namespace kerf::schedmp
