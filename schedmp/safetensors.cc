#include "schedmp/safetensors.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "runtime/error.h"
#include "runtime/file.h"
#include "runtime/json.h"

namespace kerf::schedmp {

static_assert(std::endian::native == std::endian::little, "safetensors are little-endian");

namespace {

constexpr size_t kMaxHeader = size_t{100} << 20;
constexpr size_t kMaxFile = size_t{1} << 40;

std::string dtype_name(ops::DType dtype) { return dtype == ops::DType::kFloat32 ? "F32" : "I64"; }

ops::DType parse_dtype(const std::string& name, const std::string& where) {
  if (name == "F32") return ops::DType::kFloat32;
  if (name == "I64") return ops::DType::kInt64;
  throw Error(ErrorCode::kUsage, kerf::format("dtype {} is not one of F32, I64", name), where);
}

// Where a tensor's bytes lie behind the header.
struct Extent {
  size_t begin = 0;
  size_t end = 0;
};

ops::Shape parse_shape(const Json& entry, const std::string& where) {
  const Json& extents = json_array(entry, "shape", where);
  if (extents.size() > ops::Shape::kMaxRank)
    throw Error(ErrorCode::kUsage,
                kerf::format("{} axes, at most {} are known", extents.size(), ops::Shape::kMaxRank),
                where);
  std::vector<int64_t> shape;
  int64_t elements = 1;
  for (const Json& extent : extents) {
    if (!extent.is_number_integer() || extent.get<int64_t>() < 0 ||
        extent.get<int64_t>() > (int64_t{1} << 40))
      throw Error(ErrorCode::kUsage, "shape must hold sizes", where);
    shape.push_back(extent.get<int64_t>());
    if (__builtin_mul_overflow(elements, shape.back(), &elements) || elements > (int64_t{1} << 40))
      throw Error(ErrorCode::kUsage, "shape is too large", where);
  }
  return ops::Shape(std::span<const int64_t>(shape));
}

Extent parse_extent(const Json& entry, size_t data_bytes, const std::string& where) {
  const Json& offsets = json_array(entry, "data_offsets", where);
  const auto is_offset = [](const Json& json) {
    return json.is_number_integer() && json.get<int64_t>() >= 0;
  };
  if (offsets.size() != 2 || !is_offset(offsets[0]) || !is_offset(offsets[1]))
    throw Error(ErrorCode::kUsage, "data_offsets must be two offsets", where);
  const Extent extent{offsets[0].get<size_t>(), offsets[1].get<size_t>()};
  if (extent.begin > extent.end || extent.end > data_bytes)
    throw Error(ErrorCode::kUsage, "data_offsets lie outside the file", where);
  return extent;
}

// The ranges must cover the data exactly: no hole, no overlap, nothing behind.
void check_cover(std::vector<Extent> extents, size_t data_bytes, const std::string& origin) {
  std::sort(extents.begin(), extents.end(), [](const Extent& a, const Extent& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  size_t at = 0;
  for (const Extent& extent : extents) {
    if (extent.begin != at)
      throw Error(ErrorCode::kUsage, kerf::format("hole or overlap at data byte {}", at), origin);
    at = extent.end;
  }
  if (at != data_bytes)
    throw Error(ErrorCode::kUsage, kerf::format("{} bytes behind the last tensor", data_bytes - at),
                origin);
}

}  // namespace

void write_safetensors(const std::filesystem::path& path, const std::vector<NamedTensor>& tensors,
                       const std::map<std::string, std::string>& metadata) {
  Json header = Json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  size_t at = 0;
  for (const NamedTensor& tensor : tensors) {
    header[tensor.name] = {
        {"dtype", dtype_name(tensor.dtype)},
        {"shape", std::vector<int64_t>(tensor.shape.begin(), tensor.shape.end())},
        {"data_offsets", {at, at + tensor.bytes.size()}}};
    at += tensor.bytes.size();
  }
  std::string text = json_text(header);
  text.resize((text.size() + 7) / 8 * 8, ' ');  // tensors stay aligned
  const uint64_t length = text.size();
  std::string file(reinterpret_cast<const char*>(&length), sizeof length);
  file.reserve(file.size() + text.size() + at);
  file += text;
  for (const NamedTensor& tensor : tensors) file += tensor.bytes;
  runtime::write_file_atomic(path, file);
}

std::vector<NamedTensor> read_safetensors(const std::filesystem::path& path) {
  const std::string origin = path.string();
  const std::string file = runtime::read_file(path, kMaxFile);
  uint64_t length = 0;
  if (file.size() < sizeof length)
    throw Error(ErrorCode::kUsage, "too short to be a safetensors file", origin);
  std::memcpy(&length, file.data(), sizeof length);
  if (length > kMaxHeader || length > file.size() - sizeof length)
    throw Error(ErrorCode::kUsage,
                "the header is longer than the file: no safetensors file, or cut off", origin);
  const std::string_view text = std::string_view(file).substr(sizeof length, length);
  const std::string_view data = std::string_view(file).substr(sizeof length + length);
  const Json header = parse_json(text, origin);
  if (!header.is_object()) throw Error(ErrorCode::kUsage, "the header is no JSON object", origin);

  std::vector<NamedTensor> tensors;
  std::vector<Extent> extents;
  for (const auto& [name, entry] : header.items()) {
    if (name == "__metadata__") continue;
    const std::string where = kerf::format("{}: {}", origin, name);
    if (!entry.is_object()) throw Error(ErrorCode::kUsage, "no JSON object", where);
    NamedTensor tensor{name,
                       parse_dtype(json_string(entry, "dtype", where), where),
                       parse_shape(entry, where),
                       {}};
    const Extent extent = parse_extent(entry, data.size(), where);
    const size_t bytes = static_cast<size_t>(tensor.shape.elements()) * ops::size_of(tensor.dtype);
    if (extent.end - extent.begin != bytes)
      throw Error(
          ErrorCode::kUsage,
          kerf::format("{} bytes of data for a tensor of {}", extent.end - extent.begin, bytes),
          where);
    tensor.bytes = data.substr(extent.begin, bytes);
    extents.push_back(extent);
    tensors.push_back(std::move(tensor));
  }
  check_cover(extents, data.size(), origin);
  return tensors;
}

const NamedTensor& find_tensor(const std::vector<NamedTensor>& tensors, const std::string& name,
                               const ops::ValueSpec& spec, const std::filesystem::path& file) {
  const auto found = std::ranges::find(tensors, name, &NamedTensor::name);
  if (found == tensors.end())
    throw Error(ErrorCode::kUsage, kerf::format("there is no tensor '{}'", name), file.string());
  if (found->dtype != spec.dtype || !(found->shape == spec.shape))
    throw Error(ErrorCode::kUsage,
                kerf::format("'{}' is {} {}, expected {} {}", name, to_string(found->dtype),
                             to_string(found->shape), to_string(spec.dtype), to_string(spec.shape)),
                file.string());
  return *found;
}

}  // namespace kerf::schedmp
