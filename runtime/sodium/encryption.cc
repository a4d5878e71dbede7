// Encryption by libsodium, which ZeroMQ needs as well.
#include "runtime/encryption.h"

#include <sodium.h>

#include <algorithm>
#include <cstring>

#include "runtime/error.h"

namespace kerf::runtime {
namespace {

static_assert(kSecretBytes == crypto_aead_chacha20poly1305_ietf_KEYBYTES);
static_assert(kSecretBytes >= crypto_generichash_KEYBYTES_MIN &&
              kSecretBytes <= crypto_generichash_KEYBYTES_MAX);
static_assert(kTagBytes == crypto_aead_chacha20poly1305_ietf_ABYTES);

using Nonce = std::array<unsigned char, crypto_aead_chacha20poly1305_ietf_NPUBBYTES>;

// Chooses what the processor is fastest at; once, whoever calls it first.
void begin_library() {
  if (::sodium_init() < 0)
    throw Error(ErrorCode::kUnavailable, "libsodium has no random numbers of this system");
}

Nonce nonce_of(uint64_t number) {
  Nonce nonce{};
  std::memcpy(nonce.data(), &number, sizeof number);
  return nonce;
}

unsigned char* bytes_of(std::byte* data) { return reinterpret_cast<unsigned char*>(data); }
const unsigned char* bytes_of(const std::byte* data) {
  return reinterpret_cast<const unsigned char*>(data);
}
const unsigned char* bytes_of(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

}  // namespace

std::string random_secret() {
  begin_library();
  std::string secret(kSecretBytes, '\0');
  ::randombytes_buf(secret.data(), secret.size());
  return secret;
}

std::string derived_secret(const std::string& secret, std::string_view purpose) {
  KERF_CHECK(secret.size() == kSecretBytes, "a secret has {} bytes", secret.size());
  begin_library();
  std::string derived(kSecretBytes, '\0');
  ::crypto_generichash(reinterpret_cast<unsigned char*>(derived.data()), derived.size(),
                       bytes_of(purpose), purpose.size(), bytes_of(secret), secret.size());
  return derived;
}

Encryption::Encryption(const std::string& secret) {
  KERF_CHECK(secret.size() == kSecretBytes, "a secret has {} bytes", secret.size());
  begin_library();
  std::memcpy(key_.data(), secret.data(), secret.size());
}

Encryption::~Encryption() { ::sodium_memzero(key_.data(), key_.size()); }

void Encryption::encrypt(const std::byte* plain, size_t bytes, std::byte* encrypted) {
  const Nonce nonce = nonce_of(number_++);
  ::crypto_aead_chacha20poly1305_ietf_encrypt(bytes_of(encrypted), nullptr, bytes_of(plain), bytes,
                                              nullptr, 0, nullptr, nonce.data(), key_.data());
}

bool Encryption::decrypt(std::byte* encrypted, size_t bytes, const std::byte* tag) {
  const Nonce nonce = nonce_of(number_++);
  return ::crypto_aead_chacha20poly1305_ietf_decrypt_detached(
             bytes_of(encrypted), nullptr, bytes_of(encrypted), bytes, bytes_of(tag), nullptr, 0,
             nonce.data(), key_.data()) == 0;
}

}  // namespace kerf::runtime
