#include "runtime/handed_text.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>

#include "runtime/error.h"

namespace kerf::runtime {

namespace {

// By these it is known from whatever else has that number: nothing but a file in memory can have
// them, and only who was asked for them has.
constexpr int kSeals = F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE;

[[noreturn]] void refuse(int number) {
  throw Error(ErrorCode::kUsage,
              kerf::format("descriptor {} is nothing that a process handed to the next", number));
}

}  // namespace

OpenFile hand_text(std::string_view text) {
  OpenFile file(::memfd_create("kerf handed", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (file.number() < 0 || !write_whole(file.number(), text) ||
      ::fcntl(file.number(), F_ADD_SEALS, kSeals) != 0)
    throw Error(
        ErrorCode::kUnavailable,
        kerf::format("no memory for what the next process is told: {}", std::strerror(errno)));
  return file;
}

std::string take_handed_text(int number, size_t max_bytes) {
  struct stat is = {};
  const int seals = ::fcntl(number, F_GET_SEALS);
  if (seals < 0 || (seals & kSeals) != kSeals || ::fstat(number, &is) != 0) refuse(number);
  const OpenFile file(number);
  const auto size = static_cast<size_t>(is.st_size);
  if (size > max_bytes)
    throw Error(ErrorCode::kUsage,
                kerf::format("descriptor {} has {} bytes, more than {}", number, size, max_bytes));
  std::string text(size, '\0');
  for (size_t at = 0; at < size;) {
    const ssize_t count = ::pread(number, text.data() + at, size - at, static_cast<off_t>(at));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) refuse(number);
    at += static_cast<size_t>(count);
  }
  return text;
}

}  // namespace kerf::runtime
