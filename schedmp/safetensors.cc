#include "schedmp/safetensors.h"

#include <algorithm>
#include <array>
#include <bit>
#include <numeric>
#include <set>

#include "ops/as_float32.h"
#include "runtime/error.h"

namespace kerf::schedmp {

static_assert(std::endian::native == std::endian::little, "safetensors are little-endian");

namespace {

constexpr size_t kMaxHeader = size_t{100} << 20;
constexpr size_t kShortGap = size_t{4} << 10;  // bytes that are read with what is around them
constexpr size_t kStretch = size_t{1} << 20;   // bytes, about, that are read so at once
constexpr const char* kMetadata = "__metadata__";

// In the order of ops::DType.
constexpr std::array<std::string_view, 13> kTypes{"F32", "F64", "F16", "BF16", "I32", "I64", "BOOL",
                                                  "I8",  "I16", "U8",  "U16",  "U32", "U64"};

std::string_view type_name(ops::DType dtype) { return kTypes.at(static_cast<size_t>(dtype)); }

constexpr const char* kSaveAnew = "save it anew, as safetensors.torch.save_file does";

[[noreturn]] void refuse_entry(const std::string& why, const std::string& where) {
  throw Error(ErrorCode::kUsage, kerf::format("{}; {}", why, kSaveAnew), where);
}

ops::Shape parse_shape(const Json& extents, const std::string& where) {
  std::vector<int64_t> shape;
  int64_t elements = 1;
  for (const Json& extent : extents) {
    if (!extent.is_number_integer() || extent.get<int64_t>() < 0 ||
        extent.get<int64_t>() > (int64_t{1} << 40))
      refuse_entry("shape must hold sizes", where);
    shape.push_back(extent.get<int64_t>());
    if (__builtin_mul_overflow(elements, shape.back(), &elements) || elements > (int64_t{1} << 40))
      refuse_entry("shape is too large", where);
  }
  return ops::Shape(std::span<const int64_t>(shape));
}

// Why the tensor cannot be read; empty: it can.
std::string unreadable_for(const std::string& dtype, size_t axes) {
  if (std::ranges::find(kTypes, dtype) == kTypes.end())
    return kerf::format("dtype {} is not one of {}: save it as one of those", dtype,
                        fmt::join(kTypes, ", "));
  if (axes > ops::Shape::kMaxRank)
    return kerf::format("{} axes, at most {} are known", axes, ops::Shape::kMaxRank);
  return {};
}

// Stored bytes as who asked for them wants them.
std::string given(std::string bytes, ops::DType stored, ops::DType wanted) {
  if (stored == wanted) return bytes;
  std::string converted(bytes.size() / ops::size_of(stored) * ops::size_of(wanted), '\0');
  ops::as_float32(stored, std::as_bytes(std::span(bytes)),
                  std::as_writable_bytes(std::span(converted)));
  return converted;
}

}  // namespace

bool reads_as(const ops::ValueSpec& stored, const ops::ValueSpec& wanted) {
  return stored.shape == wanted.shape &&
         (stored.dtype == wanted.dtype ||
          (wanted.dtype == ops::DType::kFloat32 && ops::is_floating(stored.dtype)));
}

// Nothing is read before it is known to be there.
SafetensorsReader::SafetensorsReader(std::unique_ptr<runtime::ReadableFile> file)
    : file_(std::move(file)), origin_(file_->origin()), data_bytes_(file_->bytes()) {
  const Json header = parse_json(read_header(), origin_);
  if (!header.is_object()) refuse("the header is no JSON object");
  for (const auto& [name, entry] : header.items())
    name == kMetadata ? read_metadata(entry) : read_entry(name, entry);
  check_cover();
}

void SafetensorsReader::read_entry(const std::string& name, const Json& entry) {
  const std::string where = kerf::format("{}: {}", origin_, name);
  if (!entry.is_object()) throw Error(ErrorCode::kUsage, "no JSON object", where);
  const std::string dtype = json_string(entry, "dtype", where);
  const Json& extents = json_array(entry, "shape", where);
  const Extent extent = parse_extent(entry, where);
  if (std::string why = unreadable_for(dtype, extents.size()); !why.empty()) {
    unreadable_.emplace(name, std::move(why));
    others_.push_back(extent);
    return;
  }
  const auto type = static_cast<ops::DType>(std::ranges::find(kTypes, dtype) - kTypes.begin());
  const ops::ValueSpec spec{type, parse_shape(extents, where)};
  if (extent.end - extent.begin != spec.bytes(0))
    refuse_entry(kerf::format("{} bytes of data for a tensor of {}", extent.end - extent.begin,
                              spec.bytes(0)),
                 where);
  extents_.push_back(extent);
  numbers_.emplace(name, tensors_.size());
  tensors_.push_back({name, spec});
}

void SafetensorsReader::open_again(std::unique_ptr<runtime::ReadableFile> file) {
  if (file->bytes() != data_begin_ + data_bytes_)
    refuse("it became another file while it was in use: write what is new elsewhere");
  file_ = std::move(file);
}

std::string SafetensorsReader::read_header() {
  uint64_t length = 0;
  if (data_bytes_ < sizeof length) refuse("too short to be a safetensors file");
  take(0, {reinterpret_cast<char*>(&length), sizeof length});
  data_bytes_ -= sizeof length;
  if (length == 0) refuse("it has no header: no safetensors file");
  if (length > kMaxHeader || length > data_bytes_)
    refuse("the header is longer than the file: no safetensors file, or cut off");
  std::string header(length, '\0');
  take(sizeof length, header);
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
    refuse_entry("data_offsets must be two offsets", where);
  const Extent extent{offsets[0].get<size_t>(), offsets[1].get<size_t>()};
  if (extent.begin > extent.end || extent.end > data_bytes_)
    refuse_entry("data_offsets lie outside the file", where);
  return extent;
}

// The extents must cover the data exactly: no hole, no overlap, nothing behind.
void SafetensorsReader::check_cover() const {
  std::vector<Extent> extents = extents_;
  extents.insert(extents.end(), others_.begin(), others_.end());
  std::ranges::sort(extents, {}, [](const Extent& e) { return std::pair(e.begin, e.end); });
  size_t at = 0;
  for (const Extent& extent : extents) {
    if (extent.begin != at) refuse(kerf::format("hole or overlap at data byte {}", at));
    at = extent.end;
  }
  if (at != data_bytes_) refuse(kerf::format("{} bytes behind the last tensor", data_bytes_ - at));
}

void SafetensorsReader::take(size_t begin, std::span<char> to) const {
  KERF_CHECK(file_ != nullptr, "{} is closed", origin_);
  file_->read(begin, std::as_writable_bytes(to), ErrorCode::kUsage);
}

void SafetensorsReader::refuse(const std::string& why) const {
  throw Error(ErrorCode::kUsage, why, origin_);
}

const ops::ValueSpec* SafetensorsReader::find(const std::string& name) const {
  const auto found = numbers_.find(name);
  return found == numbers_.end() ? nullptr : &tensors_[found->second].spec;
}

std::pair<SafetensorsReader::Extent, ops::DType> SafetensorsReader::stored_as(
    const std::string& name, const ops::ValueSpec& spec) const {
  const auto found = numbers_.find(name);
  if (const auto why = unreadable_.find(name); why != unreadable_.end())
    refuse(kerf::format("'{}': {}", name, why->second));
  if (found == numbers_.end()) refuse(kerf::format("there is no tensor '{}'", name));
  const ops::ValueSpec& stored = tensors_[found->second].spec;
  if (!reads_as(stored, spec))
    refuse(kerf::format("'{}' is {} {}, expected {} {}", name, to_string(stored.dtype),
                        to_string(stored.shape), to_string(spec.dtype), to_string(spec.shape)));
  return {extents_[found->second], stored.dtype};
}

std::string SafetensorsReader::take(size_t begin, size_t end) const {
  std::string bytes(end - begin, '\0');
  take(data_begin_ + begin, bytes);
  return bytes;
}

// Of every `step` bytes `count` from `first` on. What is left out between two of them is read with
// them where that is less than it takes to ask anew.
std::string SafetensorsReader::take_of_steps(const Extent& extent, size_t step, size_t first,
                                             size_t count) const {
  const bool at_once = step - count < kShortGap;
  const size_t stretch = at_once ? std::max(step, kStretch / step * step) : step;
  std::string bytes;
  bytes.reserve((extent.end - extent.begin) / step * count);
  for (size_t at = extent.begin; at < extent.end; at += stretch) {
    if (!at_once) {
      bytes += take(at + first, at + first + count);
      continue;
    }
    const std::string steps = take(at, std::min(at + stretch, extent.end));
    for (size_t i = 0; i < steps.size(); i += step) bytes.append(steps, i + first, count);
  }
  return bytes;
}

std::string SafetensorsReader::read(const std::string& name, const ops::ValueSpec& spec) {
  const auto [extent, stored] = stored_as(name, spec);
  return given(take(extent.begin, extent.end), stored, spec.dtype);
}

std::string SafetensorsReader::read(const std::string& name, const ops::ValueSpec& spec,
                                    const RowRange& rows, int axis) {
  const auto [extent, stored] = stored_as(name, spec);
  const int rank = spec.shape.rank();
  const int64_t all = rank == 0 ? 1 : spec.shape[axis];
  KERF_CHECK(rows.first >= 0 && rows.count >= 0 && rows.count <= all - rows.first,
             "rows {} to {} of {}", rows.first, rows.first + rows.count, all);
  if (extent.begin == extent.end || rows.count == 0) return {};
  size_t row = ops::size_of(stored);
  for (int i = axis + 1; i < rank; ++i) row *= static_cast<size_t>(spec.shape[i]);
  return given(
      take_of_steps(extent, static_cast<size_t>(all) * row, static_cast<size_t>(rows.first) * row,
                    static_cast<size_t>(rows.count) * row),
      stored, spec.dtype);
}

std::string SafetensorsReader::read_elements(const std::string& name, const ops::ValueSpec& spec,
                                             int64_t first, int64_t count) {
  const auto [extent, stored] = stored_as(name, spec);
  const size_t size = ops::size_of(stored);
  KERF_CHECK(first >= 0 && count >= 0 && count <= spec.shape.elements() - first,
             "elements {} to {} of {}", first, first + count, spec.shape.elements());
  const size_t begin = extent.begin + static_cast<size_t>(first) * size;
  return given(take(begin, begin + static_cast<size_t>(count) * size), stored, spec.dtype);
}

SafetensorsStream::SafetensorsStream(ByteSink sink, const std::vector<NamedSpec>& tensors,
                                     const std::map<std::string, std::string>& metadata)
    : sink_(std::move(sink)) {
  Json header = Json::object();
  if (!metadata.empty()) header[kMetadata] = metadata;
  std::set<std::string_view> names{kMetadata};
  size_t at = 0;
  for (const auto& [name, spec] : tensors) {
    KERF_CHECK(names.insert(name).second, "two tensors are called {}", name);
    sizes_.push_back(spec.bytes(0));
    // Not by header[name], which looks at all that are there.
    header.get_ref<Json::object_t&>().emplace_back(
        name, Json{{"dtype", type_name(spec.dtype)},
                   {"shape", std::vector<int64_t>(spec.shape.begin(), spec.shape.end())},
                   {"data_offsets", {at, at + sizes_.back()}}});
    at += sizes_.back();
  }
  std::string text = json_text(header);
  text.resize((text.size() + 7) / 8 * 8, ' ');  // tensors stay aligned
  const uint64_t length = text.size();
  sink_({reinterpret_cast<const char*>(&length), sizeof length});
  sink_(text);
}

void SafetensorsStream::write(std::string_view bytes) {
  if (bytes.empty()) return;
  while (next_ < sizes_.size() && written_ == sizes_[next_]) {
    ++next_;
    written_ = 0;
  }
  KERF_CHECK(next_ < sizes_.size() && bytes.size() <= sizes_[next_] - written_,
             "{} bytes more than a tensor has", bytes.size());
  sink_(bytes);
  written_ += bytes.size();
}

void SafetensorsStream::finish() const {
  const size_t left =
      std::accumulate(sizes_.begin() + static_cast<ptrdiff_t>(next_), sizes_.end(), size_t{0}) -
      written_;
  KERF_CHECK(left == 0, "{} bytes were never written", left);
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
  for (const auto& [name, why] : reader.unreadable())
    throw Error(ErrorCode::kUsage, why, kerf::format("{}: {}", reader.origin(), name));
  std::vector<NamedTensor> tensors;
  for (const auto& [name, spec] : reader.tensors())
    tensors.push_back({name, spec.dtype, spec.shape, reader.read(name, spec)});
  return tensors;
}

}  // namespace kerf::schedmp
