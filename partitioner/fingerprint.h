// Fingerprint: 64 bits of FNV-1a (Fowler, Noll, Vo) over fields of text. It tells models and plans
// apart that differ by accident; it is no defence against forgery.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "runtime/format.h"

namespace kerf::partitioner {

class Fingerprint {
 public:
  // A field is closed by a byte that no name contains, so that "a","bc" and "ab","c" differ.
  void add(std::string_view field) {
    for (const char c : field) step(static_cast<unsigned char>(c));
    step(0x1f);
  }
  std::string hex() const { return format("{:016x}", hash_); }  // 16 digits

 private:
  void step(unsigned char byte) {
    hash_ ^= byte;
    hash_ *= 0x100000001b3ULL;
  }

  uint64_t hash_ = 0xcbf29ce484222325ULL;
};

}  // namespace kerf::partitioner
