// What a worker has of a replica's weights, and serves of them, on its way into checkpoints and
// back. Clocks are no part of it: at a checkpoint all replicas are at the same one, which may be
// any.
#include <algorithm>

#include "runtime/error.h"
#include "schedmp/training/shared_weights.h"

namespace kerf::schedmp {

// Who alone goes on from a file finds no whole table in it.
std::vector<StoredSlice> SharedWeights::slices(Reach reach,
                                               const std::vector<ops::Layout>& layouts) {
  const bool own = has_own() || reach == Reach::kAlone;
  std::vector<StoredSlice> slices =
      slices_of_replica(model_, parts_, replica_, reach, own, parameters_.slices(reach, layouts));
  for (size_t part = 0; part < parts_.size(); ++part) {
    if (shared_[part].table == nullptr) continue;
    if (own) add_own(part, reach, slices);
    add_served(part, reach, slices);
  }
  return slices;
}

// What replicas that average last fetched is what the table has until all push again.
void SharedWeights::add_own(size_t part, Reach reach, std::vector<StoredSlice>& to) {
  Shared& shared = shared_[part];
  const bool has_base = !replicas_.averages() || reach == Reach::kAlone;
  for (const SharedTensor& tensor : shared.rows->tensors()) {
    const ElementsOf all = elements_of(model_, *parts_[part], tensor);
    if (grows(tensor) && has_base)
      add_numbers(kind_of_replica(replica_, kBaseOfGrowth), all, of_rows(shared.base, tensor), to);
    if (tensor.is_state || replicas_.averages() || replicas_.pushes_every() == 1) continue;
    add_numbers(kind_of_replica(replica_, kAccruedGradients), all, of_rows(shared.accrued, tensor),
                to);
    add_count(kind_of_replica(replica_, kAccruedSteps), all.value, shared.accrued_steps, to);
  }
}

void SharedWeights::add_served(size_t part, Reach reach, std::vector<StoredSlice>& to) {
  Shared& shared = shared_[part];
  const TableContents held = shared.table->contents();
  for (const SharedTensor& tensor : shared.rows->tensors()) {
    const ServedElements at = served_of(shared.table->spec(), shared.table->worker(), tensor);
    if (at.count == 0) continue;
    const ElementsOf some = elements_of(model_, *parts_[part], tensor, at.first);
    const auto add = [&](const std::string& kind, std::span<const float> numbers) {
      const auto mine = numbers.subspan(static_cast<size_t>(at.begin));
      add_numbers(kind_of_group(group(), kind), some, mine.first(static_cast<size_t>(at.count)),
                  to);
    };
    add(kWeights, held.values);
    if (!held.unheard.empty()) add(kUnheard, held.unheard);
    if (tensor.is_state || held.updates.empty()) continue;
    for (size_t state = 0; state < held.states.size(); ++state)
      add(state_kind(static_cast<int>(state)), held.states[state]);
    const auto updates = held.updates.subspan(static_cast<size_t>(at.rows.begin),
                                              static_cast<size_t>(at.rows.size()));
    KERF_CHECK(std::ranges::count(updates, updates.front()) == std::ssize(updates),
               "some of {} had more gradients than the rest", some.value.name);
    if (at.first == 0 || reach == Reach::kAlone)
      add_count(kind_of_group(group(), kUpdates), some.value, updates.front(), to);
  }
}

void SharedWeights::load(StoredSlices& from) {
  parameters_.load(from, kinds_of_replica(from, replica_, group()));
  for (size_t part = 0; part < parts_.size(); ++part) {
    if (shared_[part].table == nullptr) continue;
    load_own(part, from);
    load_served(part, from);
  }
}

// Where a replica has nothing of its own all was pushed, and it goes on from what it finds.
void SharedWeights::load_own(size_t part, StoredSlices& from) {
  Shared& shared = shared_[part];
  const std::string base = kind_of_replica(replica_, kBaseOfGrowth);
  const std::string accrued = kind_of_replica(replica_, kAccruedGradients);
  std::ranges::fill(shared.accrued, 0.0F);
  shared.accrued_steps = 0;
  for (const SharedTensor& tensor : shared.rows->tensors()) {
    const ElementsOf all = elements_of(model_, *parts_[part], tensor);
    const std::span<float> numbers = of_rows(shared.base, tensor);
    if (from.has(base, all.value.name))
      read_numbers(from, base, all, numbers);
    else if (replicas_.averages())
      read_numbers(from, kWeights, all, numbers);
    else
      shared.rows->take(tensor, numbers);
    bench_.stream().synchronize();
    if (!from.has(accrued, all.value.name)) continue;
    read_numbers(from, accrued, all, of_rows(shared.accrued, tensor));
    shared.accrued_steps = read_count(from, kind_of_replica(replica_, kAccruedSteps), all.value);
  }
}

void SharedWeights::load_served(size_t part, StoredSlices& from) {
  Shared& shared = shared_[part];
  const TableContents held = shared.table->contents();
  for (const SharedTensor& tensor : shared.rows->tensors()) {
    const ServedElements at = served_of(shared.table->spec(), shared.table->worker(), tensor);
    if (at.count == 0) continue;
    const ElementsOf some = elements_of(model_, *parts_[part], tensor, at.first);
    const auto read = [&](const std::string& kind, std::span<float> numbers) {
      const auto mine = numbers.subspan(static_cast<size_t>(at.begin));
      read_numbers(from, kind_of_group(group(), kind), some,
                   mine.first(static_cast<size_t>(at.count)));
    };
    read(kWeights, held.values);
    if (!held.unheard.empty()) read(kUnheard, held.unheard);
    if (tensor.is_state || held.updates.empty()) continue;
    for (size_t state = 0; state < held.states.size(); ++state)
      read(state_kind(static_cast<int>(state)), held.states[state]);
    const int64_t updates = read_count(from, kind_of_group(group(), kUpdates), some.value);
    std::ranges::fill(held.updates.subspan(static_cast<size_t>(at.rows.begin),
                                           static_cast<size_t>(at.rows.size())),
                      updates);
  }
}

}  // namespace kerf::schedmp
