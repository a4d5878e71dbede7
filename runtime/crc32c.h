// CRC-32C (Castagnoli), piece by piece. Thread-safe.
#pragma once

#include <cstdint>
#include <string_view>

namespace kerf::runtime {

// The checksum of what `crc` is the checksum of (0: of nothing), followed by `bytes`. Uses the
// processor's instruction where it has one: every control message is summed at both ends.
uint32_t extend_crc32c(uint32_t crc, std::string_view bytes);

}  // namespace kerf::runtime
