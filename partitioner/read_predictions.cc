// Reads what a plan predicts of its workers.
#include "partitioner/plan_reader.h"

namespace kerf::partitioner {

std::vector<WorkerPrediction> read_workers(const PlanFile& file) {
  std::vector<WorkerPrediction> workers;
  file.each("workers", [&](const Json& one, const std::string& where) {
    check_members(one,
                  {"worker", "forward_flops", "seconds", "weight_bytes", "activation_bytes",
                   "peak_bytes", "messages", "bytes_in", "bytes_out"},
                  where);
    workers.push_back({.worker = json_small(one, "worker", 0, where),
                       .forward_flops = json_finite(one, "forward_flops", where),
                       .seconds = json_finite(one, "seconds", where),
                       .weight_bytes = json_int(one, "weight_bytes", where),
                       .activation_bytes = json_int(one, "activation_bytes", where),
                       .peak_bytes = json_int(one, "peak_bytes", where),
                       .messages = json_int(one, "messages", where),
                       .bytes_in = json_int(one, "bytes_in", where),
                       .bytes_out = json_int(one, "bytes_out", where)});
  });
  return workers;
}

}  // namespace kerf::partitioner
