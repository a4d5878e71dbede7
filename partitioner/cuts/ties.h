// Ties: what ties features together that another operator makes, so that they are to be divided
// alike. Attention ties the queries, keys and values of a head, which one product makes side by
// side; a convolution of groups ties the channels of a group:
//
//   c_attn [N, 3 d] -> Reshape -> Split -> q, k, v -> Attention, 8 heads over 4 parts:
//   part 0 makes columns 0-15, 64-79 and 128-143, all that heads 0 and 1 read
//
// What stands between the two only hands features on. A Ties borrows its Spaces.
#pragma once

#include <optional>
#include <vector>

#include "partitioner/cuts/features.h"

namespace kerf::partitioner {

class Ties {
 public:
  explicit Ties(const Spaces& spaces);

  // The node's features over the group, as what reads them wants them; nothing where nothing ties
  // them, or they are fewer than parts.
  std::optional<ops::Layout> division(NodeId node, const std::vector<int>& group,
                                      int64_t largest) const;

 private:
  std::optional<ops::Layout> as_read(NodeId node, const ops::Layout& reader, int64_t largest) const;

  const Spaces& spaces_;
  std::vector<NodeId> toward_;  // node -> the reader on the way to what ties, itself if it is that
};

}  // namespace kerf::partitioner
