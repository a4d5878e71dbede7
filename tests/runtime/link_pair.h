// Two workers whose links go over a PacketExchange, which tells who took and sent which packet.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "runtime/format.h"
#include "runtime/link/link_endpoint.h"
#include "tests/support/packet_exchange.h"

namespace kerf::runtime {

using namespace std::chrono_literals;

inline constexpr size_t kBytes = 1'200'000;  // three chunks
// Well below the second after which everything is looked at anyhow.
inline constexpr auto kSoon = 700ms;

class HeapMemory final : public SlotMemory {
 public:
  explicit HeapMemory(size_t bytes) : bytes_(bytes) {}
  std::byte* data() override { return bytes_.data(); }
  size_t allocated() const override { return bytes_.size(); }

 private:
  std::vector<std::byte> bytes_;
};

class HeapStore final : public SlotStore {
 public:
  std::unique_ptr<SlotMemory> make_outgoing(size_t bytes) override {
    return std::make_unique<HeapMemory>(bytes);
  }
  std::unique_ptr<SlotMemory> make_incoming(size_t bytes, const SlotOffer&) override {
    return std::make_unique<HeapMemory>(bytes);
  }
  bool payload_travels() const override { return true; }
};

// Two workers with a channel to each other: a lane of two slots of kBytes.
class Pair {
 public:
  explicit Pair(const std::vector<std::shared_ptr<Device>>& devices) {
    for (int i : {0, 1})
      endpoints_.push_back(std::make_unique<LinkEndpoint>(
          exchange.make_socket(kerf::format("worker {}", i)), devices.at(static_cast<size_t>(i)),
          SlotStores{{TransportKind::kIpc, std::make_shared<HeapStore>()}}));
    std::jthread other([this] { open(1); });
    open(0);
  }
  Pair() : Pair({make_cpu_device(), make_cpu_device()}) {}

  LinkEndpoint& operator[](int worker) { return *endpoints_.at(static_cast<size_t>(worker)); }
  SendChannel& sender(int from) { return (*this)[from].sender(1 - from); }
  ReceiveChannel& receiver(int at) { return (*this)[at].receiver(1 - at); }
  void destroy(int worker) { endpoints_.at(static_cast<size_t>(worker)).reset(); }

  void send(int from, int seed, Deadline deadline = after(10s)) {
    const auto slot = sender(from).acquire(0, kBytes, deadline);
    ASSERT_TRUE(slot);
    std::fill_n(slot->data, kBytes, static_cast<std::byte>(seed));
    sender(from).commit(*slot, {seed, 0, 0, 0});
  }
  void receive(int at, int seed, Deadline deadline = after(10s)) {
    const auto view = receiver(at).receive(deadline);
    ASSERT_TRUE(view);
    EXPECT_EQ(view->tag[0], seed);
    EXPECT_EQ(std::count(view->data, view->data + kBytes, static_cast<std::byte>(seed)),
              static_cast<std::ptrdiff_t>(kBytes));
    receiver(at).release(*view);
  }

  tests::PacketExchange exchange;

 private:
  void open(int self) {
    Wiring wiring;
    wiring.self = self;
    wiring.addresses[1 - self] = (*this)[1 - self].address();
    wiring.send[1 - self] = wiring.receive[1 - self] = {{kBytes, 2}};
    (*this)[self].open(wiring, after(10s));
  }

  std::vector<std::unique_ptr<LinkEndpoint>> endpoints_;
};

}  // namespace kerf::runtime
