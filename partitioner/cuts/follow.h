// Following: divisions of a node that come from where its operands are, so that little travels.
//
//   follow            as input k is divided: Relu over features, Attention over heads
//   follow_stretches  where the inputs, or those of them that are there, lie within the output:
//                     Concat; a part concatenates what it has of each
//   follow_sums       as input k is, along a summed axis: results are partial sums (Gemm by its
//                     inputs)
//
// What follows partial sums is divided as if they had been divided by features, as which they are
// put together.
//
// Each gives nothing where a node cannot be divided so. Pure functions.
#pragma once

#include <optional>
#include <vector>

#include "partitioner/cuts/ties.h"

namespace kerf::partitioner {

// What a node may follow: the divisions of what comes before it, of one group's parts only. Borrows
// what it is made of.
class Following {
 public:
  Following(const Spaces& spaces, const Ties& ties, const std::vector<int>& group,
            const Division& division)
      : spaces_(spaces), ties_(ties), group_(group), division_(division) {}

  std::optional<ops::Layout> follow(NodeId node, size_t k) const;
  std::optional<ops::Layout> follow_stretches(NodeId node) const;
  std::optional<ops::Layout> follow_sums(NodeId node, size_t k) const;

 private:
  // The division of a producer, or that as which its partial sums are put together.
  std::optional<ops::Layout> put_together(NodeId producer, int output) const;
  // Of what input k's holders have of it, the iterations; nothing where it is elsewhere. A loss
  // of partial sums follows none: they are put together by whatever it is divided by.
  std::optional<ops::Layout> iterations_of_holders(NodeId node, size_t k) const;

  const Spaces& spaces_;
  const Ties& ties_;
  const std::vector<int>& group_;
  const Division& division_;
};

}  // namespace kerf::partitioner
