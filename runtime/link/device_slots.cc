// Slots in the memory of a GPU that two processes of a host share: written and read there by both
// devices' streams, which are one GPU's. Packets carry descriptors and credits only, each sent when
// its event has happened, so no event crosses.
#include <utility>

#include "runtime/link/slot_store.h"
#include "runtime/transports.h"

namespace kerf::runtime {
namespace {

class ExportedSlots final : public SlotMemory {
 public:
  ExportedSlots(Device& device, size_t bytes)
      : memory_(device.allocate_exportable(bytes)),
        handle_(memory_ ? device.export_memory(memory_) : std::string()) {}
  std::byte* data() override { return memory_.data(); }
  bool on_device() const override { return true; }
  SlotOffer offer() const override { return {handle_}; }
  size_t allocated() const override { return 0; }  // the device counts it

 private:
  Buffer memory_;
  const std::string handle_;
};

class ImportedSlots final : public SlotMemory {
 public:
  explicit ImportedSlots(ImportedMemory memory) : memory_(std::move(memory)) {}
  std::byte* data() override { return memory_.get(); }
  bool on_device() const override { return true; }
  size_t allocated() const override { return 0; }

 private:
  const ImportedMemory memory_;
};

class DeviceStore final : public SlotStore {
 public:
  explicit DeviceStore(std::shared_ptr<Device> device) : device_(std::move(device)) {}
  std::unique_ptr<SlotMemory> make_outgoing(size_t bytes) override {
    return std::make_unique<ExportedSlots>(*device_, bytes);
  }
  std::unique_ptr<SlotMemory> make_incoming(size_t bytes, const SlotOffer& offer) override {
    return std::make_unique<ImportedSlots>(device_->import_memory(offer.text, bytes));
  }
  bool payload_travels() const override { return false; }

 private:
  const std::shared_ptr<Device> device_;
};

}  // namespace

std::shared_ptr<SlotStore> make_device_slots(const std::shared_ptr<Device>& device) {
  return std::make_shared<DeviceStore>(device);
}

}  // namespace kerf::runtime
