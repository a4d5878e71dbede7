// Keys by ZeroMQ's own functions (CurveZMQ, Z85).
#include <fcntl.h>
#include <sys/stat.h>
#include <zmq.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <span>
#include <sstream>
#include <system_error>

#include "runtime/error.h"
#include "runtime/file.h"
#include "runtime/keys.h"
#include "runtime/open_file.h"
#include "runtime/regular_file.h"

namespace kerf::runtime {
namespace {

namespace fs = std::filesystem;

constexpr size_t kKeyBytes = 32;
constexpr size_t kKeyCharacters = 40;
constexpr size_t kMaxKeyFile = kKeyCharacters + 2;     // and the end of a line
constexpr size_t kMaxAllowedFile = size_t{256} << 10;  // some 6,000 keys
constexpr mode_t kOthersAny = 077;
constexpr mode_t kOthersWrite = 022;

[[noreturn]] void refuse_keys(const fs::path& path, const std::string& why) {
  throw Error(ErrorCode::kUsage, why, path.string());
}

// Throws unless it is this user's (or the system's), and `forbidden` to all others.
void check_guarded(const struct stat& facts, mode_t forbidden, const fs::path& path) {
  if (facts.st_uid != ::geteuid() && facts.st_uid != 0)
    refuse_keys(path, "it belongs to another user, who could put another key there");
  if ((facts.st_mode & forbidden) != 0)
    refuse_keys(
        path,
        kerf::format("its mode is {:04o}, so other users may {} it: chmod {} it, and make new keys "
                     "if they had the chance",
                     facts.st_mode & 07777, forbidden == kOthersAny ? "read or change" : "change",
                     forbidden == kOthersAny ? "600" : "go-w"));
}

// That others may not change: they could put files of their own into it.
class KeyFolder {
 public:
  // `origin` is where what is missing would come from.
  KeyFolder(const fs::path& path, const char* origin)
      : path_(path),
        origin_(origin),
        folder_(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
    struct stat facts {};
    if (folder_.number() < 0 || ::fstat(folder_.number(), &facts) != 0) refuse_unopened(path_);
    check_guarded(facts, kOthersWrite, path_);
  }

  // No link, which could lead out of it.
  RegularFile file(const char* name) const {
    OpenFile file(::openat(folder_.number(), name, RegularFile::kFlags | O_NOFOLLOW));
    if (file.number() < 0 && errno == ELOOP)
      refuse_keys(path_ / name, "it is a symbolic link: put the file itself there");
    if (file.number() < 0 && errno == ENOENT) refuse_unopened(path_ / name);
    return {(path_ / name).string(), std::move(file)};
  }

 private:
  [[noreturn]] void refuse_unopened(const fs::path& path) const {
    const int why = errno;
    const bool missing = why == ENOENT || why == ENOTDIR;
    refuse_keys(path, kerf::format("it cannot be opened: {}{}", std::strerror(why),
                                   missing ? kerf::format("; {}", origin_) : ""));
  }

  const fs::path path_;
  const char* const origin_;
  const OpenFile folder_;
};

// Throws unless it is `forbidden` to others, and no larger than `most`.
std::string read_guarded(const RegularFile& file, size_t most, mode_t forbidden) {
  check_guarded(file.facts(), forbidden, file.origin());
  if (file.bytes() > most)
    refuse_keys(file.origin(), kerf::format("it has {} bytes, more than the {} that keys may have",
                                            file.bytes(), most));
  std::string text(file.bytes(), '\0');
  file.read(0, std::as_writable_bytes(std::span(text)), ErrorCode::kUsage);
  return text;
}

// The 32 bytes of a key; `where` is its file, and the line.
std::string decode_key(const std::string& text, const std::string& where) {
  std::array<uint8_t, kKeyBytes> bytes{};
  if (text.size() != kKeyCharacters || text.find('\0') != std::string::npos ||
      zmq_z85_decode(bytes.data(), text.c_str()) == nullptr)
    throw Error(ErrorCode::kUsage,
                "it holds no key, which is 40 characters of Z85: copy it again, or make new keys",
                where);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::string without_line_end(std::string line) {
  if (line.ends_with('\n')) line.pop_back();
  if (line.ends_with('\r')) line.pop_back();
  return line;
}

std::string read_key(const RegularFile& file, mode_t forbidden) {
  std::string key = without_line_end(read_guarded(file, kMaxKeyFile, forbidden));
  decode_key(key, file.origin());
  return key;
}

std::set<std::string> read_allowed(const RegularFile& file) {
  std::istringstream lines(read_guarded(file, kMaxAllowedFile, kOthersWrite));
  std::set<std::string> allowed;
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    line = without_line_end(std::move(line));
    if (line.empty()) continue;
    allowed.insert(decode_key(line, kerf::format("{}:{}", file.origin(), number)));
  }
  if (allowed.empty())
    throw Error(ErrorCode::kUsage, "it names no key, so no worker may join", file.origin());
  return allowed;
}

[[noreturn]] void fail(const fs::path& path, const std::string& what) {
  throw Error(ErrorCode::kUnavailable, kerf::format("{}: {}", what, std::strerror(errno)),
              path.string());
}

void write_new(const fs::path& path, const std::string& key) {
  const OpenFile file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  const std::string line = key + "\n";
  if (file.number() < 0 ||
      ::write(file.number(), line.data(), line.size()) != static_cast<ssize_t>(line.size()) ||
      ::fsync(file.number()) != 0)
    fail(path, "it cannot be written");
}

struct KeyPair {
  std::string public_key;
  std::string secret_key;
};

KeyPair make_pair() {
  std::array<char, kKeyCharacters + 1> open{};
  std::array<char, kKeyCharacters + 1> secret{};
  if (zmq_curve_keypair(open.data(), secret.data()) != 0)
    throw Error(ErrorCode::kUnavailable, "this host's ZeroMQ was built without CURVE");
  return {open.data(), secret.data()};
}

std::string public_of(const std::string& secret_key) {
  std::array<char, kKeyCharacters + 1> open{};
  if (zmq_curve_public(open.data(), secret_key.c_str()) != 0)
    throw Error(ErrorCode::kUnavailable, "this host's ZeroMQ was built without CURVE");
  return open.data();
}

}  // namespace

void make_keys(const fs::path& folder) {
  const KeyPair scheduler = make_pair();
  const KeyPair worker = make_pair();
  if (::mkdir(folder.c_str(), 0700) != 0) {
    if (errno == EEXIST)
      throw Error(ErrorCode::kUsage,
                  "it is there already, and keys are never overwritten: name another folder",
                  folder.string());
    fail(folder, "it cannot be made");
  }
  try {
    write_new(folder / "scheduler.secret", scheduler.secret_key);
    write_new(folder / "scheduler.public", scheduler.public_key);
    write_new(folder / "worker.secret", worker.secret_key);
    write_new(folder / "workers.allowed", worker.public_key);
  } catch (const Error&) {
    std::error_code ignored;
    fs::remove_all(folder, ignored);
    throw;
  }
}

SchedulerKeys read_scheduler_keys(const fs::path& folder) {
  const KeyFolder keys(folder, "a run takes the folder that `kerf keys make` made");
  return {.secret_key = read_key(keys.file("scheduler.secret"), kOthersAny),
          .allowed = read_allowed(keys.file("workers.allowed"))};
}

WorkerKeys read_worker_keys(const fs::path& folder) {
  const KeyFolder keys(folder,
                       "a worker takes a folder with worker.secret and scheduler.public of the "
                       "run's keys: copy them there");
  const std::string secret = read_key(keys.file("worker.secret"), kOthersAny);
  return {.secret_key = secret,
          .public_key = public_of(secret),
          .scheduler_key = read_key(keys.file("scheduler.public"), kOthersWrite)};
}

}  // namespace kerf::runtime
