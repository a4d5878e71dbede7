// Fingerprint: 64 bits of FNV-1a (Fowler, Noll, Vo) over text. It tells models, plans and data
// apart that differ by accident; it is no defence against forgery.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "runtime/format.h"

namespace kerf::runtime {

class Fingerprint {
 public:
  // A field is closed by a byte that no name contains, so that "a","bc" and "ab","c" differ.
  void add(std::string_view field) {
    add_text(field);
    add_text("\x1f");
  }
  // As it is: "a","bc" and "ab","c" are the same.
  void add_text(std::string_view text) {
    for (const char c : text) {
      hash_ ^= static_cast<unsigned char>(c);
      hash_ *= 0x100000001b3ULL;
    }
  }
  std::string hex() const { return format("{:016x}", hash_); }  // 16 digits

 private:
  uint64_t hash_ = 0xcbf29ce484222325ULL;
};

}  // namespace kerf::runtime
