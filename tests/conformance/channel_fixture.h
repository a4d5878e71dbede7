// What the channel suites share: endpoints wired all to all, and payloads that tell where they
// belong.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "runtime/channel.h"
#include "runtime/encryption.h"
#include "runtime/error.h"

namespace kerf::runtime {

using namespace std::chrono_literals;

inline constexpr uint64_t kTestToken = 0x1234'5678'9abc'def0;

inline std::vector<Lane> one_lane(uint64_t bytes, int slots) { return {{bytes, slots}}; }

// Where an endpoint is. Suites whose endpoints are on several hosts say so.
struct Place {
  std::string host = kLoopbackHost;
  std::function<void()> enter = [] {};  // called by a thread of its own that then works there
};
inline std::function<Place(int endpoint)> place_of = [](int) { return Place{}; };

// Whether all pairs have secrets. Suites of encrypted channels say so.
inline bool has_secrets = false;
inline std::string secret_of_pair(int a, int b) {
  return derived_secret(std::string(kSecretBytes, 's'),
                        kerf::format("{} {}", std::min(a, b), std::max(a, b)));
}

// Endpoints 0..n-1 in this process, each with a channel of `lanes` to each other.
class Net {
 public:
  Net(TransportKind kind, int endpoints) : Net(std::vector{kind}, endpoints) {}
  Net(const std::vector<TransportKind>& kinds, int endpoints)
      : Net(kinds, cpu_devices(endpoints)) {}
  Net(TransportKind kind, int endpoints, const std::vector<Lane>& lanes) : Net(kind, endpoints) {
    open([&](int self) { return wiring(self, lanes); });
  }

  // An endpoint with each of these.
  Net(TransportKind kind, std::vector<std::shared_ptr<Device>> devices)
      : Net(std::vector{kind}, std::move(devices)) {}
  Net(const std::vector<TransportKind>& kinds, std::vector<std::shared_ptr<Device>> devices)
      : hub_(make_inproc_hub()), devices_(std::move(devices)) {
    for (const auto& device : devices_) {
      std::packaged_task<std::unique_ptr<Endpoint>()> make([&, place = place_of(size())] {
        place.enter();
        return make_endpoint(kinds, kerf::format("worker {}", endpoints_.size()), device, hub_,
                             place.host);
      });
      std::thread(std::ref(make)).join();
      endpoints_.push_back(make.get_future().get());
    }
  }

  Device& device(int i) { return *devices_.at(i); }
  Endpoint& operator[](int i) { return *endpoints_.at(i); }
  SendChannel& sender(int from, int to) { return endpoints_.at(from)->sender(to); }
  ReceiveChannel& receiver(int from, int to) { return endpoints_.at(to)->receiver(from); }
  void destroy(int i) { endpoints_.at(i).reset(); }
  int size() const { return static_cast<int>(endpoints_.size()); }

  Wiring wiring(int self, const std::vector<Lane>& lanes) const {
    Wiring result;
    result.self = self;
    result.epoch = 1;
    result.token = kTestToken;
    for (int peer = 0; peer < size(); ++peer) {
      if (peer == self) continue;
      result.addresses[peer] = endpoints_[peer]->address();
      result.send[peer] = lanes;
      result.receive[peer] = lanes;
      if (place_of(peer).host != place_of(self).host) result.elsewhere.push_back(peer);
      if (has_secrets) result.secrets[peer] = secret_of_pair(self, peer);
    }
    return result;
  }

  // Opens all at once, as workers do. Returns what each threw, empty for none.
  std::vector<std::string> try_open(const std::function<Wiring(int)>& wiring_of,
                                    Clock::duration patience = 10s) {
    std::vector<std::string> thrown(endpoints_.size());
    std::vector<std::jthread> threads;
    for (int i = 0; i < size(); ++i)
      threads.emplace_back([&, i] {
        place_of(i).enter();
        try {
          endpoints_[i]->open(wiring_of(i), after(patience));
        } catch (const Error& error) {
          thrown[i] = kerf::format("{}: {}", to_string(error.code()), error.what());
        }
      });
    threads.clear();
    return thrown;
  }
  void open(const std::function<Wiring(int)>& wiring_of) {
    EXPECT_THAT(try_open(wiring_of), testing::Each(testing::IsEmpty()));
  }

 private:
  static std::vector<std::shared_ptr<Device>> cpu_devices(int count) {
    std::vector<std::shared_ptr<Device>> devices;
    while (count-- > 0) devices.push_back(make_cpu_device());
    return devices;
  }

  std::shared_ptr<InprocHub> hub_;
  std::vector<std::shared_ptr<Device>> devices_;
  std::vector<std::unique_ptr<Endpoint>> endpoints_;
};

// Bytes that differ from message to message and from place to place.
inline std::byte pattern(uint64_t seed, size_t place) {
  return static_cast<std::byte>((seed * 131 + place * 7 + (place >> 8)) & 0xff);
}
inline std::vector<std::byte> pattern_of(uint64_t seed, size_t bytes) {
  std::vector<std::byte> result(bytes);
  for (size_t i = 0; i < bytes; ++i) result[i] = pattern(seed, i);
  return result;
}
inline void fill(const Slot& slot, uint64_t seed) {
  for (size_t i = 0; i < slot.bytes; ++i) slot.data[i] = pattern(seed, i);
}
inline bool holds(const View& view, uint64_t seed) {
  for (size_t i = 0; i < view.bytes; ++i)
    if (view.data[i] != pattern(seed, i)) return false;
  return true;
}
inline bool aligned(const void* data) { return reinterpret_cast<uintptr_t>(data) % 64 == 0; }

// Sends one message that is named by `seed`; false if no slot came free in time.
inline bool send_message(SendChannel& channel, int lane, size_t bytes, int32_t seed,
                         Deadline deadline = after(10s)) {
  const auto slot = channel.acquire(lane, bytes, deadline);
  if (!slot) return false;
  fill(*slot, seed);
  channel.commit(*slot, {seed, lane, -1, 7});
  return true;
}

inline ErrorCode code_thrown_by(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.code();
  }
  ADD_FAILURE() << "nothing was thrown";
  return {};
}

class Channel : public testing::TestWithParam<TransportKind> {};
class ChannelOfSize : public testing::TestWithParam<std::tuple<TransportKind, size_t>> {};
class HostileChannel : public testing::TestWithParam<TransportKind> {};

inline std::string name_of_kind(const testing::TestParamInfo<TransportKind>& info) {
  return std::string(to_string(info.param));
}
inline std::string name_of_size(
    const testing::TestParamInfo<std::tuple<TransportKind, size_t>>& info) {
  return kerf::format("{}_{}", to_string(std::get<0>(info.param)), std::get<1>(info.param));
}
inline const auto kSizes = testing::Values<size_t>(0, 1, 64 << 10, (1 << 20) + 1, 5 << 20);

}  // namespace kerf::runtime
