// What a plan will cost each worker, from its layouts, stages and routes alone.
#include <algorithm>
#include <set>
#include <tuple>

#include "partitioner/blocks.h"
#include "partitioner/cut.h"
#include "partitioner/let_go.h"
#include "partitioner/part_prediction.h"
#include "partitioner/replicas.h"
#include "partitioner/sources.h"
#include "partitioner/stage_graph.h"
#include "partitioner/sums.h"
#include "partitioner/turns.h"

namespace kerf::partitioner {

namespace {

class Prediction {
 public:
  Prediction(const Sums& sums, const Plan& plan, const PlanRequest& request,
             const InFlight& in_flight, std::optional<PeakFigure> peaks_alone)
      : model_(sums.sources().model()),
        plan_(plan),
        request_(request),
        in_flight_(in_flight),
        peaks_alone_(peaks_alone),
        largest_(plan.largest_micro_batch()),
        flights_(in_flight.of(pipeline_of(model_, plan), plan.micro_batches)),
        parts_(lower(sums, plan,
                     {.gradients = request.trains,
                      .threads = request.setting.threads,
                      .devices = request.setting.devices,
                      .tensor_bytes = !peaks_alone,
                      .packs = peaks_alone != PeakFigure::kLeast,
                      .in_parallel = true,
                      .stages = lists_of_stages(flights_, static_cast<int>(plan.stages.size()))})),
        ends_(ends_of_routes(plan, parts_)) {
    const int workers = plan.workers_bound();
    result_.resize(static_cast<size_t>(workers));
    for (int w = 0; w < workers; ++w) result_[static_cast<size_t>(w)].worker = w;
  }

  std::vector<WorkerPrediction> make() {
    if (!peaks_alone_) add_parts();
    add_memory();
    add_slots();
    return std::move(result_);
  }

 private:
  WorkerPrediction& worker_of(int part) {
    return result_[static_cast<size_t>(plan_.binding[static_cast<size_t>(part)])];
  }

  void add_parts() {
    for (const PartPrediction& part : predict_parts(model_, plan_, parts_, request_, in_flight_)) {
      WorkerPrediction& worker = result_[static_cast<size_t>(part.worker)];
      worker.forward_flops += part.forward_flops;
      worker.seconds += part.seconds;
      worker.weight_bytes += part.weight_bytes;
      worker.activation_bytes += part.activation_bytes;
      worker.messages += part.messages;
      worker.bytes_in += part.bytes_in;
      worker.bytes_out += part.bytes_out;
    }
  }

  // Persistent memory adds up over a worker's parts, as what is in flight does; of what comes and
  // goes within one action, or one step, only the stage that needs most counts.
  void add_memory() {
    std::vector<std::vector<const Part*>> parts_on(result_.size());
    std::vector<std::vector<int64_t>> transient(result_.size());
    std::vector<std::vector<int64_t>> transient_tensors(result_.size());
    for (const Part& part : parts_) {
      WorkerPrediction& worker = worker_of(part.part);
      const int64_t persistent = persistent_bytes(part, request_.setting.optimizer_states,
                                                  plan_.micro_batches, request_.trains);
      const int64_t held = given_bytes(part) + in_flight_bytes(part);
      worker.peak_bytes += persistent + held;
      add_tensors(worker, persistent - packed_bytes(part) + held);
      const auto w = static_cast<size_t>(worker.worker);
      parts_on[w].push_back(&part);
      transient[w].push_back(transient_bytes(part, &InstructionList::transient_bytes));
      transient_tensors[w].push_back(
          transient_bytes(part, &InstructionList::transient_tensor_bytes));
    }
    for (size_t w = 0; w < result_.size(); ++w) {
      result_[w].peak_bytes += transient_of(parts_on[w], transient[w]).bytes;
      add_tensors(result_[w], transient_of(parts_on[w], transient_tensors[w]).bytes);
    }
  }

  // Results of every micro-batch, which steps of forward passes alone keep until they are written.
  int64_t given_bytes(const Part& part) const {
    int64_t bytes = 0;
    for (const Instruction& each : part.forward.instructions)
      if (each.kind == Instruction::Kind::kWrite)
        bytes += plan_.micro_batches *
                 whole_blocks(static_cast<int64_t>(
                     part.locals[static_cast<size_t>(each.local)].bytes(plan_.division.largest)));
    return bytes;
  }

  int64_t in_flight_bytes(const Part& part) const {
    return flight(part).kept * part.bytes_of(RegionKind::kKept) +
           flight(part).kept_for_weights * part.bytes_of(RegionKind::kKeptForWeights) +
           handed(part) * part.bytes_of(RegionKind::kHanded) +
           entered(part) * part.bytes_of(RegionKind::kEntered);
  }
  // Of the lists that may run: I and W where the schedule has them apart.
  int64_t transient_bytes(const Part& part, int64_t InstructionList::*bytes) const {
    int64_t most = 0;
    for (const auto list :
         {&Part::checkpointed_forward, &Part::recompute, &Part::apply, &Part::contribute,
          &Part::reduce, &Part::conclude, &Part::update, &Part::fetch})
      most = std::max(most, part.*list.*bytes);
    if (flight(part).merges) most = std::max(most, part.backward.*bytes);
    if (flight(part).recomputed < micro_batches_of(plan_, plan_.division.replica_of(part.part)))
      most = std::max(most, part.forward.*bytes);
    if (handed(part) == 0) return most;
    return std::max({most, part.input_gradient.*bytes, part.weight_gradient.*bytes});
  }

  void add_tensors(WorkerPrediction& worker, int64_t bytes) const {
    if (!peaks_alone_) worker.tensor_bytes = worker.tensor_bytes.value_or(0) + bytes;
  }
  // Of weights, by kernels that keep them so.
  static int64_t packed_bytes(const Part& part) {
    int64_t bytes = 0;
    for (const LocalCall& call : part.calls) bytes += call.packed;
    return bytes;
  }

  const Flight& flight(const Part& part) const {
    return flights_[group_of(plan_, part.part, part.stage)];
  }
  int handed(const Part& part) const { return flight(part).handed; }
  // What a stage was sent it has for as long whether it recomputes or not.
  int entered(const Part& part) const {
    return part.recomputes() ? flight(part).entered : flight(part).kept_for_weights;
  }

  // A B between another's I and its W has messages of both.
  bool mixes(const Part& part) const { return flight(part).merges && handed(part) > 0; }

  // Messages of a route that an end holds at once: those that its gradients read stay.
  int held_by(const Part& end, const Route& route, const LetGo& let_go) const {
    if (let_go.weight_gradient && route.gradient)
      return std::max(1, handed(end) + (mixes(end) ? 1 : 0));
    if (let_go.weight_gradient && !route.gradient) return entered(end);
    if (let_go.input_gradient && !route.gradient)
      return end.recomputes() ? entered(end) : flight(end).kept;
    if (!let_go.recompute) return 1;
    // Beside those that wait to be read again one that does not.
    return flight(end).checkpointed + (let_go.forward ? 1 : 0);
  }
  // Of a route, of which it may be known only that it is between these.
  struct Held {
    int least = 0;
    int most = 0;
  };
  // A message is held while either end holds it. Who keeps what it sent for its gradients, and is
  // sent one of it by the receiver, has that after the receiver's I, so that beside these messages
  // there are only those that wait for the receiver's W. Whoever else reads on in what it sent has
  // messages while the receiver has others.
  Held held_of(const Route& route) const {
    if (!is_carried(model_, route, request_.trains)) return {0, 0};
    const RouteEnds& ends = ends_[static_cast<size_t>(route.id)];
    if (is_of_step(model_, route) || is_brief(route, ends)) return {1, 1};
    const Part& sender = parts_[static_cast<size_t>(route.from)];
    const Part& receiver = parts_[static_cast<size_t>(route.to)];
    // Of this step, and of the next one where that is begun in it.
    const int ahead = std::max(flight(sender).ahead, flight(receiver).ahead);
    const int all = plan_.micro_batches + ahead;
    // Of an end that recomputes, or mixes, or goes on with the next step, no more than it may hold.
    const auto is_counted = [&](const Part& end) {
      return ahead == 0 && !end.recomputes() && !mixes(end);
    };
    const auto& [retired, released] = ends;
    const int received = held_by(receiver, route, released);
    const int least = is_counted(receiver) ? received : 1;
    if (!retired.forward && !retired.input_gradient && !retired.weight_gradient)
      return {least, received};
    const int sent = held_by(sender, route, retired);
    const int least_of_both = std::max(least, is_counted(sender) ? sent : 1);
    if (route.gradient || retired.forward ||
        !returned_.contains({route.value, route.to, route.from}))
      return {least_of_both, std::min(all, received + sent)};
    const int waiting = released.weight_gradient ? handed(receiver) : 0;
    return {least_of_both, std::max(received, std::min(all, sent + waiting))};
  }
  // By route: as counted, and where that leaves a doubt, as the schedule has it.
  std::vector<int> held() const {
    std::vector<int> least;
    std::vector<int> most;
    for (const Route& route : plan_.routes) {
      const Held held = held_of(route);
      least.push_back(held.least);
      most.push_back(held.most);
    }
    if (peaks_alone_ == PeakFigure::kLeast) return least;
    if (least == most) return most;
    std::vector<int> played = in_flight_.held(model_, plan_, parts_);
    return played.empty() ? most : played;
  }

  void add_slots() {
    for (const Route& route : plan_.routes)
      if (route.gradient) returned_.emplace(route.value, route.from, route.to);
    const std::vector<int64_t> slots =
        slot_bytes(model_, plan_, held(), request_.setting, largest_);
    for (size_t w = 0; w < result_.size(); ++w) {
      result_[w].peak_bytes += slots[w];
      add_tensors(result_[w], slots[w]);
    }
  }

  const Model& model_;
  const Plan& plan_;
  const PlanRequest& request_;
  const InFlight& in_flight_;
  const std::optional<PeakFigure> peaks_alone_;  // nothing else
  int64_t largest_;                              // rows of the largest micro-batch
  const std::vector<Flight> flights_;            // by group
  const std::vector<Part> parts_;
  const std::vector<RouteEnds> ends_;                 // by route
  std::set<std::tuple<ValueId, int, int>> returned_;  // values whose gradients go from part to part
  std::vector<WorkerPrediction> result_;
};

}  // namespace

std::vector<WorkerPrediction> predict(const Model& model, const Plan& plan,
                                      const PlanRequest& request, const InFlight& in_flight) {
  const Sources sources(model, plan.division, stages_of_parts(plan));
  return Prediction(Sums(sources), plan, request, in_flight, std::nullopt).make();
}

std::vector<int64_t> predict_peaks(const Sums& sums, const Plan& plan, const PlanRequest& request,
                                   const InFlight& in_flight, PeakFigure figure) {
  std::vector<int64_t> peaks;
  for (const WorkerPrediction& worker : Prediction(sums, plan, request, in_flight, figure).make())
    peaks.push_back(worker.peak_bytes);
  return peaks;
}

}  // namespace kerf::partitioner
