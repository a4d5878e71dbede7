// One inproc channel: what its sender and its receiver share. The slots are memory of the sender's
// device.
//
// Threads: acquire, commit, abandon, retain, retire and drain belong to the sending thread, receive
// and release to the receiving one; interrupt_* may be called by any.
#pragma once

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "runtime/inproc/inproc_bell.h"
#include "runtime/lanes.h"
#include "runtime/slot_events.h"

namespace kerf::runtime {

class InprocPipe {
 public:
  // `bell` is the sender's, for slots that come free.
  InprocPipe(const std::vector<Lane>& lanes, std::shared_ptr<Device> sender,
             std::shared_ptr<InprocBell> bell);
  InprocPipe(const InprocPipe&) = delete;
  InprocPipe& operator=(const InprocPipe&) = delete;
  ~InprocPipe();
  // Before the first receive(): the device whose streams read, and whom messages ring for.
  void set_receiver(std::shared_ptr<Device> receiver, std::shared_ptr<InprocBell> bell);

  const std::vector<Lane>& lanes() const { return lanes_; }
  const LaneLayout& layout() const { return layout_; }

  std::optional<Slot> acquire(int lane, size_t bytes, Deadline deadline);
  void commit(const Slot& slot, const Tag& tag, Stream* stream);
  void abandon(const Slot& slot);
  void retain(const Slot& slot);
  void retire(const Slot& slot);
  bool drain(Deadline deadline);

  std::optional<View> receive(Deadline deadline);
  void release(const View& view, Stream* stream);

  void interrupt_sender();
  void interrupt_receiver();

 private:
  struct Waiting {
    SlotName slot;
    size_t bytes = 0;
    Tag tag{};
    const Event* ready = nullptr;
  };
  // Waits for `wanted` or an interruption, which throws. False when the deadline passed.
  template <class Wanted>
  bool wait(std::unique_lock<std::mutex>& lock, std::condition_variable& woken,
            const bool& interrupted, Deadline deadline, Wanted wanted);
  std::byte* data(int lane, int index) const {
    return memory_.data() + layout_.offset(lane, index);
  }

  const std::vector<Lane> lanes_;
  const LaneLayout layout_;
  const std::shared_ptr<Device> sender_;
  const std::shared_ptr<InprocBell> sender_bell_;
  std::shared_ptr<Device> receiver_;
  std::shared_ptr<InprocBell> receiver_bell_;
  const Buffer memory_;

  std::mutex mutex_;  // guards all below
  std::condition_variable sender_wakes_;
  std::condition_variable receiver_wakes_;
  SenderSlots sent_;
  ReceiverSlots held_;
  SlotEvents written_;  // by the sender's device
  SlotEvents read_;     // by the receiver's
  std::deque<Waiting> waiting_;
  uint64_t next_ = 0;
  bool sender_interrupted_ = false;
  bool receiver_interrupted_ = false;
};

}  // namespace kerf::runtime
