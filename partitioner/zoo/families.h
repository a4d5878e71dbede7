// The families of built-in models, one file each: what the table in table.cc names. `name` says
// which of a family.
#pragma once

#include <string>

#include "partitioner/zoo.h"

namespace kerf::partitioner {

// Large enough for anything that fits a machine, small enough that no product of two overflows.
inline constexpr int64_t kMostUnits = int64_t{1} << 24;
inline constexpr int64_t kMostPixels = int64_t{1} << 14;  // in a row
inline constexpr int64_t kMostLayers = 4096;

Model make_mlp(const std::string& name, const ZooOptions& options);
Model make_lenet5(const std::string& name, const ZooOptions& options);
Model make_convnet(const std::string& name, const ZooOptions& options);
Model make_alexnet(const std::string& name, const ZooOptions& options);
Model make_bvlc_alexnet(const std::string& name, const ZooOptions& options);
Model make_vgg(const std::string& name, const ZooOptions& options);
Model make_inception_v1(const std::string& name, const ZooOptions& options);
Model make_inception_v3(const std::string& name, const ZooOptions& options);
Model make_resnet(const std::string& name, const ZooOptions& options);
Model make_densenet(const std::string& name, const ZooOptions& options);
Model make_squeezenet(const std::string& name, const ZooOptions& options);
Model make_shufflenet(const std::string& name, const ZooOptions& options);
Model make_lstm_lm(const std::string& name, const ZooOptions& options);
Model make_seq2seq(const std::string& name, const ZooOptions& options);
Model make_gpt(const std::string& name, const ZooOptions& options);
Model make_vit(const std::string& name, const ZooOptions& options);

// The sizes asked for, or `otherwise`. Throws Error{kUsage} that says what `help` says unless there
// are as many, each within kMostUnits.
std::vector<int64_t> sizes_or(const ZooOptions& options, std::vector<int64_t> otherwise,
                              const std::string& name);
// Throws Error{kUsage} for more than kMostLayers, which would fill the memory.
void check_layers(int64_t layers, const std::string& name);

// So many channels, features or hidden units as `width` times those make: a multiple of `unit`, and
// one at least.
int64_t scaled_units(double width, int64_t units, int64_t unit = 1);

}  // namespace kerf::partitioner
