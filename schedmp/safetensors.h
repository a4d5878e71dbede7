// safetensors files: 8 bytes of little-endian header length, a JSON header, raw tensors.
//
// Reading is strict: duplicate names, holes, overlaps, wrong sizes and trailing bytes are refused
// with an error that names the file and the tensor.
#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "ops/tensor.h"

namespace kerf::schedmp {

struct NamedTensor {
  std::string name;
  ops::DType dtype = ops::DType::kFloat32;
  ops::Shape shape;
  std::string bytes;

  const std::byte* data() const { return reinterpret_cast<const std::byte*>(bytes.data()); }
};

// Atomic. `metadata` values are strings, as the format demands.
void write_safetensors(const std::filesystem::path& path, const std::vector<NamedTensor>& tensors,
                       const std::map<std::string, std::string>& metadata = {});
std::vector<NamedTensor> read_safetensors(const std::filesystem::path& path);
// The one called `name`. Throws Error{kUsage} naming `file` if there is none or it is not of `spec`.
const NamedTensor& find_tensor(const std::vector<NamedTensor>& tensors, const std::string& name,
                               const ops::ValueSpec& spec, const std::filesystem::path& file);

}  // namespace kerf::schedmp
