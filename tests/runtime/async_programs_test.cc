// Random programs on the device "async-test": what it reports is what a second, slow way to decide
// it finds, and what it computes is what the program says.
#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <condition_variable>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <thread>

#include "runtime/error.h"
#include "runtime/host_work.h"
#include "tests/support/async_device.h"
#include "tests/support/seeds.h"

namespace kerf::tests {
namespace {

using runtime::Buffer;
using runtime::launch;
using runtime::memory;
using testing::IsEmpty;

constexpr size_t kBytes = 12;

// Happens-before as a graph: an edge to each operation from those that it directly comes after.
// Whether a path leads from one to another is looked up by walking.
class Oracle {
 public:
  using Node = size_t;
  struct Touch {
    Node node = 0;
    std::string actor;  // "operation 2 of stream 1"
    size_t block = 0, begin = 0, end = 0;
    bool written = false;
  };

  Node add(const std::vector<std::optional<Node>>& before) {
    before_.emplace_back();
    for (const auto& each : before)
      if (each) before_.back().push_back(*each);
    return before_.size() - 1;
  }
  void add(const Touch& touch) { touches_.push_back(touch); }

  // One line for each two touches that have a byte in common which tells of them.
  std::vector<std::string> reports() const {
    std::vector<std::string> all;
    for (size_t later = 0; later < touches_.size(); ++later)
      for (size_t earlier = 0; earlier < later; ++earlier)
        if (is_reported(earlier, later)) all.push_back(text(earlier, later));
    std::sort(all.begin(), all.end());
    return all;
  }

 private:
  bool comes_after(Node later, Node earlier) const {
    std::vector<bool> seen(before_.size());
    std::vector<Node> next{later};
    while (!next.empty()) {
      const Node node = next.back();
      next.pop_back();
      if (node == earlier) return true;
      if (node < earlier || seen[node]) continue;  // edges lead to what is older
      seen[node] = true;
      next.insert(next.end(), before_[node].begin(), before_[node].end());
    }
    return false;
  }
  bool is_reported(size_t earlier, size_t later) const {
    const Touch &a = touches_[earlier], &b = touches_[later];
    if (a.block != b.block || !(a.written || b.written) || comes_after(b.node, a.node))
      return false;
    for (size_t byte = std::max(a.begin, b.begin); byte < std::min(a.end, b.end); ++byte)
      if (!is_replaced(earlier, later, byte)) return true;
    return false;
  }
  // A touch between the two, ordered after the first and in conflict with all that it is with.
  bool is_replaced(size_t earlier, size_t later, size_t byte) const {
    const Touch& a = touches_[earlier];
    for (size_t i = earlier + 1; i < later; ++i) {
      const Touch& b = touches_[i];
      if (b.block == a.block && b.begin <= byte && byte < b.end && (b.written || !a.written) &&
          comes_after(b.node, a.node))
        return true;
    }
    return false;
  }
  std::string text(size_t earlier, size_t later) const {
    return format("allocation {}: {} is not ordered after {}", touches_[later].block, text(later),
                  text(earlier));
  }
  std::string text(size_t touch) const {
    const Touch& a = touches_[touch];
    return format("{} of [{}, {}) by {}", a.written ? "write" : "read", a.begin, a.end, a.actor);
  }

  std::vector<std::vector<Node>> before_;
  std::vector<Touch> touches_;
};

// A thread of the host that does what it is told, while the one that tells waits.
class SecondThread {
 public:
  SecondThread() : thread_([this](const std::stop_token& stop) { run(stop); }) {}
  void call(const std::function<void()>& body) {
    std::unique_lock lock(mutex_);
    body_ = &body;
    changed_.notify_all();
    changed_.wait(lock, [this] { return body_ == nullptr; });
  }

 private:
  void run(const std::stop_token& stop) {
    std::unique_lock lock(mutex_);
    while (changed_.wait(lock, stop, [this] { return body_ != nullptr; })) {
      (*body_)();
      body_ = nullptr;
      changed_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable_any changed_;
  const std::function<void()>* body_ = nullptr;
  std::jthread thread_;
};

// Does something at random, on a device and in the graph. Its work touches nothing really.
class RandomProgram {
 public:
  explicit RandomProgram(uint64_t seed)
      : random_(seed), world_(std::make_shared<AsyncWorld>(seed)) {
    for (auto& pinned : pinned_) pinned = device_->allocate_pinned(kBytes);
    for (auto& buffer : buffers_) buffer = device_->allocate(kBytes);
    for (auto& stream : streams_) stream.device = device_->make_stream();
    for (auto& event : events_) event.device = device_->make_event();
    // Threads of the host are numbered as they appear.
    for (size_t host = 0; host < hosts_.size(); ++host) on(host, [this] { (void)world_->seen(); });
    for (size_t wait = 0; wait < 400; ++wait)
      if (below(8) == 0) {
        dropped_.push_back(wait);
        world_->drop_wait(wait);
      }
  }

  void step() {
    const size_t host = below(hosts_.size());
    Streamed& stream = streams_[below(streams_.size())];
    Recorded& event = events_[below(events_.size())];
    switch (below(9)) {
      case 0:
        return on(host, [&] { record(host, stream, event); });
      case 1:
        return on(host, [&] { wait(host, stream, event); });
      case 2:
        return on(host, [&] { wait(host, event); });
      case 3:
        return on(host, [&] { synchronize(host, stream); });
      case 4:
        return on(host, [&] { touch(host); });
      case 5:
        return tell(host);
      default:
        return on(host, [&] { work(host, stream); });
    }
  }

  std::vector<std::string> reports() const {
    auto all = world_->reports();
    std::sort(all.begin(), all.end());
    return all;
  }
  const Oracle& oracle() const { return oracle_; }
  size_t wait_count() const { return world_->waits(); }
  size_t waits_made() const { return waits_; }

 private:
  using Node = std::optional<Oracle::Node>;
  struct Streamed {
    std::unique_ptr<runtime::Stream> device;
    Node last;
    size_t operations = 0;
  };
  struct Recorded {
    std::unique_ptr<runtime::Event> device;
    Node last;
  };
  struct Host {
    Node last;
    size_t touches = 0;
  };
  struct Range {
    std::byte* data = nullptr;
    size_t bytes = 0;
  };

  size_t below(size_t end) { return random_() % end; }
  void on(size_t host, const std::function<void()>& body) {
    if (host == 0) return body();
    second_.call(body);
  }
  bool next_wait_is_seen() {
    return std::find(dropped_.begin(), dropped_.end(), waits_++) == dropped_.end();
  }
  void enqueue(size_t host, Streamed& stream, const Node& event = {}) {
    stream.last = oracle_.add({stream.last, hosts_[host].last, event});
    ++stream.operations;
  }
  // Any bytes of any allocation; pinned ones are the first.
  Range choose(size_t blocks, Oracle::Touch touch) {
    touch.block = below(blocks);
    touch.begin = below(kBytes);
    touch.end = touch.begin + 1 + below(kBytes - touch.begin);
    oracle_.add(touch);
    std::byte* begin = touch.block < pinned_.size() ? pinned_[touch.block].get()
                                                    : buffers_[touch.block - pinned_.size()].data();
    return {begin + touch.begin, touch.end - touch.begin};
  }

  void work(size_t host, Streamed& stream) {
    enqueue(host, stream);
    Oracle::Touch touch{*stream.last, format("operation {} of stream {}", stream.operations,
                                             &stream - streams_.data())};
    const size_t blocks = pinned_.size() + buffers_.size();
    const Range read = choose(blocks, touch);
    touch.written = true;
    const Range written = below(2) == 0 ? choose(blocks, touch) : Range();
    launch(
        *stream.device, [](const std::byte*, std::byte*) {},
        memory<const std::byte>(read.data, read.bytes), memory(written.data, written.bytes));
  }
  void record(size_t host, Streamed& stream, Recorded& event) {
    enqueue(host, stream);
    stream.device->record(*event.device);
    event.last = stream.last;
  }
  void wait(size_t host, Streamed& stream, Recorded& event) {
    enqueue(host, stream, next_wait_is_seen() ? event.last : Node());
    stream.device->wait(*event.device);
  }
  void wait(size_t host, Recorded& event) {
    if (next_wait_is_seen()) hosts_[host].last = oracle_.add({hosts_[host].last, event.last});
    event.device->wait();
  }
  void synchronize(size_t host, Streamed& stream) {
    if (next_wait_is_seen()) hosts_[host].last = oracle_.add({hosts_[host].last, stream.last});
    stream.device->synchronize();
  }
  void touch(size_t host) {
    hosts_[host].last = oracle_.add({hosts_[host].last});
    const bool written = below(2) == 0;
    const auto actor = format("operation {} of host thread {}", ++hosts_[host].touches, host);
    const Range range =
        choose(pinned_.size(), {.node = *hosts_[host].last, .actor = actor, .written = written});
    written ? world_->host_writes(range.data, range.bytes)
            : world_->host_reads(range.data, range.bytes);
  }
  void tell(size_t host) {
    Clock told;
    on(host, [&] { told = world_->seen(); });
    Host& other = hosts_[1 - host];
    on(1 - host, [&] { world_->see(told); });
    other.last = oracle_.add({other.last, hosts_[host].last});
  }

  std::mt19937_64 random_;
  const std::shared_ptr<AsyncWorld> world_;
  const std::unique_ptr<runtime::Device> device_ = make_async_device(world_);
  std::array<runtime::PinnedMemory, 2> pinned_;
  std::array<Buffer, 3> buffers_;
  std::array<Streamed, 4> streams_;
  std::array<Recorded, 4> events_;
  std::array<Host, 2> hosts_;
  std::vector<size_t> dropped_;
  size_t waits_ = 0;
  Oracle oracle_;
  SecondThread second_;
};

class AsyncPrograms : public testing::TestWithParam<int> {};

TEST_P(AsyncPrograms, AreReportedForExactlyWhatNoPathOrders) {
  RandomProgram program(static_cast<uint64_t>(GetParam()));
  for (int i = 0; i < 150; ++i) program.step();
  EXPECT_EQ(program.reports(), program.oracle().reports());
  EXPECT_EQ(program.wait_count(), program.waits_made());
}

// One piece of work after another, spread over streams: y = 3 y + x + number.
struct Task {
  size_t stream = 0, x = 0, y = 0;
};

class OrderedProgram {
 public:
  static constexpr size_t kStreams = 4, kNumbers = 5;

  explicit OrderedProgram(uint64_t seed) {
    std::mt19937_64 random(seed);
    for (size_t i = 0; i < 80; ++i)
      tasks_.push_back({random() % kStreams, random() % kNumbers, random() % kNumbers});
  }

  std::array<uint64_t, kNumbers> expected() const {
    std::array<uint64_t, kNumbers> numbers{};
    for (size_t i = 0; i < tasks_.size(); ++i)
      apply(i, &numbers[tasks_[i].y], &numbers[tasks_[i].x]);
    return numbers;
  }
  // Waits for the event of each earlier task that touched the same, one of both writing.
  std::array<uint64_t, kNumbers> run(AsyncWorld& world, runtime::Device& device) const {
    std::vector<std::unique_ptr<runtime::Stream>> streams;
    for (size_t i = 0; i < kStreams; ++i) streams.push_back(device.make_stream());
    const Buffer buffer = device.allocate(kNumbers * sizeof(uint64_t));
    auto* numbers = reinterpret_cast<uint64_t*>(buffer.data());
    streams[0]->fill_zero(numbers, buffer.bytes());
    streams[0]->synchronize();
    std::vector<std::unique_ptr<runtime::Event>> done;
    for (size_t i = 0; i < tasks_.size(); ++i) {
      const auto [stream, x, y] = tasks_[i];
      for (size_t j = 0; j < i; ++j)
        if (conflict(tasks_[j], tasks_[i])) streams[stream]->wait(*done[j]);
      const auto work = [i](uint64_t* to, const uint64_t* from) { apply(i, to, from); };
      launch(*streams[stream], work, memory(numbers + y, 1),
             memory<const uint64_t>(numbers + x, 1));
      streams[stream]->record(*done.emplace_back(device.make_event()));
    }
    const auto pinned = device.allocate_pinned(buffer.bytes());
    for (const auto& event : done) streams[0]->wait(*event);
    streams[0]->copy(pinned.get(), numbers, buffer.bytes());
    streams[0]->synchronize();
    std::array<uint64_t, kNumbers> result{};
    world.host_reads(pinned.get(), buffer.bytes());
    std::memcpy(result.data(), pinned.get(), buffer.bytes());
    return result;
  }

 private:
  static void apply(size_t task, uint64_t* y, const uint64_t* x) { *y = 3 * *y + *x + task; }
  static bool conflict(const Task& a, const Task& b) {
    return a.y == b.y || a.x == b.y || a.y == b.x;
  }

  std::vector<Task> tasks_;
};

TEST_P(AsyncPrograms, ThatOrderTheirWorkComputeWhatTheySayWithoutReports) {
  const auto seed = static_cast<uint64_t>(GetParam());
  const OrderedProgram program(seed);
  const auto world = std::make_shared<AsyncWorld>(seed);
  const auto device = make_async_device(world);
  EXPECT_EQ(program.run(*world, *device), program.expected());
  EXPECT_THAT(world->reports(), IsEmpty());
}

TEST_P(AsyncPrograms, AreReportedWithoutTheirWaitsThoughTheyComputeTheSame) {
  const auto seed = static_cast<uint64_t>(GetParam());
  const OrderedProgram program(seed);
  const auto whole = std::make_shared<AsyncWorld>(seed);
  (void)program.run(*whole, *make_async_device(whole));
  const size_t last = whole->waits() - 1;
  for (const size_t first : {size_t{0}, last}) {
    const auto world = std::make_shared<AsyncWorld>(seed);
    for (size_t wait = first; wait <= last; ++wait) world->drop_wait(wait);
    EXPECT_EQ(program.run(*world, *make_async_device(world)), program.expected());
    EXPECT_FALSE(world->reports().empty());
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, AsyncPrograms, seeds(0, 39));

}  // namespace
}  // namespace kerf::tests
