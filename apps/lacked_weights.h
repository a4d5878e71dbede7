// What a file of weights lacks of a model's, or has in other shapes. Pure functions of files.
#pragma once

#include <string>
#include <vector>

#include "partitioner/model.h"
#include "partitioner/onnx/import.h"
#include "schedmp/safetensors.h"

namespace kerf::apps {

inline constexpr int64_t kNumbersAtOnce = int64_t{1} << 18;  // of a tensor, that are in memory

// Whether the first `count` numbers of a file's tensor are those of `contents`, which are of
// `spec`, of whose element type the tensor is or reads as.
bool has_numbers_of(schedmp::SafetensorsReader& file, const schedmp::NamedSpec& tensor,
                    const ops::ValueSpec& spec, const partitioner::Contents& contents,
                    int64_t count);

// Throws Error{kUsage} that names the file and what it lacks of the model's, or of the parameters
// that what the model has instead was computed of; and tensors of other shapes. It may lack what is
// no weight: what may be one (partitioner::Value::derived) is none where each of `unread`, tensors
// of the file that nothing reads, begins with such numbers of the model's, or there are none.
// Gives notes of what stays as the model has it, where nothing but that says that it is no weight,
// and of what is float16, bfloat16 or float64 there.
std::vector<std::string> check_lacked(const partitioner::Model& model,
                                      const partitioner::onnx::FoldedWeights& folded,
                                      const std::vector<schedmp::NamedSpec>& unread,
                                      const std::string& weights);

}  // namespace kerf::apps
