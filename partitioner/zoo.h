// The built-in models.
//
//   mlp        fully connected: --sizes 784-512-512-10 (input, hidden ..., classes), ReLU between
//   lenet5     LeNet-5 (LeCun et al. 1998) with ReLU and max pooling, for 28x28 images
//   lenet5-bn  the same with a batch normalisation after each convolution (Ioffe, Szegedy 2015)
//   convnet    pairs of 3x3 convolutions and max pooling for 28x28 images: --sizes 32-64 (channels
//              of each pair)
//   lstm-lm    a language model: --sizes 16-32-32-64 (tokens in a row, vocabulary, embedding,
//              hidden units of the LSTM); a score of every token follows each
#pragma once

#include <string>
#include <vector>

#include "partitioner/model.h"

namespace kerf::partitioner {

struct ZooOptions {
  // Of mlp, convnet and lstm-lm; empty: 784-512-512-10, 32-64, 16-32-32-64.
  std::vector<int64_t> sizes;
};

// Throws Error{kUsage} that lists the models, or names the bad size.
Model make_zoo_model(const std::string& name, const ZooOptions& options = {});
std::vector<std::string> zoo_names();
// "784-512-10". Throws Error{kUsage}.
std::vector<int64_t> parse_sizes(const std::string& text);

}  // namespace kerf::partitioner
