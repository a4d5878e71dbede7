// Slots on both sides of a channel, between which payload travels in chunks.
#include <sys/mman.h>

#include <cerrno>
#include <cstring>

#include "runtime/error.h"
#include "runtime/link/slot_store.h"
#include "runtime/transports.h"

namespace kerf::runtime {
namespace {

// Private memory, touched at once so that no message pays for a page fault.
class OwnMemory final : public SlotMemory {
 public:
  explicit OwnMemory(size_t bytes) : bytes_(bytes) {
    if (bytes == 0) return;
    void* data = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (data == MAP_FAILED)
      throw Error(ErrorCode::kUnavailable,
                  kerf::format("no memory for {} of slots: {}",
                               human_bytes(static_cast<double>(bytes)), std::strerror(errno)));
    data_ = static_cast<std::byte*>(data);
  }
  OwnMemory(const OwnMemory&) = delete;
  OwnMemory& operator=(const OwnMemory&) = delete;
  ~OwnMemory() override {
    if (data_ != nullptr) ::munmap(data_, bytes_);
  }
  std::byte* data() override { return data_; }
  size_t allocated() const override { return bytes_; }

 private:
  std::byte* data_ = nullptr;
  size_t bytes_;
};

class OwnMemoryStore final : public SlotStore {
 public:
  std::unique_ptr<SlotMemory> make_outgoing(size_t bytes) override {
    return std::make_unique<OwnMemory>(bytes);
  }
  std::unique_ptr<SlotMemory> make_incoming(size_t bytes, const SlotOffer&) override {
    return std::make_unique<OwnMemory>(bytes);
  }
  bool payload_travels() const override { return true; }
};

}  // namespace

std::shared_ptr<SlotStore> make_own_slots() { return std::make_shared<OwnMemoryStore>(); }

}  // namespace kerf::runtime
