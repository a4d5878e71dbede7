// What PyTorch's newer exporter says beside a graph of the program that it is of: the signature of
// the program, and of each node the call that it is a part of. Pure functions of texts, from
// anybody.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "partitioner/onnx/graph.h"

namespace kerf::partitioner::onnx {

// By what calls name it ("p_encoder_norm_weight"), the place of a parameter or buffer in a list.
using TorchPlaces = std::map<std::string, size_t>;

// Of "# inputs\np_norm_weight: PARAMETER target='norm.weight'\n..."; appends to `tensors`.
TorchPlaces read_signature(const std::string& text, std::vector<TorchTensor>& tensors);

// What "%linear_2 : ... = call_function[...](args = (%x, %p_norm_weight), kwargs = {})" is called,
// and what of `places` it reads, in its order.
struct TorchCall {
  std::string name;
  std::vector<size_t> reads;
};
TorchCall read_call(const std::string& text, const TorchPlaces& places);

// The texts of "['norm.weight', 'val_3']".
std::vector<std::string> read_list(const std::string& text);

}  // namespace kerf::partitioner::onnx
