// Lowering of one part: the forward list, then the gradients, then memory. Used by lower(), one
// object per part, by one thread.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "partitioner/assembly.h"
#include "partitioner/sources.h"

namespace kerf::partitioner {

class Lowering {
 public:
  Lowering(const Model& model, const Plan& plan, const Sources& sources,
           const LowerOptions& options)
      : model_(model), plan_(plan), sources_(sources), options_(options) {}

  Part run(int part, int stage);

 private:
  // A piece of a message of gradients: a local contribution, or a sum of several.
  struct Outgoing {
    int route = -1;
    std::vector<int> sums;  // per piece; -1: the one contribution itself
    bool sent = false;
  };
  struct Consumers {
    std::vector<int> sums;
    bool sent = false;  // as it is, in a message
    bool none() const { return sums.empty() && !sent; }
  };

  // lowering.cc: forward
  void add_call(const Computation& computation);
  int operand(ValueId value, const ops::Box& box);
  int base_of(ValueId value);
  int gather(ValueId value);
  void send_values(ValueId value);
  void report_loss(const Computation& computation);

  // lowering_gradients.cc
  void add_gradients();
  void prepare_sums();
  void prepare_outgoing(const Route& route);
  void differentiate(int call);
  int target_of(const Contribution& contribution, ValueId value, const ops::Box& box, int alias_of);
  Consumers consumers_of(ValueId value, const Contribution& contribution) const;
  void settle(ValueId value);
  bool weight_gradient(int call);
  std::vector<Term> gradient_terms(ValueId value) const;

  // lowering_parameters.cc
  void add_parameters();
  int home_of(ValueId value);
  void contribute(const Route& route);
  void update_home(ValueId value);
  void publish(ValueId value, int home);
  void fetch(ValueId value);
  void update_states();
  void clear_accumulators();
  Contribution contribution_of(const LocalCall& call, size_t input) const;
  const Route* find_route(ValueId value, bool gradient, int from, int to) const;

  const ops::Box& box_of(int local) const { return to_.locals[static_cast<size_t>(local)].box; }
  std::vector<Instruction>& forward() { return to_.forward.instructions; }
  std::vector<Instruction>& input_gradient() { return to_.input_gradient.instructions; }

  const Model& model_;
  const Plan& plan_;
  const Sources& sources_;
  const LowerOptions& options_;
  int part_ = 0;
  Part to_;
  std::map<ValueId, int> base_;      // value -> local that calls read (or take slices of)
  std::map<ValueId, int> produced_;  // value -> local that a call of this part writes
  std::map<std::pair<ValueId, std::string>, int> slices_;
  std::map<int, const Computation*> computation_of_;  // call -> what it computes
  std::vector<Assembly> sums_;
  std::map<ValueId, int> own_sum_;  // value -> sum that is the gradient of its box on this part
  std::vector<Outgoing> outgoing_;
  std::map<std::pair<NodeId, int>, int> contribution_local_;  // use -> local
  std::map<std::pair<NodeId, int>, int> accumulators_;        // use of a parameter -> local
  std::map<ValueId, int> homes_;                              // value -> local
};

// in_place.cc: outputs whose operator may write over an input, which nobody reads later, share its
// memory.
void write_in_place(const Model& model, Part& part);

// lifetimes.cc: the instructions that take and give memory, and a place for every local. `samples`:
// rows of the largest micro-batch.
void place_memory(const Model& model, Part& part, int64_t samples);

}  // namespace kerf::partitioner
