#include "schedmp/safetensors.h"

#include <algorithm>
#include <bit>
#include <fstream>

#include "runtime/error.h"
#include "runtime/file.h"
#include "runtime/json.h"

namespace kerf::schedmp {

static_assert(std::endian::native == std::endian::little, "safetensors are little-endian");

namespace {

constexpr size_t kMaxHeader = size_t{100} << 20;

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

// Nothing is read before it is known to be there.
class Reader {
 public:
  explicit Reader(const std::filesystem::path& path) : origin_(path.string()) {
    std::error_code none;
    if (!std::filesystem::is_regular_file(path, none)) refuse("is not a regular file");
    size_ = std::filesystem::file_size(path, none);
    file_.open(path, std::ios::binary);
    if (!file_) refuse("cannot be opened");
    uint64_t length = 0;
    if (size_ < sizeof length) refuse("too short to be a safetensors file");
    take(reinterpret_cast<char*>(&length), sizeof length);
    if (length == 0) refuse("it has no header: no safetensors file");
    if (length > kMaxHeader || length > size_ - sizeof length)
      refuse("the header is longer than the file: no safetensors file, or cut off");
    header_.resize(length);
    take(header_.data(), length);
  }

  const std::string& origin() const { return origin_; }
  const std::string& header() const { return header_; }
  size_t data_bytes() const { return size_ - sizeof(uint64_t) - header_.size(); }
  std::string data(const Extent& extent) {
    std::string bytes(extent.end - extent.begin, '\0');
    file_.seekg(static_cast<std::streamoff>(size_ - data_bytes() + extent.begin));
    take(bytes.data(), bytes.size());
    return bytes;
  }

 private:
  [[noreturn]] void refuse(const char* why) const { throw Error(ErrorCode::kUsage, why, origin_); }
  void take(char* to, size_t bytes) {
    if (!file_.read(to, static_cast<std::streamsize>(bytes))) refuse("cannot be read");
  }

  std::string origin_;
  std::ifstream file_;
  size_t size_ = 0;
  std::string header_;
};

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
  runtime::AtomicFile file(path);
  file.write({reinterpret_cast<const char*>(&length), sizeof length});
  file.write(text);
  for (const NamedTensor& tensor : tensors) file.write(tensor.bytes);
  file.commit();
}

std::vector<NamedTensor> read_safetensors(const std::filesystem::path& path) {
  Reader reader(path);
  const std::string& origin = reader.origin();
  const Json header = parse_json(reader.header(), origin);
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
    const Extent extent = parse_extent(entry, reader.data_bytes(), where);
    const size_t bytes = static_cast<size_t>(tensor.shape.elements()) * ops::size_of(tensor.dtype);
    if (extent.end - extent.begin != bytes)
      throw Error(
          ErrorCode::kUsage,
          kerf::format("{} bytes of data for a tensor of {}", extent.end - extent.begin, bytes),
          where);
    extents.push_back(extent);
    tensors.push_back(std::move(tensor));
  }
  check_cover(extents, reader.data_bytes(), origin);
  for (size_t i = 0; i < tensors.size(); ++i) tensors[i].bytes = reader.data(extents[i]);
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
