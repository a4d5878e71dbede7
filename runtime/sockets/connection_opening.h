// What an encrypted connection begins with, in plain: who speaks to whom, and which of his
// connections it is. Nothing else on a connection begins so.
//
// The connection's secret is of all of this and of the secret of the pair, so whoever changes any
// of it, or has no secret, says nothing that can be decrypted. A worker counts its connections to
// a peer, whose secret is of one epoch, in which it is one process: no two have one number, and
// one that somebody repeats is known by it.
//
// A plain value.
#pragma once

#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/encryption.h"

namespace kerf::runtime {

inline constexpr uint32_t kOpeningMagic = 0x6546524b;  // "KRFe"

// As it lies on the wire, little-endian.
struct ConnectionOpening {
  uint32_t magic = kOpeningMagic;
  uint32_t version = 1;
  uint32_t epoch = 0;
  int32_t from = 0;
  int32_t to = 0;
  uint32_t reserved = 0;
  uint64_t number = 0;

  std::string_view bytes() const { return {reinterpret_cast<const char*>(this), sizeof *this}; }
  // Of the connection; `secret` is of the pair.
  std::string secret(const std::string& of_pair) const { return derived_secret(of_pair, bytes()); }
};
static_assert(sizeof(ConnectionOpening) == 32);

// Empty if `bytes`, at least as many, are no such thing.
inline std::optional<ConnectionOpening> parse_opening(std::string_view bytes) {
  ConnectionOpening opening;
  std::memcpy(&opening, bytes.data(), sizeof opening);
  const ConnectionOpening sound;
  if (opening.magic != sound.magic || opening.version != sound.version) return std::nullopt;
  return opening;
}

}  // namespace kerf::runtime
