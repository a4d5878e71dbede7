#include "tests/fuzz/readers.h"

#include <fstream>
#include <vector>

#include "apps/data/text_rows.h"
#include "partitioner/onnx/import.h"
#include "partitioner/plan.h"
#include "runtime/activity.h"
#include "runtime/channel.h"
#include "runtime/trace.h"
#include "runtime/wire.h"
#include "schedmp/safetensors.h"
#include "schedmp/schedule.h"
#include "tests/apps/gzip.h"
#include "tests/partitioner/sample_models.h"
#include "tests/runtime/wire_sample.h"
#include "tests/support/temporary_folder.h"

namespace kerf::tests {

namespace {

// The bytes as a file, for readers that take a path; the next ones go over them.
std::filesystem::path as_file(const std::string& bytes) {
  static const TemporaryFolder folder;
  const std::filesystem::path path = folder / "fuzzed";
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
  return path;
}

// What was taken says again what arrived.
template <class T>
void decode_and_encode(const std::string& bytes) {
  try {
    const T value = runtime::decode<T>(bytes);
    KERF_CHECK(runtime::encode(value) == bytes, "the value has other bytes");
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kProtocol) throw;
  }
}

}  // namespace

void read_idx_file(const std::string& bytes) {
  const std::string labels = idx_header(0x00000801, {4}) + std::string("\0\1\2\3", 4);
  const std::string images = idx_header(0x00000803, {4, 6, 6}) + std::string(4 * 36, 'p');
  const auto either = [](const std::string& of_images, const std::string& of_labels) {
    try {
      read_idx(of_images, of_labels);
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kUsage) throw;
    }
  };
  either(bytes, labels);
  either(images, bytes);
}

void read_onnx(const std::string& bytes) { partitioner::onnx::import_file(as_file(bytes)); }

void read_tensors(const std::string& bytes) { schedmp::read_safetensors(as_file(bytes)); }

void read_text_rows(const std::string& bytes) {
  constexpr int64_t kLength = 4;
  const std::string name = "4x16:" + as_file(bytes).string();
  for (const apps::TokensOf of : {apps::TokensOf::kWords, apps::TokensOf::kBytes}) {
    const apps::TextRows rows(of, of == apps::TokensOf::kBytes ? "4x256" + name.substr(4) : name,
                              schedmp::Split::kTrain);
    std::vector<int64_t> tokens(kLength);
    const ops::TensorView to{
        ops::DType::kInt64, {1, kLength}, reinterpret_cast<std::byte*>(tokens.data())};
    for (int64_t row = 0; row < rows.rows(); ++row) {
      rows.read_input("tokens", std::vector<int64_t>{row}, to);
      rows.read_labels(std::vector<int64_t>{row}, to);
    }
  }
}

void read_plan_text(const std::string& bytes) {
  static const partitioner::Model model = partitioner::testing::small_mlp();
  partitioner::read_plan(model, bytes, "the file");
}

void read_schedule_text(const std::string& bytes) { schedmp::parse_schedule(bytes, "the file"); }

void read_wire(const std::string& bytes) {
  runtime::FrameFault fault{};
  (void)runtime::parse_frame(bytes, fault);
  decode_and_encode<runtime::Sample>(bytes);
  decode_and_encode<runtime::ActivityReport>(bytes);
  decode_and_encode<runtime::Span>(bytes);
  decode_and_encode<runtime::Wiring>(bytes);
}

}  // namespace kerf::tests
