// The fuzz target of the reader that KERF_READER of the environment names. libFuzzer calls it with
// bytes of its own making, and takes what ends the process for a fault.
#include <cstdint>
#include <cstdlib>
#include <stdexcept>

#include "tests/fuzz/readers.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const kerf::tests::Reader reader = [] {
    const char* name = std::getenv("KERF_READER");
    if (name == nullptr) throw std::invalid_argument("KERF_READER names no reader");
    return kerf::tests::find_reader(name);
  }();
  takes(reader, std::string(reinterpret_cast<const char*>(data), size));
  return 0;
}
