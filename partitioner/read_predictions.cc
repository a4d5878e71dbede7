// Reads what a plan predicts of its workers.
#include <limits>

#include "partitioner/plan_reader.h"

namespace kerf::partitioner {

namespace {

// Numbers that JSON's readers know exactly, and the sum of all workers' of them is one here.
constexpr int64_t kMostPredicted = (int64_t{1} << 53) - 1;
static_assert(kMostPredicted <= std::numeric_limits<int64_t>::max() / kMostWorkers);

int64_t json_count(const Json& json, const std::string& key, const std::string& where) {
  const int64_t count = json_int(json, key, where);
  if (count < 0 || count > kMostPredicted)
    refuse_member(where,
                  format("\"{}\" is {}, which is not within 0 and {}", key, count, kMostPredicted));
  return count;
}

}  // namespace

std::vector<WorkerPrediction> read_workers(const PlanFile& file) {
  std::vector<WorkerPrediction> workers;
  file.each("workers", [&](const Json& one, const std::string& where) {
    check_members(one,
                  {"worker", "forward_flops", "seconds", "weight_bytes", "activation_bytes",
                   "peak_bytes", "tensor_bytes", "messages", "bytes_in", "bytes_out"},
                  where);
    workers.push_back({.worker = json_small(one, "worker", 0, where),
                       .forward_flops = json_finite(one, "forward_flops", where),
                       .seconds = json_finite(one, "seconds", where),
                       .weight_bytes = json_count(one, "weight_bytes", where),
                       .activation_bytes = json_count(one, "activation_bytes", where),
                       .peak_bytes = json_count(one, "peak_bytes", where),
                       .messages = json_count(one, "messages", where),
                       .bytes_in = json_count(one, "bytes_in", where),
                       .bytes_out = json_count(one, "bytes_out", where)});
    if (one.contains("tensor_bytes"))
      workers.back().tensor_bytes = json_count(one, "tensor_bytes", where);
  });
  return workers;
}

}  // namespace kerf::partitioner
