#include "schedmp/training/shared_weights.h"

#include <algorithm>
#include <utility>

#include "runtime/time.h"

namespace kerf::schedmp {

SharedWeights::SharedWeights(const partitioner::Model& model,
                             const std::vector<const partitioner::Part*>& parts,
                             Parameters& parameters, ops::Workbench& bench, Tables& tables,
                             const std::vector<std::pair<int, int>>& table_of_part,
                             const ops::OptimizerOptions& optimizer, const ReplicaOptions& replicas,
                             int replica)
    : model_(model),
      parts_(parts),
      parameters_(parameters),
      bench_(bench),
      optimizer_(optimizer),
      replicas_(replicas),
      replica_(replica),
      shared_(parts.size()) {
  for (size_t p = 0; p < parts.size(); ++p) {
    const std::optional<int> table = table_of(table_of_part, parts[p]->part);
    if (!table) continue;
    Shared& shared = shared_[p];
    shared.table = &tables.at(*table);
    shared.rows.emplace(p, *parts[p], parameters_, bench_);
    shared.base.resize(static_cast<size_t>(shared.table->spec().rows * kSharedWidth));
    if (!replicas_.averages()) shared.accrued.resize(shared.base.size());
    for (const SharedTensor& tensor : shared.rows->tensors()) {
      const auto value = parts[p]->locals[static_cast<size_t>(tensor.local)].value;
      shared.decays.push_back(optimizer_.decays(model.value(value).name) ? 1 : 0);
      shared.rows->take(tensor, of_rows(shared.base, tensor));
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
  const bool counts = step.rows > 0 && cause == 0;
  if (counts && !replicas_.averages()) {
    ++shared.accrued_steps;
    shared.rows->add(homes, ops::clip_scale(optimizer_.options().most_norm, squared_norm),
                     shared.accrued);
  }
  if (counts && replicas_.steps_alone()) step_alone(part, homes, step);
  const bool pushes = step.ends || step.number % replicas_.pushes_every() == 0;
  const bool fetches = step.ends || step.number % replicas_.fetches_every() == 0;
  if (pushes) push(shared, step.learning_rate);
  if (pushes || !replicas_.averages())
    shared.table->clock(step.ends && replicas_.server_groups > 1);
  if (fetches) fetch(shared, step.ends);
}

void SharedWeights::step_alone(size_t part, std::span<const Home> homes, const Step& step) {
  for (const Home& home : homes) parameters_.update(part, home.local, home.gradient, step.says);
}

void SharedWeights::push(Shared& shared, double rate) {
  if (!replicas_.averages()) push_gradients(shared, rate);
  push_growth(shared);
}

// One message for what decays, one for what does not, or more where they are many.
void SharedWeights::push_gradients(Shared& shared, double rate) {
  if (std::exchange(shared.accrued_steps, 0) == 0) return;
  for (const bool decays : {true, false}) {
    std::vector<ops::Range> rows;
    std::vector<float> numbers;
    for (size_t i = 0; i < shared.rows->tensors().size(); ++i) {
      const SharedTensor& tensor = shared.rows->tensors()[i];
      if (tensor.is_state || (shared.decays[i] != 0) != decays) continue;
      rows.push_back(tensor.rows);
      const auto begin = shared.accrued.begin() + tensor.rows.begin * kSharedWidth;
      numbers.insert(numbers.end(), begin, begin + tensor.rows.size() * kSharedWidth);
    }
    if (!rows.empty()) shared.table->push(rows, numbers, {.rate = rate, .decays = decays});
  }
  std::ranges::fill(shared.accrued, 0.0F);
}

void SharedWeights::push_growth(Shared& shared) {
  std::vector<ops::Range> rows;
  std::vector<float> numbers;
  for (const SharedTensor& tensor : shared.rows->tensors()) {
    if (!grows(tensor)) continue;
    rows.push_back(tensor.rows);
    const size_t before = numbers.size();
    numbers.resize(before + static_cast<size_t>(tensor.rows.size() * kSharedWidth));
    const std::span<float> grown =
        std::span(numbers).subspan(before).first(static_cast<size_t>(tensor.elements));
    shared.rows->take(tensor, grown);
    bench_.stream().synchronize();
    const std::span<float> base = of_rows(shared.base, tensor);
    for (size_t i = 0; i < grown.size(); ++i) grown[i] -= std::exchange(base[i], grown[i]);
  }
  if (!rows.empty()) shared.table->add(rows, numbers, 1.0F / static_cast<float>(replicas_.count));
}

// What has grown here and was not pushed yet is on top of what all came to.
void SharedWeights::fetch(Shared& shared, bool settled) {
  read(shared, settled);
  for (const SharedTensor& tensor : shared.rows->tensors()) {
    const std::span<float> fetched = of_rows(fetched_, tensor);
    if (grows(tensor)) {
      scratch_.resize(fetched.size());
      shared.rows->take(tensor, scratch_);
      bench_.stream().synchronize();
      const std::span<float> base = of_rows(shared.base, tensor);
      for (size_t i = 0; i < fetched.size(); ++i) {
        const float unpushed = scratch_[i] - base[i];
        base[i] = fetched[i];
        fetched[i] += unpushed;
      }
    }
    shared.rows->give(tensor, fetched);
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

}  // namespace kerf::schedmp
