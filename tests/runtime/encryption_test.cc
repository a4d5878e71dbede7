#include "runtime/encryption.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <set>
#include <vector>

namespace kerf::runtime {
namespace {

using Bytes = std::vector<std::byte>;

const std::string kSecret(kSecretBytes, 'k');

Bytes bytes_of(size_t count) {
  Bytes bytes(count);
  for (size_t i = 0; i < count; ++i) bytes[i] = static_cast<std::byte>(i * 37 + (i >> 8));
  return bytes;
}

Bytes encrypted(Encryption& encryption, const Bytes& plain) {
  Bytes made(plain.size() + kTagBytes);
  encryption.encrypt(plain.data(), plain.size(), made.data());
  return made;
}

// What it was; empty if it is refused.
Bytes decrypted(Encryption& encryption, Bytes piece) {
  const size_t bytes = piece.size() - kTagBytes;
  const bool is_sound = encryption.decrypt(piece.data(), bytes, piece.data() + bytes);
  piece.resize(is_sound ? bytes : 0);
  return piece;
}

TEST(Encrypted, PiecesAreReadByWhoHasTheSecretAndNobodyElse) {
  Encryption from(kSecret);
  Encryption to(kSecret);
  Encryption stranger(std::string(kSecretBytes, 'x'));
  for (const size_t count : {1, 16, 96, 1000, 1 << 20}) {
    const Bytes plain = bytes_of(count);
    const Bytes piece = encrypted(from, plain);
    EXPECT_EQ(decrypted(to, piece), plain);
    EXPECT_TRUE(decrypted(stranger, piece).empty());
  }
}

TEST(Encrypted, PiecesShowNothingOfWhatTheyAre) {
  Encryption from(kSecret);
  const Bytes plain = bytes_of(4096);
  const Bytes first = encrypted(from, plain);
  const Bytes second = encrypted(from, plain);
  EXPECT_FALSE(std::equal(first.begin(), first.end(), second.begin())) << "two of one text";
  constexpr size_t kWindow = 8;
  for (size_t at = 0; at + kWindow <= plain.size(); ++at) {
    const auto part = plain.begin() + static_cast<ptrdiff_t>(at);
    ASSERT_EQ(std::search(first.begin(), first.end(), part, part + kWindow), first.end()) << at;
  }
}

TEST(Encrypted, AnyBitThatIsChangedIsNoticedAndTheNextPieceIsSound) {
  const Bytes plain = bytes_of(40);
  for (size_t bit = 0; bit < 8 * (plain.size() + kTagBytes); ++bit) {
    Encryption from(kSecret);
    Encryption to(kSecret);
    Bytes piece = encrypted(from, plain);
    piece[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
    ASSERT_TRUE(decrypted(to, piece).empty()) << bit;
    ASSERT_EQ(decrypted(to, encrypted(from, plain)), plain) << bit;
  }
}

TEST(Encrypted, PiecesHaveTheirOrder) {
  Encryption from(kSecret);
  Encryption to(kSecret);
  const Bytes first = encrypted(from, bytes_of(10));
  const Bytes second = encrypted(from, bytes_of(20));
  EXPECT_TRUE(decrypted(to, second).empty());
  EXPECT_EQ(decrypted(to, second), bytes_of(20));
  EXPECT_TRUE(decrypted(to, first).empty()) << "a second time";
  const Bytes fourth = (encrypted(from, bytes_of(5)), encrypted(from, bytes_of(6)));
  EXPECT_EQ(decrypted(to, fourth), bytes_of(6)) << "a third was tried";
}

TEST(Encrypted, WhatIsSkippedIsCounted) {
  Encryption from(kSecret);
  Encryption to(kSecret);
  encrypted(from, bytes_of(10));
  to.skip();
  EXPECT_EQ(decrypted(to, encrypted(from, bytes_of(20))), bytes_of(20));
}

TEST(Secrets, AreAllDifferent) {
  std::set<std::string> all{kSecret, random_secret(), random_secret()};
  for (const char* purpose : {"", "0 1", "0 10", "service"})
    all.insert(derived_secret(kSecret, purpose));
  all.insert(derived_secret(random_secret(), "0 1"));
  EXPECT_EQ(all.size(), 8u);
  for (const std::string& secret : all) EXPECT_EQ(secret.size(), kSecretBytes);
  EXPECT_EQ(derived_secret(kSecret, "0 1"), derived_secret(kSecret, "0 1"));
}

}  // namespace
}  // namespace kerf::runtime
