#include "partitioner/onnx/data_beside.h"

#include "runtime/format.h"

namespace kerf::partitioner::onnx {
namespace {

constexpr uint64_t kAlignment = 4096;  // so that readers may map a tensor's pages

std::string name_of_data(const std::filesystem::path& model, uint32_t checksum) {
  return format("{}.{:08x}.data", model.filename().string(), checksum);
}

}  // namespace

DataBeside::DataBeside(const std::filesystem::path& model, uint32_t checksum)
    : name_(name_of_data(model, checksum)), file_(model.parent_path() / name_) {}

void DataBeside::put(const std::string& bytes, ::onnx::TensorProto& to) {
  const uint64_t first = (written_ + kAlignment - 1) / kAlignment * kAlignment;
  file_.write(std::string(first - written_, '\0'));
  file_.write(bytes);
  written_ = first + bytes.size();
  to.set_data_location(::onnx::TensorProto::EXTERNAL);
  const auto say = [&](const char* key, const std::string& value) {
    auto& entry = *to.add_external_data();
    entry.set_key(key);
    entry.set_value(value);
  };
  say("location", name_);
  say("offset", std::to_string(first));
  say("length", std::to_string(bytes.size()));
}

}  // namespace kerf::partitioner::onnx
