// Rows of a step, and what the executor reads of the data set: a part's share of the rows of a
// micro-batch, by work in the stream.
#include <algorithm>

#include "runtime/error.h"
#include "runtime/host_work.h"
#include "schedmp/training/executor.h"

namespace kerf::schedmp {

using ops::TensorView;
using partitioner::Local;

namespace {

void fetch(const Dataset& data, const partitioner::Value& value, std::span<const int64_t> rows,
           const TensorView& to) {
  if (value.role == partitioner::Role::kLabel)
    data.read_labels(rows, to);
  else
    data.read_input(value.name, rows, to);
}

}  // namespace

int64_t Executor::samples(const Site& site) const {
  return site.micro_batch < 0 ? 0 : sizes_.size(std::ssize(rows_of(site)), site.micro_batch);
}

int64_t Executor::first(const Site& site) const {
  return site.micro_batch < 0 ? 0 : sizes_.first(std::ssize(rows_of(site)), site.micro_batch);
}

int64_t Executor::rows_between(const Site& site, int micro_batch, int end) const {
  const auto rows = std::ssize(rows_of(site));
  return sizes_.first(rows, end) - sizes_.first(rows, micro_batch);
}

std::vector<size_t> Executor::places_read(int64_t rows) const {
  std::vector<bool> mine(static_cast<size_t>(rows));
  const auto take = [&](const Local& each) {
    for (int micro_batch = 0; micro_batch < micro_batches_; ++micro_batch) {
      const int64_t first = sizes_.first(rows, micro_batch);
      const int64_t count = sizes_.size(rows, micro_batch);
      const ops::Range all{0, count};
      const ops::IndexSet& share = each.box.axes[0];
      for (const ops::Range& range :
           share.is_all() ? std::span<const ops::Range>(&all, 1) : std::span(share.ranges()))
        std::fill(mine.begin() + first + std::min(range.begin, count),
                  mine.begin() + first + std::min(range.end, count), true);
    }
  };
  for (const partitioner::Part* each : current_->parts)
    for (const Local& local : each->locals)
      if (local.kind == partitioner::LocalKind::kData &&
          model_.value(local.value).role == partitioner::Role::kInput)
        take(local);
  std::vector<size_t> places;
  for (size_t place = 0; place < mine.size(); ++place)
    if (mine[place]) places.push_back(place);
  return places;
}

// The rows of this part's share of the micro-batch, range by range.
void Executor::read(const Site& site, const Instruction& instruction) {
  step_trace_.works();
  TensorView to = view(site, instruction.local);
  const Local& each = local(site, instruction.local);
  KERF_CHECK(data_.dataset != nullptr, "no data set for {}", model_.value(each.value).name);
  const int64_t count = samples(site);
  const ops::Range all{0, count};
  const ops::IndexSet& mine = each.box.axes[0];
  for (const ops::Range& range :
       mine.is_all() ? std::span<const ops::Range>(&all, 1) : std::span(mine.ranges())) {
    const int64_t begin = std::min(range.begin, count);
    const int64_t rows = std::min(range.end, count) - begin;
    to.shape[0] = rows;
    read_rows(
        site, instruction,
        rows_of(site).subspan(static_cast<size_t>(first(site) + begin), static_cast<size_t>(rows)),
        to);
    to.data += to.bytes();
  }
}

void Executor::read_rows(const Site& site, const Instruction& instruction,
                         std::span<const int64_t> rows, const TensorView& to) {
  const Dataset& data = *data_.dataset;
  const partitioner::Value& value = model_.value(local(site, instruction.local).value);
  const auto memory = runtime::overwritten(to.data, to.bytes());
  if (instruction.moves.empty()) {
    runtime::launch(
        workplace_.stream,
        [&data, &value, rows, to](std::byte* at) {
          fetch(data, value, rows, {to.dtype, to.shape, at});
        },
        memory);
    return;
  }
  // Row by row, so that no second tensor of this size is needed.
  const ops::Selection& share = instruction.moves[0].selection;
  runtime::launch(
      workplace_.stream,
      [&data, &value, &share, rows](std::byte* at, std::byte* row) {
        for (size_t i = 0; i < rows.size(); ++i, at += share.bytes(1)) {
          fetch(data, value, rows.subspan(i, 1),
                {value.spec.dtype, value.spec.shape.with_batch(1), row});
          share.pack(row, at, 1);
        }
      },
      memory, runtime::overwritten(scratch(site, instruction), value.spec.bytes(1)));
}

}  // namespace kerf::schedmp
