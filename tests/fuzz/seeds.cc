#include <filesystem>
#include <fstream>
#include <map>
#include <variant>

#include "runtime/file.h"
#include "runtime/wire.h"
#include "schedmp/safetensors.h"
#include "schedmp/schedules.h"
#include "tests/apps/gzip.h"
#include "tests/fuzz/readers.h"
#include "tests/partitioner/sample_models.h"
#include "tests/runtime/wire_sample.h"

namespace kerf::tests {

namespace {

namespace fs = std::filesystem;

// Where a fixture of such a name belongs; empty: nowhere.
std::string target_of(const fs::path& file) {
  static const std::map<std::string, std::string> kTargets{{".npy", "npy"},
                                                           {".npz", "npz"},
                                                           {".png", "picture"},
                                                           {".jpg", "picture"},
                                                           {".onnx", "onnx"}};
  const auto found = kTargets.find(file.extension().string());
  return found == kTargets.end() ? std::string{} : found->second;
}

}  // namespace

void write_seeds(const std::string& folder, const std::string& tests) {
  const auto put = [&](const std::string& target, const std::string& name,
                       const std::string& bytes) {
    fs::create_directories(fs::path(folder) / target);
    runtime::write_file_atomic(fs::path(folder) / target / name, bytes);
  };
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(tests))
    if (const std::string target = target_of(entry.path()); !target.empty())
      put(target, entry.path().filename(), runtime::read_file(entry.path()));

  const fs::path scratch = fs::path(folder) / "scratch";
  write_gzip(scratch, "some text, aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa");
  put("gzip", "text", runtime::read_file(scratch));
  put("idx", "labels", idx_header(0x00000801, {4}) + std::string("\0\1\2\3", 4));
  put("idx", "images", idx_header(0x00000803, {4, 6, 6}) + std::string(4 * 36, 'p'));
  schedmp::write_safetensors(scratch,
                             {{"a", ops::DType::kFloat32, {2, 2}, std::string(16, 'a')},
                              {"b.c", ops::DType::kInt64, {}, std::string(8, 'b')}},
                             {{"format", "pt"}});
  put("safetensors", "two", runtime::read_file(scratch));
  fs::remove(scratch);
  put("text", "words", "the cat\tsat  the cat\nthe dog sat\nthe cat a\n");
  put("text", "bytes", std::string("\0\xff a\n", 5) + std::string(40, 'x'));

  using partitioner::testing::plan_of;
  using partitioner::testing::request_of;
  const partitioner::Model model = partitioner::testing::small_mlp();
  for (const auto& [name, cut] : {std::pair("layer", partitioner::Cut::kLayer),
                                  {"feature", partitioner::Cut::kFeature},
                                  {"hybrid", partitioner::Cut::kHybrid}}) {
    const partitioner::Plan plan = plan_of(model, request_of(cut, 3));
    put("plan", name, write_plan(model, plan));
    put("plan", std::string(name) + "-decisions",
        write_plan(model, plan, partitioner::PlanText::kDecisions));
  }
  put("schedule", "gpipe", write_schedule(schedmp::gpipe({{0}, {1}}, 4)));
  runtime::SampleMaker maker(5);
  for (const char* name : {"one", "two", "three"}) put("wire", name, runtime::encode(maker.make()));
  put("wire", "frame", runtime::make_frame({1, 2, 3}, "payload"));
}

}  // namespace kerf::tests

// fuzz_seeds FOLDER TESTS
int main(int argc, char** argv) {
  if (argc != 3) return 2;
  kerf::tests::write_seeds(argv[1], argv[2]);
  return 0;
}
