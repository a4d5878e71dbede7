#include "partitioner/onnx/tensors.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include "ops/onnx_types.h"
#include "partitioner/onnx/known.h"

namespace kerf::partitioner::onnx {
namespace {

namespace fs = std::filesystem;
using ::onnx::TensorProto;
using ops::DType;

ops::Shape shape_of(const TensorProto& tensor, const std::string& where) {
  for (const int64_t extent : tensor.dims())
    if (extent < 0) refuse(format("an extent is {}", extent), where);
  try {
    const std::vector<int64_t> extents(tensor.dims().begin(), tensor.dims().end());
    elements_in(extents);
    return ops::Shape(extents);
  } catch (const Error& error) {
    refuse(error.message(), where);
  }
}

template <class To, class From>
void append(const From& values, std::string& bytes) {
  for (const auto value : values) {
    const auto narrow = static_cast<To>(value);
    bytes.append(reinterpret_cast<const char*>(&narrow), sizeof(To));
  }
}

// Of the typed fields, each of which stands for several types.
std::string typed_bytes(const TensorProto& tensor, DType dtype) {
  std::string bytes;
  switch (dtype) {
    case DType::kFloat32:
      append<float>(tensor.float_data(), bytes);
      break;
    case DType::kFloat64:
      append<double>(tensor.double_data(), bytes);
      break;
    case DType::kInt64:
      append<int64_t>(tensor.int64_data(), bytes);
      break;
    case DType::kUint32:
      append<uint32_t>(tensor.uint64_data(), bytes);
      break;
    case DType::kUint64:
      append<uint64_t>(tensor.uint64_data(), bytes);
      break;
    case DType::kInt32:
      append<int32_t>(tensor.int32_data(), bytes);
      break;
    case DType::kFloat16:
    case DType::kBFloat16:
    case DType::kInt16:
    case DType::kUint16:
      append<uint16_t>(tensor.int32_data(), bytes);
      break;
    case DType::kBool:
      for (const int32_t value : tensor.int32_data()) bytes += static_cast<char>(value != 0);
      break;
    case DType::kInt8:
    case DType::kUint8:
      append<uint8_t>(tensor.int32_data(), bytes);
      break;
  }
  return bytes;
}

uint64_t number_of(const std::string& text, const std::string& key, const std::string& where) {
  uint64_t number = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (fault != std::errc() || end != text.data() + text.size())
    refuse(format("external data's {} is \"{}\", which is no number", key, text), where);
  return number;
}

std::shared_ptr<const Contents> external_contents(const TensorProto& tensor, DType dtype,
                                                  uint64_t bytes, WeightFiles& files,
                                                  const std::string& where) {
  std::string location;
  uint64_t first = 0;
  uint64_t count = bytes;
  for (const auto& entry : tensor.external_data()) {
    if (entry.key() == "location") location = entry.value();
    if (entry.key() == "offset") first = number_of(entry.value(), entry.key(), where);
    if (entry.key() == "length") count = number_of(entry.value(), entry.key(), where);
  }
  const auto file = files.external(location, where);
  if (count != bytes)
    refuse(format("its external data have {} bytes, but its shape takes {}", count, bytes), where);
  if (first > file->bytes() || count > file->bytes() - first)
    refuse(format("its external data are bytes {} to {} of {}, which has {}", first, first + count,
                  file->origin(), file->bytes()),
           where);
  files.claim(*file, count);
  return contents_in(file, first, dtype);
}

// Whether `path` lies in the folder; both without links.
bool is_within(const fs::path& path, const fs::path& folder) {
  const auto [end, differs] = std::mismatch(folder.begin(), folder.end(), path.begin(), path.end());
  return end == folder.end() && differs != path.end();
}

}  // namespace

WeightFiles::WeightFiles(const fs::path& model) : model_(std::make_shared<WeightFile>(model)) {
  std::error_code unknown;
  const fs::path given = fs::absolute(model);
  for (const fs::path& folder :
       {fs::canonical(given.parent_path(), unknown), fs::canonical(given, unknown).parent_path()})
    // Without one, as of a file that has no name any more, nothing lies within.
    if (!folder.empty() && std::find(folders_.begin(), folders_.end(), folder) == folders_.end())
      folders_.push_back(folder);
}

std::shared_ptr<const WeightFile> WeightFiles::external(const std::string& location,
                                                        const std::string& where) {
  const auto known = external_.find(location);
  if (known != external_.end()) return known->second;
  const fs::path wanted(location);
  if (location.empty() || location.find('\0') != std::string::npos || wanted.is_absolute())
    refuse(format("its external data must be a path within the model's folder, and not \"{}\"",
                  location),
           where);
  bool any = false;
  for (const fs::path& folder : folders_) {
    std::error_code absent;
    const fs::path path = fs::canonical(folder / wanted, absent);
    any = any || !absent;
    const bool within =
        !absent && std::any_of(folders_.begin(), folders_.end(),
                               [&](const auto& each) { return is_within(path, each); });
    if (!within) continue;
    const auto keep =
        external_.size() < kMostOpen ? WeightFile::Keep::kOpen : WeightFile::Keep::kPath;
    return external_.emplace(location, std::make_shared<WeightFile>(path, keep)).first->second;
  }
  if (!any)
    refuse(format("its external data are not there: {}; put the file beside the model", location),
           where);
  refuse(format("external data at \"{}\" lie outside the model's folder", location), where);
}

void WeightFiles::claim(const WeightFile& file, uint64_t bytes) {
  Claimed& claimed = claimed_[file.which()];
  claimed.most = file.bytes_on_disk();
  if (__builtin_add_overflow(claimed.bytes, bytes, &claimed.bytes)) claimed.bytes = claimed.most;
  claimed.bytes = std::min(claimed.bytes, claimed.most);
}

uint64_t WeightFiles::stored_bytes() const {
  uint64_t bytes = 0;
  for (const auto& [which, claimed] : claimed_) bytes += claimed.bytes;
  return bytes;
}

std::string type_name(int32_t onnx_type) {
  if (TensorProto::DataType_IsValid(onnx_type))
    return TensorProto::DataType_Name(static_cast<TensorProto::DataType>(onnx_type));
  return format("number {}", onnx_type);
}

Stored stored_tensor(const TensorProto& tensor, const RawBytes* raw, WeightFiles& files,
                     const std::string& where) {
  const auto dtype = ops::dtype_of_onnx(tensor.data_type());
  if (!dtype)
    refuse(format("its element type {} is not known here", type_name(tensor.data_type())), where);
  if (tensor.has_segment()) refuse("it is a segment of a tensor; save it whole", where);
  const ops::Shape shape = shape_of(tensor, where);
  Stored stored{tensor.name(), {given_as(*dtype), shape}, *dtype, nullptr};
  const uint64_t bytes = ops::ValueSpec{*dtype, shape}.bytes(0);
  if (tensor.data_location() == TensorProto::EXTERNAL) {
    stored.contents = external_contents(tensor, *dtype, bytes, files, where);
    return stored;
  }
  std::string held;
  if (raw == nullptr)
    held = tensor.has_raw_data() ? tensor.raw_data() : typed_bytes(tensor, *dtype);
  const uint64_t has = raw == nullptr ? held.size() : raw->count;
  if (has != bytes)
    refuse(format("it has {} bytes of data, but a tensor {} of {} takes {}", has,
                  ops::to_string(shape), ops::to_string(*dtype), bytes),
           where);
  files.claim(*files.model(), bytes);
  stored.contents = raw == nullptr ? contents_of(std::move(held), *dtype)
                                   : contents_in(files.model(), raw->first, *dtype);
  return stored;
}

}  // namespace kerf::partitioner::onnx
