#include "partitioner/check_predictions.h"

#include <algorithm>
#include <cmath>

#include "partitioner/cut.h"
#include "partitioner/stage_price.h"

namespace kerf::partitioner {

namespace {

constexpr double kTolerance = 1e-6;  // relative: other machines round otherwise
constexpr const char* kWayOut = "remove \"workers\" and \"bottleneck\", and they are computed";

bool agree(double a, double b) {
  return std::abs(a - b) <= kTolerance * std::max(std::abs(a), std::abs(b));
}
bool agree(int64_t a, int64_t b) { return a == b; }

// `memory`: whether the schedule is known that it depends on.
std::optional<std::string> wrong_figure(const WorkerPrediction& stands,
                                        const WorkerPrediction& made, bool memory) {
  std::optional<std::string> wrong;
  const auto compare = [&](const char* name, auto figure, auto fresh) {
    if (wrong || agree(figure, fresh)) return;
    wrong = format("\"{}\" of worker {} is {}, but this plan comes to {}; {}", name, made.worker,
                   figure, fresh, kWayOut);
  };
  compare("forward_flops", stands.forward_flops, made.forward_flops);
  compare("seconds", stands.seconds, made.seconds);
  compare("weight_bytes", stands.weight_bytes, made.weight_bytes);
  if (!memory) return wrong;
  compare("activation_bytes", stands.activation_bytes, made.activation_bytes);
  if (!stands.tensor_bytes) {
    compare("peak_bytes", stands.peak_bytes, made.peak_bytes);
    return wrong;
  }
  compare("tensor_bytes", *stands.tensor_bytes, made.tensor_bytes.value());
  if (!wrong && stands.peak_bytes < *stands.tensor_bytes)
    wrong = format("\"peak_bytes\" of worker {} is {}, but its tensors alone take {}; {}",
                   made.worker, stands.peak_bytes, *stands.tensor_bytes, kWayOut);
  return wrong;
}

// Where the schedule is none for such stages, that is what is wrong with the plan.
std::optional<std::string> wrong_worker(const Model& model, const InFlightOf& in_flight_of,
                                        Plan& plan) {
  const auto in_flight = in_flight_of ? in_flight_of(plan.schedule) : hold_everything();
  std::vector<WorkerPrediction> made;
  try {
    made = predict(model, plan, request_of_plan(plan), in_flight ? *in_flight : *hold_everything());
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kUsage) throw;
    return error.what();
  }
  const bool memory = in_flight != nullptr;
  for (size_t worker = 0; worker < made.size(); ++worker) {
    if (auto wrong = wrong_figure(plan.workers[worker], made[worker], memory)) return wrong;
    if (memory) plan.workers[worker].peak_bytes = made[worker].peak_bytes;
  }
  return {};
}

}  // namespace

std::optional<std::string> wrong_prediction(const Model& model, const LeftOut& left_out,
                                            const InFlightOf& in_flight_of, Plan& plan) {
  if (left_out.step_routes) return {};
  if (!left_out.workers)
    if (auto wrong = wrong_worker(model, in_flight_of, plan)) return wrong;
  if (!left_out.bottleneck)
    if (const double made = bottleneck_of(model, plan, request_of_plan(plan));
        !agree(plan.bottleneck, made))
      return format("\"bottleneck\" is {}, but this plan comes to {}; {}", plan.bottleneck, made,
                    kWayOut);
  if (const double bound = plan.bound.value_or(0);
      bound > plan.bottleneck && !agree(bound, plan.bottleneck))
    return format(
        "\"bound\" is {}, which is above the bottleneck of {} that it is a bound of; remove "
        "\"bound\", which only the search for a plan can tell",
        bound, plan.bottleneck);
  return {};
}

}  // namespace kerf::partitioner
