// Authenticated encryption of what one end of a connection says to the other: nobody on the way
// reads it, and what somebody changed is noticed (ChaCha20-Poly1305, RFC 8439).
//
// A secret is of one direction of one connection: pieces are numbered from 0, the number is the
// nonce, and nothing ever encrypts two pieces under one number. So each connection needs a secret
// that no other had: derived_secret() makes one of what both ends know.
//
// Encryption: one thread at a time. All else is thread-safe.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace kerf::runtime {

inline constexpr size_t kSecretBytes = 32;
inline constexpr size_t kTagBytes = 16;  // behind each encrypted piece

// Of the kernel's random bytes. Throws Error{kUnavailable} if the library cannot begin.
std::string random_secret();
// Another for each purpose, of which none tells of another or of `secret` (BLAKE2b with a key,
// RFC 7693).
std::string derived_secret(const std::string& secret, std::string_view purpose);

class Encryption {
 public:
  // Throws Error{kUnavailable} if the library cannot begin.
  explicit Encryption(const std::string& secret);
  ~Encryption();
  Encryption(const Encryption&) = delete;
  Encryption& operator=(const Encryption&) = delete;

  // The next piece: `bytes` at `plain`, to `bytes` and a tag at `encrypted`, which is elsewhere.
  void encrypt(const std::byte* plain, size_t bytes, std::byte* encrypted);
  // The next piece, in its place; false if it is not what encrypt() made of its piece of this
  // number: then nothing sensible is left of it, and the one behind it can be decrypted all the
  // same.
  [[nodiscard]] bool decrypt(std::byte* encrypted, size_t bytes, const std::byte* tag);
  // The next piece came and is wanted by nobody.
  void skip() { ++number_; }

 private:
  std::array<unsigned char, kSecretBytes> key_;
  uint64_t number_ = 0;  // of the next piece
};

}  // namespace kerf::runtime
