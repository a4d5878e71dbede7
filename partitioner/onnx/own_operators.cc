#include "partitioner/onnx/own_operators.h"

#include <set>

namespace kerf::partitioner::onnx {

bool is_own_operator(const std::string& op) {
  static const std::set<std::string> kOwn{"CenteredSquareSum",
                                          "ChannelStatistics",
                                          "ChannelSum",
                                          "FusedConv",
                                          "LogLoss",
                                          "PickLabel",
                                          "RecurrentCell",
                                          "RecurrentInputs",
                                          "RowNormalization",
                                          "RowSquareSum",
                                          "RowSum",
                                          "SegmentLogSumExp",
                                          "SegmentSoftmax",
                                          "SumLoss"};
  return kOwn.contains(op);
}

}  // namespace kerf::partitioner::onnx
