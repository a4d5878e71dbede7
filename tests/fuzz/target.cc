// One fuzz target; KERF_FUZZED is its reader. libFuzzer calls it with bytes of its own making, and
// takes what ends the process for a fault.
#include <cstddef>
#include <cstdint>

#include "runtime/error.h"
#include "tests/fuzz/readers.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    kerf::tests::KERF_FUZZED(std::string(reinterpret_cast<const char*>(data), size));
  } catch (const kerf::Error& error) {
    if (error.code() != kerf::ErrorCode::kUsage) throw;
  }
  return 0;
}
