// Slots in memory that processes of one host share: written and read in place, packets (over ipc)
// carry descriptors and credits only.
#include "runtime/shm/shared_memory.h"
#include "runtime/transports.h"

namespace kerf::runtime {
namespace {

class SharedMemoryStore final : public SlotStore {
 public:
  explicit SharedMemoryStore(bool writable) : writable_(writable) {}
  std::unique_ptr<SlotMemory> make_outgoing(size_t bytes) override {
    return make_shared_memory(bytes);
  }
  std::unique_ptr<SlotMemory> make_incoming(size_t bytes, const SlotOffer& offer) override {
    return map_shared_memory(bytes, offer, writable_);
  }
  bool payload_travels() const override { return false; }

 private:
  const bool writable_;
};

}  // namespace

// A device that memory must be registered with wants it writable, also where it only reads.
std::shared_ptr<SlotStore> make_shm_slots(const std::shared_ptr<Device>& device) {
  return std::make_shared<SharedMemoryStore>(!device->reaches_host_memory());
}

}  // namespace kerf::runtime
