// The batch cut: one stage, every operator divided over all workers by sample (SINGA's
// partition_dim 0; data parallelism in later words).
//
//   worker 0   samples 0-7     conv1  relu1  ...  fc3  loss      gradients: partial sums
//   worker 1   samples 8-15    conv1  relu1  ...  fc3  loss      gradients: partial sums
//
// Nothing travels within a micro-batch. Weights are read by everybody and their homes divided
// (homes.h), so a step costs a reduce-scatter of gradients and an all-gather of weights, however
// many micro-batches it has. Training batch normalisations are rewritten to exchange sums, so that
// they normalise by the micro-batch and not by a worker's part of it.
#include <algorithm>
#include <utility>

#include "partitioner/cuts/feature_patterns.h"
#include "partitioner/cuts/idle_parts.h"
#include "partitioner/cuts/spread.h"
#include "partitioner/rewrite.h"

namespace kerf::partitioner {
namespace {

constexpr int64_t kMostTimesLarger = 1024;  // the batch that somebody has, a larger one

// Parts that have none of so many rows.
std::vector<int> parts_without_rows(const PlanRequest& request, int64_t rows) {
  std::vector<int> without;
  const auto shares = shares_of(rows, all_parts(request), request.speeds_of_parts());
  for (size_t part = 0; part < shares.size(); ++part)
    if (shares[part].empty()) without.push_back(static_cast<int>(part));
  return without;
}

// By halves, so that some fewer may do: shares are rounded. 0: no batch that one might take does.
int64_t larger_batch(const PlanRequest& request) {
  PlanRequest larger = request;
  const auto is_enough = [&](int64_t batch) {
    larger.batch = batch;
    return parts_without_rows(request, larger.largest_micro_batch()).empty();
  };
  const int64_t most = std::min(kMostRows, kMostTimesLarger * request.batch);
  int64_t few = request.batch;
  int64_t enough = 2 * few;
  while (enough <= most && !is_enough(enough)) few = std::exchange(enough, 2 * enough);
  if (enough > most) return 0;
  while (enough - few > request.micro_batches) {
    const int64_t middle = few + (enough - few) / 2;
    (is_enough(middle) ? enough : few) = middle;
  }
  return enough;
}

// " or use --micro-batches 2", " or use --batch 1024": what gives each part a row; empty of sizes
// that were given, and where nothing does.
std::string larger_micro_batches(const PlanRequest& request) {
  if (!request.given_sizes.empty()) return {};
  PlanRequest larger = request;
  int64_t tried = request.largest_micro_batch();
  while (--larger.micro_batches > 0)
    if (std::exchange(tried, larger.largest_micro_batch()) < larger.largest_micro_batch() &&
        parts_without_rows(request, larger.largest_micro_batch()).empty())
      return format(", or use --micro-batches {}", larger.micro_batches);
  const int64_t batch = larger_batch(request);
  return batch > 0 ? format(", or use --batch {}", batch) : std::string();
}

void refuse_empty_shares(const PlanRequest& request) {
  const int64_t largest = request.largest_micro_batch();
  const std::vector<int> idle = parts_without_rows(request, largest);
  if (idle.empty()) return;
  if (largest < request.workers)
    refuse_idle(request, idle.front(),
                format("micro-batches have {} rows at most; {}{}", largest,
                       without_idle(request, idle), larger_micro_batches(request)));
  refuse_idle(request, idle.front(),
              format("beside the others its device is too slow for one of the {} rows of a "
                     "micro-batch; {}{}",
                     largest, without_idle(request, idle), larger_micro_batches(request)));
}

}  // namespace

ops::Layout divide_by_samples(const ops::IterationSpace& space, const std::vector<int>& group,
                              int64_t largest, const std::vector<double>& speeds) {
  const auto rank = static_cast<int>(space.axes.size());
  for (int axis = 0; axis < rank; ++axis) {
    const int64_t extent = space.axes[static_cast<size_t>(axis)].extent;
    if (extent >= 0) continue;
    const int64_t of_a_sample = -extent;  // rows of a sample stay together
    std::vector<ops::IndexSet> sets;
    for (const ops::IndexSet& samples : shares_of(largest, group, speeds)) {
      std::vector<ops::Range> rows;
      for (const ops::Range& range : samples.ranges(largest))
        rows.push_back({range.begin * of_a_sample, range.end * of_a_sample});
      sets.push_back(ops::IndexSet(std::move(rows)).normalized(largest * of_a_sample));
    }
    return ops::Layout::split(group, rank, axis, sets);
  }
  return ops::Layout::replicated(group, rank);
}

std::vector<Rewrite> rewrites_for_batch(const Model& model, const PlanRequest& request) {
  const int64_t largest = request.largest_micro_batch();
  std::vector<std::optional<ops::Layout>> divisions;
  for (NodeId id = 0; id < model.nodes(); ++id)
    divisions.emplace_back(divide_by_samples(model.op(id).space(), all_parts(request), largest,
                                             request.speeds_of_parts()));
  return rewrites_needed(model, divisions, largest);
}

Assignment cut_batch(const Model& model, const PlanRequest& request) {
  refuse_empty_shares(request);
  const int64_t largest = request.largest_micro_batch();
  Stage all = stage_of_all(model, request);
  std::vector<std::optional<ops::Layout>> divisions;
  for (NodeId id = 0; id < model.nodes(); ++id) {
    const ops::IterationSpace& space = model.op(id).space();
    const ops::Layout& division =
        divisions
            .emplace_back(divide_by_samples(space, all.parts, largest, request.speeds_of_parts()))
            .value();
    for (const ops::Share& share : division.shares)
      if (const std::string why = ops::check_iterations(space, share.box, largest); !why.empty())
        throw Error(ErrorCode::kInfeasible,
                    format("{} cannot be divided by sample: {}; use another --cut, or a free one "
                           "that gives it to one worker",
                           model.node(id).op, why),
                    format("{}: node {}", model.name(), model.node(id).name));
  }
  return spread_all(model, request, {std::move(all)}, even_share(model, request), divisions);
}

}  // namespace kerf::partitioner
