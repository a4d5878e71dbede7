#include "schedmp/training/proof.h"

#include <algorithm>

#include "runtime/error.h"
#include "schedmp/interpreter.h"
#include "schedmp/schedules.h"
#include "schedmp/training/result_memory.h"

namespace kerf::schedmp {

partitioner::SlotPlace slot_place_of(runtime::TransportKind kind) {
  if (kind == runtime::TransportKind::kCuda) return partitioner::SlotPlace::kExported;
  return runtime::mirrors_slots(kind) ? partitioner::SlotPlace::kBothEnds
                                      : partitioner::SlotPlace::kSender;
}

TrainingProof::TrainingProof(const partitioner::Model& model, const partitioner::Plan& plan,
                             const Schedule& schedule, const TrainingOptions& options)
    : model_(model),
      plan_(plan),
      schedule_(schedule),
      options_(options),
      setting_(options.setting) {
  setting_.optimizer_states =
      ops::Optimizer(optimizer_of_worker(options.optimizer, options.replicas)).states();
  if (trains() && !schedule.trains())
    throw Error(ErrorCode::kUsage,
                "it has no backward and no update, so nothing would be learnt; choose gpipe, "
                "1f1b or a file with B and U",
                "schedule " + schedule.name);
  if (trains() && schedule.updates_within() && options.optimizer.most_norm > 0)
    throw Error(
        ErrorCode::kUsage,
        "its updates wait for nobody, and to clip a gradient takes the norm of all of them: "
        "leave --clip-norm out, or choose a schedule that updates at the step's end",
        "schedule " + schedule.name);
  verdict_ = proved(schedule, parts_of(schedule));
  prove_evaluation();
  alike_ = verdict_.peak_bytes;
  check_cap();
}

void TrainingProof::channels_go_over(const TransportTable& transports) {
  const int64_t samples = plan_.largest_micro_batch();
  const auto place_of = [&](int from, int to) {
    const auto kind = transports.at(static_cast<size_t>(from)).at(static_cast<size_t>(to));
    KERF_CHECK(kind, "nobody says how messages go from worker {} to worker {}", from, to);
    return slot_place_of(*kind);
  };
  const auto assumed = slot_bytes(model_, plan_, verdict_.held, setting_, samples);
  const auto taken = slot_bytes(model_, plan_, verdict_.held, setting_.slots, samples, place_of);
  for (size_t worker = 0; worker < alike_.size(); ++worker)
    verdict_.peak_bytes[worker] = alike_[worker] + taken[worker] - assumed[worker];
  check_cap();
}

std::vector<partitioner::Part> TrainingProof::parts_of(const Schedule& schedule) const {
  partitioner::LowerOptions options = lowering_for(schedule, setting_);
  options.in_parallel = false;
  return lower(model_, plan_, options);
}

Verdict TrainingProof::proved(const Schedule& schedule, const std::vector<partitioner::Part>& parts,
                              const std::vector<int>& least_held) const {
  Verdict result = verify(model_, plan_, parts, schedule, setting_, least_held);
  if (!result.ok())
    throw Error(ErrorCode::kUsage, kerf::format("not proved: {}", fmt::join(result.problems, "; ")),
                "schedule " + schedule.name);
  return result;
}

// Evaluation has an arena of its own plan in the same memory; a run that only evaluates has nothing
// else. What it gives lies beside both.
void TrainingProof::prove_evaluation() {
  const Schedule forwards = forward_only(pipeline_of(model_, plan_), schedule_.micro_batches);
  const auto parts = parts_of(forwards);
  Verdict evaluation = proved(forwards, parts);
  const auto count_results = [&] {
    for (size_t worker = 0; worker < verdict_.peak_bytes.size(); ++worker)
      verdict_.peak_bytes[worker] += result_bytes(parts, plan_, static_cast<int>(worker));
  };
  if (!trains()) {
    verdict_ = std::move(evaluation);
    return count_results();
  }
  // The routes are the same.
  if (!std::ranges::equal(evaluation.held, verdict_.held, std::less_equal<>()))
    verdict_ = proved(schedule_, parts_of(schedule_), evaluation.held);
  for (size_t worker = 0; worker < verdict_.peak_bytes.size(); ++worker) {
    const int64_t more = evaluation.arena_bytes[worker] - verdict_.arena_bytes[worker];
    if (more <= 0) continue;
    verdict_.arena_bytes[worker] += more;
    verdict_.peak_bytes[worker] += more;
  }
  count_results();
}

void TrainingProof::check_cap() const {
  if (!options_.memory) return;
  if (const std::string why = above_cap(verdict_.peak_bytes, *options_.memory); !why.empty())
    throw Error(ErrorCode::kInfeasible, why, plan_.model);
}

}  // namespace kerf::schedmp
