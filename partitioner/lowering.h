// Lowering of one part: the forward list, then the gradients, then memory. Used by lower(), one
// object per part, by one thread.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "partitioner/assembly.h"
#include "partitioner/call_needs.h"
#include "partitioner/route_index.h"
#include "partitioner/step_vector.h"
#include "partitioner/sums.h"

namespace kerf::partitioner {

class Lowering {
 public:
  // `members`: of the step vector.
  Lowering(const Model& model, const Plan& plan, const Sums& all_sums, const RouteIndex& routes,
           const StepVector& step_vector, const std::vector<StepMember>& members,
           const LowerOptions& options)
      : model_(model),
        plan_(plan),
        sources_(all_sums.sources()),
        all_sums_(all_sums),
        routes_(routes),
        step_vector_(step_vector),
        members_(members),
        options_(options) {}

  // `interleaved`: interleaves() of the stage.
  Part run(int part, int stage, bool interleaved);

 private:
  // A piece of a message of gradients: a local contribution, or a sum of several.
  struct Outgoing {
    int route = -1;
    std::vector<int> sums;  // per piece; -1: the one contribution itself
    bool sent = false;
  };
  using TermPlace = std::pair<int, size_t>;  // number of a sum, and of its term
  // Who waits for a contribution of this part: terms of sums, and messages.
  struct Consumers {
    std::vector<TermPlace> terms;
    bool sent = false;  // as it is, in a message
    bool none() const { return terms.empty() && !sent; }
  };

  // lowering.cc: forward
  bool alone_on_its_worker(int stage) const;
  std::vector<bool> accumulating_calls() const;
  void place(const CallSetting& setting);
  void add_call(const Computation& computation);
  int operand(ValueId value, const ops::Box& box);
  int base_of(ValueId value);
  int gather(ValueId value);
  void send_values(ValueId value);
  void sum_slice(ValueId value);
  std::vector<Term> value_terms(ValueId value, const Sum& sum) const;
  Instruction send_of(const Route& route, int local);
  bool is_first_replica(const Computation& computation) const;
  void write_results(const Computation& computation, const LocalCall& call);
  void report_loss(const Computation& computation);

  // lowering_gradients.cc
  void add_gradients(bool interleaved);
  void prepare_sums();
  void prepare_sums_of(ValueId value);
  void prepare_outgoing(const Route& route);
  int sum_of(const Route& route, const Piece& piece) const;
  void note_consumers();
  void differentiate(int call);
  int target_of(const Contribution& contribution, ValueId value, const ops::Box& box, int alias_of);
  void settle(ValueId value);
  void send_ready(ValueId value);
  bool weight_gradient(int call);
  std::vector<Term> gradient_terms(ValueId value, const Sum& sum) const;

  // lowering_sums.cc
  void add_ready(int sum);
  int finish(int sum);
  int finish_own(ValueId value);
  void receive(const Route& route);

  // lowering_parameters.cc
  void add_parameters();
  int home_of(ValueId value);
  void contribute(const Route& route);
  void update_home(ValueId value);
  int sum_at_home(ValueId value, int home);
  void publish(ValueId value, int home);
  void fetch(ValueId value);
  void update_states();
  void clear_accumulators();
  void check_alone_with_weights() const;
  void update_within_step();

  // lowering_step.cc: the step vector
  void add_step_locals();
  void measure(int local, ValueId value);
  void exchange_step();
  Instruction step_message(Instruction::Kind kind, const Route& route, int local, bool add);
  const StepMember* member() const;
  Contribution contribution_of(const LocalCall& call, size_t input) const;

  const ops::Box& box_of(int local) const { return to_.locals[static_cast<size_t>(local)].box; }
  std::vector<Instruction>& forward() { return to_.forward.instructions; }
  std::vector<Instruction>& input_gradient() { return to_.input_gradient.instructions; }

  const Model& model_;
  const Plan& plan_;
  const Sources& sources_;
  const Sums& all_sums_;
  const RouteIndex& routes_;
  const StepVector& step_vector_;
  const std::vector<StepMember>& members_;
  const LowerOptions& options_;
  int part_ = 0;
  Part to_;
  ops::Selections selections_;       // of its moves
  std::map<ValueId, int> base_;      // value -> local that calls read (or take slices of)
  std::map<ValueId, int> produced_;  // value -> local that a call of this part writes
  std::map<ValueId, int> slice_;     // value -> local that is the slice which this part sums up
  std::map<std::pair<ValueId, std::string>, int> slices_;
  std::map<int, const Computation*> computation_of_;  // call -> what it computes
  std::vector<Assembly> sums_;
  std::vector<const Sum*> planned_;   // what each of them is
  std::map<ValueId, int> own_sum_;    // value -> sum that is the gradient of its box on this part
  std::map<ValueId, int> slice_sum_;  // value -> sum that is a slice of it
  std::map<ValueId, std::vector<int>> sums_of_;
  std::vector<Outgoing> outgoing_;
  std::map<ValueId, std::vector<int>> outgoing_of_;
  std::map<std::pair<NodeId, int>, Consumers> consumers_;  // use -> who waits for what it gives
  std::map<std::pair<int, int>, std::vector<TermPlace>> awaiting_;  // route, piece -> who reads it
  std::map<NodeId, int> call_of_;
  std::map<std::pair<NodeId, int>, int> contribution_local_;  // use -> local
  std::map<std::pair<NodeId, int>, int> accumulators_;        // use of a parameter -> local
  std::map<ValueId, int> homes_;                              // value -> local
};

// lifetimes.cc: the instructions that read data, each right before its first use.
void read_data(const Model& model, Part& part);

// in_place.cc: outputs whose operator may write over an input, which nobody reads later, share its
// memory.
void write_in_place(const Model& model, Part& part);

// in_slots.cc: what is sent whole is made in a slot, and read there; the instructions that acquire
// and retire slots.
void write_into_slots(const Model& model, Part& part);

// lifetimes.cc: the instructions that take and give memory, and a place for every local, as the
// options have it. `samples`: rows of the largest micro-batch.
void place_memory(const Model& model, Part& part, int64_t samples, const LowerOptions& options);

}  // namespace kerf::partitioner
