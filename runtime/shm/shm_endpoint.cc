// Channels over shared memory between processes of one host: slots are written and read in place,
// packets (over ipc) carry descriptors and credits only.
#include "runtime/link/link_endpoint.h"
#include "runtime/shm/shared_memory.h"
#include "runtime/transports.h"

namespace kerf::runtime {
namespace {

class SharedMemoryStore final : public SlotStore {
 public:
  std::unique_ptr<SlotMemory> make_outgoing(size_t bytes) override {
    return make_shared_memory(bytes);
  }
  std::unique_ptr<SlotMemory> make_incoming(size_t bytes, const std::string& offer) override {
    return map_shared_memory(bytes, offer);
  }
  bool payload_travels() const override { return false; }
};

}  // namespace

std::unique_ptr<Endpoint> make_shm_endpoint(const std::string& label,
                                            std::shared_ptr<Device> device) {
  return std::make_unique<LinkEndpoint>(label, "ipc", std::move(device),
                                        std::make_unique<SharedMemoryStore>());
}

}  // namespace kerf::runtime
