#include "schedmp/safetensors.h"

#include <algorithm>
#include <array>
#include <bit>
#include <numeric>

#include "runtime/error.h"

namespace kerf::schedmp {

static_assert(std::endian::native == std::endian::little, "safetensors are little-endian");

namespace {

constexpr size_t kMaxHeader = size_t{100} << 20;
constexpr const char* kMetadata = "__metadata__";

// In the order of ops::DType.
constexpr std::array<std::string_view, 13> kTypes{"F32", "F64", "F16", "BF16", "I32", "I64", "BOOL",
                                                  "I8",  "I16", "U8",  "U16",  "U32", "U64"};

std::string_view type_name(ops::DType dtype) { return kTypes.at(static_cast<size_t>(dtype)); }

ops::DType parse_type(const std::string& name, const std::string& where) {
  const auto found = std::ranges::find(kTypes, name);
  if (found == kTypes.end())
    throw Error(ErrorCode::kUsage,
                kerf::format("dtype {} is not one of {}", name, fmt::join(kTypes, ", ")), where);
  return static_cast<ops::DType>(found - kTypes.begin());
}

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

}  // namespace

// Nothing is read before it is known to be there.
SafetensorsReader::SafetensorsReader(const std::filesystem::path& path) : origin_(path.string()) {
  std::error_code none;
  if (!std::filesystem::is_regular_file(path, none)) refuse("is not a regular file");
  data_bytes_ = std::filesystem::file_size(path, none);
  file_.open(path, std::ios::binary);
  if (!file_) refuse("cannot be opened");
  const Json header = parse_json(read_header(), origin_);
  if (!header.is_object()) refuse("the header is no JSON object");
  for (const auto& [name, entry] : header.items()) {
    if (name == kMetadata) {
      read_metadata(entry);
      continue;
    }
    const std::string where = kerf::format("{}: {}", origin_, name);
    if (!entry.is_object()) throw Error(ErrorCode::kUsage, "no JSON object", where);
    const ops::ValueSpec spec{parse_type(json_string(entry, "dtype", where), where),
                              parse_shape(entry, where)};
    extents_.push_back(parse_extent(entry, where));
    const size_t bytes = extents_.back().end - extents_.back().begin;
    if (bytes != spec.bytes(0))
      throw Error(ErrorCode::kUsage,
                  kerf::format("{} bytes of data for a tensor of {}", bytes, spec.bytes(0)), where);
    numbers_.emplace(name, tensors_.size());
    tensors_.push_back({name, spec});
  }
  check_cover();
}

std::string SafetensorsReader::read_header() {
  uint64_t length = 0;
  if (data_bytes_ < sizeof length) refuse("too short to be a safetensors file");
  take(reinterpret_cast<char*>(&length), sizeof length);
  data_bytes_ -= sizeof length;
  if (length == 0) refuse("it has no header: no safetensors file");
  if (length > kMaxHeader || length > data_bytes_)
    refuse("the header is longer than the file: no safetensors file, or cut off");
  std::string header(length, '\0');
  take(header.data(), length);
  data_begin_ = sizeof length + length;
  data_bytes_ -= length;
  return header;
}

void SafetensorsReader::read_metadata(const Json& metadata) {
  if (!metadata.is_object()) refuse("its metadata is no JSON object");
  for (const auto& [key, text] : metadata.items()) {
    if (!text.is_string()) refuse(kerf::format("its metadata has no text for '{}'", key));
    metadata_[key] = text.get<std::string>();
  }
}

SafetensorsReader::Extent SafetensorsReader::parse_extent(const Json& entry,
                                                          const std::string& where) const {
  const Json& offsets = json_array(entry, "data_offsets", where);
  const auto is_offset = [](const Json& json) {
    return json.is_number_integer() && json.get<int64_t>() >= 0;
  };
  if (offsets.size() != 2 || !is_offset(offsets[0]) || !is_offset(offsets[1]))
    throw Error(ErrorCode::kUsage, "data_offsets must be two offsets", where);
  const Extent extent{offsets[0].get<size_t>(), offsets[1].get<size_t>()};
  if (extent.begin > extent.end || extent.end > data_bytes_)
    throw Error(ErrorCode::kUsage, "data_offsets lie outside the file", where);
  return extent;
}

// The extents must cover the data exactly: no hole, no overlap, nothing behind.
void SafetensorsReader::check_cover() const {
  std::vector<Extent> extents = extents_;
  std::ranges::sort(extents, {}, [](const Extent& e) { return std::pair(e.begin, e.end); });
  size_t at = 0;
  for (const Extent& extent : extents) {
    if (extent.begin != at) refuse(kerf::format("hole or overlap at data byte {}", at));
    at = extent.end;
  }
  if (at != data_bytes_) refuse(kerf::format("{} bytes behind the last tensor", data_bytes_ - at));
}

void SafetensorsReader::take(char* to, size_t bytes) {
  if (!file_.read(to, static_cast<std::streamsize>(bytes))) refuse("cannot be read");
}

void SafetensorsReader::refuse(const std::string& why) const {
  throw Error(ErrorCode::kUsage, why, origin_);
}

const ops::ValueSpec* SafetensorsReader::find(const std::string& name) const {
  const auto found = numbers_.find(name);
  return found == numbers_.end() ? nullptr : &tensors_[found->second].spec;
}

SafetensorsReader::Extent SafetensorsReader::extent_of(const std::string& name,
                                                       const ops::ValueSpec& spec) const {
  const auto found = numbers_.find(name);
  if (found == numbers_.end()) refuse(kerf::format("there is no tensor '{}'", name));
  const ops::ValueSpec& stored = tensors_[found->second].spec;
  if (stored.dtype != spec.dtype || !(stored.shape == spec.shape))
    refuse(kerf::format("'{}' is {} {}, expected {} {}", name, to_string(stored.dtype),
                        to_string(stored.shape), to_string(spec.dtype), to_string(spec.shape)));
  return extents_[found->second];
}

std::string SafetensorsReader::take(size_t begin, size_t end) {
  std::string bytes(end - begin, '\0');
  file_.seekg(static_cast<std::streamoff>(data_begin_ + begin));
  take(bytes.data(), bytes.size());
  return bytes;
}

std::string SafetensorsReader::read(const std::string& name, const ops::ValueSpec& spec) {
  const Extent extent = extent_of(name, spec);
  return take(extent.begin, extent.end);
}

std::string SafetensorsReader::read(const std::string& name, const ops::ValueSpec& spec,
                                    const RowRange& rows, int axis) {
  const Extent extent = extent_of(name, spec);
  const int rank = spec.shape.rank();
  const int64_t all = rank == 0 ? 1 : spec.shape[axis];
  KERF_CHECK(rows.first >= 0 && rows.count >= 0 && rows.count <= all - rows.first,
             "rows {} to {} of {}", rows.first, rows.first + rows.count, all);
  if (extent.begin == extent.end) return {};
  size_t row = ops::size_of(spec.dtype);
  for (int i = axis + 1; i < rank; ++i) row *= static_cast<size_t>(spec.shape[i]);
  const size_t step = static_cast<size_t>(all) * row;
  std::string bytes;
  bytes.reserve((extent.end - extent.begin) / step * static_cast<size_t>(rows.count) * row);
  for (size_t at = extent.begin; at < extent.end; at += step) {
    const size_t begin = at + static_cast<size_t>(rows.first) * row;
    bytes += take(begin, begin + static_cast<size_t>(rows.count) * row);
  }
  return bytes;
}

std::string SafetensorsReader::read_elements(const std::string& name, const ops::ValueSpec& spec,
                                             int64_t first, int64_t count) {
  const Extent extent = extent_of(name, spec);
  const size_t size = ops::size_of(spec.dtype);
  KERF_CHECK(first >= 0 && count >= 0 && count <= spec.shape.elements() - first,
             "elements {} to {} of {}", first, first + count, spec.shape.elements());
  const size_t begin = extent.begin + static_cast<size_t>(first) * size;
  return take(begin, begin + static_cast<size_t>(count) * size);
}

SafetensorsWriter::SafetensorsWriter(const std::filesystem::path& path,
                                     const std::vector<NamedSpec>& tensors,
                                     const std::map<std::string, std::string>& metadata)
    : file_(path) {
  Json header = Json::object();
  if (!metadata.empty()) header[kMetadata] = metadata;
  size_t at = 0;
  for (const auto& [name, spec] : tensors) {
    sizes_.push_back(spec.bytes(0));
    header[name] = {{"dtype", type_name(spec.dtype)},
                    {"shape", std::vector<int64_t>(spec.shape.begin(), spec.shape.end())},
                    {"data_offsets", {at, at + sizes_.back()}}};
    at += sizes_.back();
  }
  std::string text = json_text(header);
  text.resize((text.size() + 7) / 8 * 8, ' ');  // tensors stay aligned
  const uint64_t length = text.size();
  file_.write({reinterpret_cast<const char*>(&length), sizeof length});
  file_.write(text);
}

void SafetensorsWriter::write(std::string_view bytes) {
  if (bytes.empty()) return;
  while (next_ < sizes_.size() && written_ == sizes_[next_]) {
    ++next_;
    written_ = 0;
  }
  KERF_CHECK(next_ < sizes_.size() && bytes.size() <= sizes_[next_] - written_,
             "{} bytes more than a tensor has", bytes.size());
  file_.write(bytes);
  written_ += bytes.size();
}

void SafetensorsWriter::commit() {
  const size_t left =
      std::accumulate(sizes_.begin() + static_cast<ptrdiff_t>(next_), sizes_.end(), size_t{0}) -
      written_;
  KERF_CHECK(left == 0, "{} bytes were never written", left);
  file_.commit();
}

void write_safetensors(const std::filesystem::path& path, const std::vector<NamedTensor>& tensors,
                       const std::map<std::string, std::string>& metadata) {
  std::vector<NamedSpec> specs;
  for (const NamedTensor& tensor : tensors)
    specs.push_back({tensor.name, {tensor.dtype, tensor.shape}});
  SafetensorsWriter writer(path, specs, metadata);
  for (const NamedTensor& tensor : tensors) writer.write(tensor.bytes);
  writer.commit();
}

std::vector<NamedTensor> read_safetensors(const std::filesystem::path& path) {
  SafetensorsReader reader(path);
  std::vector<NamedTensor> tensors;
  for (const auto& [name, spec] : reader.tensors())
    tensors.push_back({name, spec.dtype, spec.shape, reader.read(name, spec)});
  return tensors;
}

}  // namespace kerf::schedmp
