#include "runtime/store.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

#include "runtime/file.h"
#include "runtime/format.h"
#include "runtime/free_memory.h"
#include "runtime/memory_folder.h"
#include "runtime/open_file.h"
#include "runtime/regular_file.h"

namespace kerf::runtime {
namespace {

class OwnReadable final : public ReadableFile {
 public:
  explicit OwnReadable(RegularFile file) : file_(std::move(file)) {}
  const std::string& origin() const override { return file_.origin(); }
  uint64_t bytes() const override { return file_.bytes(); }
  void read(uint64_t first, std::span<std::byte> to, ErrorCode code) override {
    file_.read(first, to, code);
  }

 private:
  RegularFile file_;
};

// Of a file in memory; another needs none there.
std::optional<RoomInMemory> room_for(const std::filesystem::path& path,
                                     std::optional<int64_t> leaves) {
  if (!lies_in_memory_folder(path) && !is_memory_without_name(path)) return {};
  return RoomInMemory(leaves ? *leaves : memory_to_leave());
}

class OwnAtomic final : public WritableFile {
 public:
  OwnAtomic(const std::filesystem::path& path, std::optional<int64_t> leaves)
      : file_(path), room_(room_for(path, leaves)) {}
  void write(std::string_view bytes) override {
    if (room_) room_->expect(bytes.size());
    file_.write(bytes);
  }
  void flush() override {}
  void settle() override { file_.settle(); }
  void commit() override { file_.commit(); }

 private:
  AtomicFile file_;
  std::optional<RoomInMemory> room_;
};

class OwnGrowing final : public WritableFile {
 public:
  OwnGrowing(const std::filesystem::path& path, uint64_t kept, std::optional<int64_t> leaves)
      : path_(path.string()),
        file_(::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0666)),
        room_(room_for(path, leaves)) {
    check(file_.number() >= 0, "opened");
    struct stat facts {};
    check(::fstat(file_.number(), &facts) == 0, "looked at");
    if (!S_ISREG(facts.st_mode) || static_cast<uint64_t>(facts.st_size) < kept)
      throw Error(ErrorCode::kUnavailable,
                  format("there are no {} bytes in it to go on behind", kept), path_);
    check(::ftruncate(file_.number(), static_cast<off_t>(kept)) == 0, "cut off");
    check(::lseek(file_.number(), 0, SEEK_END) >= 0, "gone on with");
  }

  void write(std::string_view bytes) override {
    if (room_) room_->expect(bytes.size());
    check(write_whole(file_.number(), bytes), "written");
  }
  void flush() override {}
  void settle() override { check(::fdatasync(file_.number()) == 0, "written to disk"); }
  void commit() override { settle(); }

 private:
  void check(bool fine, const char* step) const {
    if (!fine)
      throw Error(ErrorCode::kUnavailable, format("cannot be {}: {}", step, std::strerror(errno)),
                  path_);
  }

  std::string path_;
  OpenFile file_;
  std::optional<RoomInMemory> room_;
};

}  // namespace

std::unique_ptr<ReadableFile> LocalStore::open(const std::filesystem::path& path) {
  return std::make_unique<OwnReadable>(RegularFile(path));
}

std::unique_ptr<ReadableFile> LocalStore::find(const std::filesystem::path& path) {
  std::string origin = path.string();
  OpenFile file(::open(path.c_str(), RegularFile::kFlags));
  if (file.number() < 0 && errno == ENOENT) return nullptr;
  return std::make_unique<OwnReadable>(RegularFile(std::move(origin), std::move(file)));
}

std::unique_ptr<WritableFile> LocalStore::create(const std::filesystem::path& path) {
  return std::make_unique<OwnAtomic>(path, leaves_);
}

std::unique_ptr<WritableFile> LocalStore::extend(const std::filesystem::path& path, uint64_t kept) {
  return std::make_unique<OwnGrowing>(path, kept, leaves_);
}

}  // namespace kerf::runtime
