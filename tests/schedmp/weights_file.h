// A file of all that a model keeps from step to step, with values that follow from their names.
#pragma once

#include <filesystem>

#include "schedmp/safetensors.h"
#include "tests/partitioner/step_data.h"

namespace kerf::schedmp {

inline void write_kept(const partitioner::Model& model, partitioner::Numbers numbers,
                       const std::filesystem::path& path) {
  std::vector<NamedTensor> file;
  for (const partitioner::ValueId id : model.kept_values()) {
    const partitioner::Value& value = model.value(id);
    if (value.literal != nullptr) continue;
    const auto bytes = partitioner::kept_data(value, numbers);
    file.push_back({value.name, value.spec.dtype, value.spec.shape,
                    std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size())});
  }
  write_safetensors(path, file);
}

}  // namespace kerf::schedmp
