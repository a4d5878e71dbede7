#include "runtime/crc32c.h"

#include <array>
#include <cstring>

namespace kerf::runtime {
namespace {

constexpr uint32_t kPolynomial = 0x82F63B78;  // reflected

constexpr std::array<uint32_t, 256> make_table() {
  std::array<uint32_t, 256> table{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t rest = byte;
    for (int bit = 0; bit < 8; ++bit) rest = (rest >> 1) ^ ((rest & 1) != 0 ? kPolynomial : 0);
    table[byte] = rest;
  }
  return table;
}

constexpr auto kTable = make_table();

uint32_t extend_by_table(uint32_t state, std::string_view bytes) {
  for (const char byte : bytes)
    state = (state >> 8) ^ kTable[(state ^ static_cast<unsigned char>(byte)) & 0xFF];
  return state;
}

#if defined(__x86_64__)

__attribute__((target("sse4.2"))) uint32_t extend_by_instruction(uint32_t state,
                                                                 std::string_view bytes) {
  uint64_t wide = state;
  size_t done = 0;
  for (; done + sizeof(uint64_t) <= bytes.size(); done += sizeof(uint64_t)) {
    uint64_t word = 0;
    std::memcpy(&word, bytes.data() + done, sizeof word);
    wide = __builtin_ia32_crc32di(wide, word);
  }
  auto narrow = static_cast<uint32_t>(wide);
  for (; done < bytes.size(); ++done)
    narrow = __builtin_ia32_crc32qi(narrow, static_cast<unsigned char>(bytes[done]));
  return narrow;
}

uint32_t extend(uint32_t state, std::string_view bytes) {
  return __builtin_cpu_supports("sse4.2") ? extend_by_instruction(state, bytes)
                                          : extend_by_table(state, bytes);
}

#else

uint32_t extend(uint32_t state, std::string_view bytes) { return extend_by_table(state, bytes); }

#endif

}  // namespace

uint32_t extend_crc32c(uint32_t crc, std::string_view bytes) { return ~extend(~crc, bytes); }

}  // namespace kerf::runtime
