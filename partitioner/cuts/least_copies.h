// What a plan's workers copy at least, to pack, unpack and put together what they exchange, without
// its being connected: for the bound of its step (least_seconds.h). In bytes read and written, as
// copies.h counts them.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "partitioner/plan.h"
#include "partitioner/sums.h"

namespace kerf::partitioner {

struct CopiedBytes {
  double first = 0;  // of the smallest micro-batch of a step
  double all = 0;    // of all of them
};

// A sum of one term is read where it lies; the first of the parts to which a tensor goes whole may
// have it made in its slot. All else is copied: pieces by who cuts them, terms by who sums them.
class LeastCopies {
 public:
  // `trains`: with gradients, and homes of parameters.
  LeastCopies(const Sums& sums, const Plan& plan, bool trains);

  // By a part that reads an activation, when it gets it.
  CopiedBytes to_read(ValueId value, int part) const { return found(to_read_, value, part); }
  // By a part that makes one, when it has it.
  CopiedBytes to_send(ValueId value, int part) const { return found(to_send_, value, part); }
  // For gradients, and once a step for parameters.
  double afterwards(int part) const { return afterwards_[static_cast<size_t>(part)]; }

 private:
  using OfPart = std::map<std::pair<ValueId, int>, CopiedBytes>;

  static CopiedBytes found(const OfPart& in, ValueId value, int part) {
    const auto at = in.find({value, part});
    return at == in.end() ? CopiedBytes() : at->second;
  }
  CopiedBytes copied(ValueId value, const ops::Box& box) const;
  void add(OfPart& to, ValueId value, int part, const ops::Box& box, double factor) const;
  void forward(ValueId value);
  void backward(ValueId value);
  void at_homes(ValueId value);
  ops::Box made_by(const Source& contribution) const;

  const Sums& sums_;
  const Sources& sources_;
  const Model& model_;
  const std::map<int64_t, int> sizes_;  // rows -> micro-batches
  const bool accumulates_;              // gradients of parameters, over micro-batches
  OfPart to_read_;
  OfPart to_send_;
  std::vector<double> afterwards_;  // by part
};

}  // namespace kerf::partitioner
