// fuzz_seeds FOLDER [MODELS]: writes what fuzzing begins with, as FOLDER/READER/NAME. MODELS is the
// folder of ONNX's own tests.
#include <cstdio>
#include <filesystem>

#include "runtime/file.h"
#include "tests/fuzz/readers.h"

namespace {

namespace fs = std::filesystem;

void put(const fs::path& folder, const std::string& name, const std::string& bytes) {
  fs::create_directories(folder);
  kerf::runtime::write_file_atomic(folder / name, bytes);
}

// One of each, the larger ones of networks left out: a thousand small models have all operators.
void put_onnx_tests(const fs::path& folder, const fs::path& models) {
  constexpr uintmax_t kMost = 16384;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(models)) {
    if (!entry.is_regular_file() || entry.file_size() > kMost) continue;
    const fs::path& path = entry.path();
    if (path.extension() == ".onnx")
      put(folder / "onnx", path.parent_path().filename(), kerf::runtime::read_file(path));
    if (path.filename() == "input_0.pb")
      put(folder / "tensor", path.parent_path().parent_path().filename(),
          kerf::runtime::read_file(path));
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2 && argc != 3) return 2;
  for (const kerf::tests::Reader& reader : kerf::tests::readers())
    for (const auto& [name, bytes] : kerf::tests::sound_bytes(reader.name)) {
      try {
        reader.read(bytes);
      } catch (const kerf::Error& error) {
        std::fprintf(stderr, "fuzz_seeds: %s: %s: %s\n", reader.name.c_str(), name.c_str(),
                     error.what());
        return 1;
      }
      put(fs::path(argv[1]) / reader.name, name, bytes);
    }
  if (argc == 3) put_onnx_tests(argv[1], argv[2]);
  return 0;
}
