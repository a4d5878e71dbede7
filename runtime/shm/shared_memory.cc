#include "runtime/shm/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "runtime/error.h"
#include "runtime/open_file.h"

namespace kerf::runtime {
namespace {

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

[[noreturn]] void fail(const std::string& what) {
  throw Error(ErrorCode::kUnavailable,
              kerf::format("{}: {}; try --transport ipc", what, std::strerror(errno)),
              "shared memory");
}

class Mapping {
 public:
  Mapping(const OpenFile& file, size_t bytes, int protection) : bytes_(bytes) {
    if (bytes == 0) return;
    void* data = ::mmap(nullptr, bytes, protection, MAP_SHARED | MAP_POPULATE, file.number(), 0);
    if (data == MAP_FAILED)
      fail(kerf::format("cannot map {}", human_bytes(static_cast<double>(bytes))));
    data_ = static_cast<std::byte*>(data);
  }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  ~Mapping() {
    if (data_ != nullptr) ::munmap(data_, bytes_);
  }
  std::byte* data() const { return data_; }
  size_t bytes() const { return bytes_; }

 private:
  std::byte* data_ = nullptr;
  size_t bytes_;
};

// Memory is reserved in full here: a host that has too little says so now, not by SIGBUS later.
OpenFile make_sealed(size_t bytes) {
  OpenFile file(::memfd_create("kerf-slots", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (file.number() < 0) fail("cannot make shared memory");
  const auto length = static_cast<off_t>(bytes);
  if (::ftruncate(file.number(), length) != 0 ||
      (bytes > 0 && ::fallocate(file.number(), 0, 0, length) != 0) ||
      ::fcntl(file.number(), F_ADD_SEALS, kSeals) != 0)
    fail(kerf::format("cannot reserve {} of shared memory",
                      human_bytes(static_cast<double>(bytes))));
  return file;
}

class SharedMemory final : public SlotMemory {
 public:
  explicit SharedMemory(size_t bytes)
      : file_(std::make_shared<OpenFile>(make_sealed(bytes))),
        mapping_(*file_, bytes, PROT_READ | PROT_WRITE) {}
  std::byte* data() override { return mapping_.data(); }
  SlotOffer offer() const override { return {{}, file_}; }
  void accepted() override { file_.reset(); }
  size_t allocated() const override { return mapping_.bytes(); }

 private:
  std::shared_ptr<const OpenFile> file_;
  Mapping mapping_;
};

// Seals are proof that it is a memfd, and that it keeps its size while it is mapped.
void check_sealed(const OpenFile& file, size_t bytes) {
  struct stat status {};
  const int seals = ::fcntl(file.number(), F_GET_SEALS);
  if (seals < 0 || ::fstat(file.number(), &status) != 0)
    fail("a peer's memory is not shared memory");
  if ((seals & kSeals) != kSeals || static_cast<uint64_t>(status.st_size) < bytes)
    throw Error(ErrorCode::kProtocol, "a peer's memory is not sealed or too small",
                "shared memory");
}

class MappedMemory final : public SlotMemory {
 public:
  MappedMemory(const OpenFile& file, size_t bytes, bool writable)
      : mapping_(file, bytes, writable ? PROT_READ | PROT_WRITE : PROT_READ) {}
  std::byte* data() override { return mapping_.data(); }
  size_t allocated() const override { return 0; }

 private:
  Mapping mapping_;
};

}  // namespace

std::unique_ptr<SlotMemory> make_shared_memory(size_t bytes) {
  return std::make_unique<SharedMemory>(bytes);
}

std::unique_ptr<SlotMemory> map_shared_memory(size_t bytes, const SlotOffer& offer, bool writable) {
  // Where this process may open no more, the system drops what comes.
  if (!offer.file)
    throw Error(ErrorCode::kUnavailable,
                "a peer's memory came without its file; raise the limit of open files with "
                "ulimit -n, or try --transport ipc",
                "shared memory");
  check_sealed(*offer.file, bytes);
  return std::make_unique<MappedMemory>(*offer.file, bytes, writable);
}

}  // namespace kerf::runtime
