// Assembly: a local tensor that is put together from terms, in a fixed order.
//
// A term is a local tensor of this part or a piece of a message; terms that overlap are added,
// which is why their order is part of the answer: it is the same however the terms are spread over
// parts. A term is always computed on its own and then added, never accumulated by a kernel, so
// that its rounding does not depend on where it was computed. Used while lowering, by one thread.
#pragma once

#include <vector>

#include "ops/selections.h"
#include "partitioner/part.h"

namespace kerf::partitioner {

int add_local(const Model& model, Part& part, ValueId value, LocalKind kind, const ops::Box& box);
// With a selection of those of the part.
Move move_of(ops::Selections& selections, const Part& part, int local, const ops::Box& piece,
             bool add);

struct Term {
  ops::Box box;    // of the value
  int local = -1;  // that holds it; -1 while it is neither computed nor received
  int route = -1;  // where it comes from, unless from this part
  int piece = -1;
  std::vector<Contribution> contributions;  // of a gradient
  bool add = false;                         // set by Assembly
};

class Assembly {
 public:
  // `shape`: of the value in the largest micro-batch. `selections`, of the part, outlive this.
  Assembly(ValueId value, LocalKind kind, ops::Box box, std::vector<Term> terms,
           const ops::Shape& shape, ops::Selections& selections);

  ValueId value() const { return value_; }
  const std::vector<Term>& terms() const { return terms_; }
  const ops::Box& box() const { return box_; }
  bool done() const { return next_ == terms_.size(); }
  const Term& next() const { return terms_[next_]; }
  bool is_next(size_t term) const { return next_ == term; }
  int local() const { return local_; }

  // Whether a kernel that makes term 0 as a tensor of `box` may write it straight into the result,
  // and the local to write to.
  bool begins_with(const Contribution& first, const ops::Box& box) const;
  int begin(const Model& model, Part& part);
  // Or it is in `local` already, which nobody reads afterwards: the others are added there.
  void begin_in(int local) { local_ = local; }
  // Term number `term`, of this part, is now in `local`, whose box may be larger than the term's.
  void computed(size_t term, int local) { terms_[term].local = local; }
  // Adds terms as far as they are there without waiting.
  void advance(const Model& model, Part& part, std::vector<Instruction>& list);
  // The next term is received: alone, or by this move of a message of several pieces.
  void receive(const Model& model, Part& part, const Route& route, std::vector<Instruction>& list);
  Move take(const Model& model, Part& part, std::vector<Instruction>& list);
  // Receives what is missing; gives the finished local.
  int finish(const Model& model, Part& part, const std::vector<Route>& routes,
             std::vector<Instruction>& list);

 private:
  void choose_writes(const ops::Shape& shape);
  void start(const Model& model, Part& part, std::vector<Instruction>& list);
  bool sole(const ops::Box& box) const { return terms_.size() == 1 && box == box_; }

  ValueId value_;
  LocalKind kind_;
  ops::Box box_;
  std::vector<Term> terms_;
  ops::Selections* selections_;
  size_t next_ = 0;
  int local_ = -1;
  bool zero_first_ = false;
};

}  // namespace kerf::partitioner
