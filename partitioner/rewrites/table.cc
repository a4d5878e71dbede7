// The table of rewrites. What lists or tries rewrites iterates it.
#include <array>

#include "partitioner/rewrite.h"

namespace kerf::partitioner {

std::span<const RewriteRow> rewrites() {
  static const std::array kRewrites = {
      split_cross_entropy(), split_layer_norm(),  split_rms_norm(),
      split_softmax(),       split_log_softmax(), sync_batch_norm(),
      unroll_lstm(),         unroll_gru(),        unroll_rnn()};
  return kRewrites;
}

}  // namespace kerf::partitioner
