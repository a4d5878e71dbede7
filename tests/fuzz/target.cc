// The fuzz target of the reader that KERF_READER of the environment names. libFuzzer calls it with
// bytes of its own making, and takes what ends the process for a fault.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <stdexcept>

#include "tests/fuzz/onnx_mutator.h"
#include "tests/fuzz/readers.h"

namespace {

const kerf::tests::Reader& fuzzed() {
  static const kerf::tests::Reader reader = [] {
    const char* name = std::getenv("KERF_READER");
    if (name == nullptr) throw std::invalid_argument("KERF_READER names no reader");
    return kerf::tests::find_reader(name);
  }();
  return reader;
}

}  // namespace

// Of libFuzzer: its own changes.
extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t most);

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  takes(fuzzed(), std::string(reinterpret_cast<const char*>(data), size));
  return 0;
}

// A quarter of the changes of models are of bytes.
extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t most, unsigned seed) {
  if (fuzzed().name == "onnx" && seed % 4 != 0) {
    static kerf::tests::ModelMutator mutator;
    const std::string model(reinterpret_cast<const char*>(data), size);
    mutator.learn(model);
    const auto changed = mutator.changed(model, seed);
    if (changed && changed->size() <= most) {
      std::ranges::copy(*changed, reinterpret_cast<char*>(data));
      return changed->size();
    }
  }
  return LLVMFuzzerMutate(data, size, most);
}
