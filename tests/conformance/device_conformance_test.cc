// What every device promises (runtime/device.h), asked of each kind. Kinds that this host lacks are
// skipped. Nothing here looks into device memory but through a stream.
#include <gmock/gmock.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <random>
#include <thread>

#include "runtime/device.h"
#include "runtime/host_work.h"
#include "runtime/time.h"
#include "tests/support/async_device.h"
#include "tests/support/errors.h"

namespace kerf::runtime {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using tests::error_of;

constexpr char kAsyncTest[] = "async-test";

class DeviceConformance : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (GetParam() == kAsyncTest) {
      device_ = tests::make_async_device(world_);
    } else {
      const auto names = device_names();
      if (std::find(names.begin(), names.end(), GetParam()) == names.end())
        GTEST_SKIP() << "this host has no " << GetParam();
      device_ = make_device(GetParam());
    }
    stream_ = device_->make_stream();
  }
  // What this suite does is right on any device, so no luck is needed.
  void TearDown() override { EXPECT_THAT(world_->reports(), IsEmpty()); }

  Buffer filled(const std::vector<uint8_t>& bytes) {
    Buffer buffer = device_->allocate(bytes.size());
    stream_->copy(buffer.data(), bytes.data(), bytes.size());
    return buffer;
  }
  std::vector<uint8_t> content(const Buffer& buffer, Stream& stream) {
    std::vector<uint8_t> bytes(buffer.bytes());
    stream.copy(bytes.data(), buffer.data(), bytes.size());
    stream.synchronize();
    return bytes;
  }

  const std::shared_ptr<tests::AsyncWorld> world_ = std::make_shared<tests::AsyncWorld>(1);
  std::unique_ptr<Device> device_;
  std::unique_ptr<Stream> stream_;
};

std::vector<uint8_t> pattern(size_t size, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<uint8_t> bytes(size);
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random());
  return bytes;
}

TEST_P(DeviceConformance, SaysWhatItIs) {
  EXPECT_EQ(device_->name(), GetParam());
  EXPECT_FALSE(device_->description().empty());
  EXPECT_EQ(device_->kind(), GetParam() == "cuda:0" ? DeviceKind::kCuda : DeviceKind::kCpu);
  EXPECT_GT(device_->memory().capacity, size_t{1} << 20);
}

TEST_P(DeviceConformance, GivesAlignedMemoryThatKnowsItsDevice) {
  for (const size_t bytes : {1u, 63u, 64u, 65u, 1000u, 4096u, 1u << 20}) {
    const Buffer buffer = device_->allocate(bytes);
    ASSERT_TRUE(buffer);
    EXPECT_EQ(buffer.bytes(), bytes);
    EXPECT_EQ(buffer.device(), device_.get());
    EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer.data()) % 64, 0u);
  }
}

TEST_P(DeviceConformance, GivesNothingForZeroBytes) {
  EXPECT_FALSE(device_->allocate(0));
  EXPECT_EQ(device_->memory().peak, 0u);
}

TEST_P(DeviceConformance, CountsEveryByteInUse) {
  std::mt19937_64 random(3);
  std::vector<Buffer> buffers;
  size_t current = 0, peak = 0;
  for (int i = 0; i < 300; ++i) {
    if (random() % 3 != 0 || buffers.empty()) {
      const size_t bytes = 1 + random() % 100'000;
      buffers.push_back(device_->allocate(bytes));
      current += bytes;
    } else {
      const size_t victim = random() % buffers.size();
      current -= buffers[victim].bytes();
      buffers.erase(buffers.begin() + static_cast<ptrdiff_t>(victim));
    }
    peak = std::max(peak, current);
    ASSERT_EQ(device_->memory().current, current);
    ASSERT_EQ(device_->memory().peak, peak);
  }
  buffers.resize(1);
  device_->reset_peak();
  EXPECT_EQ(device_->memory().peak, buffers[0].bytes());
  buffers.clear();
  EXPECT_EQ(device_->memory().current, 0u);
}

TEST_P(DeviceConformance, TakesMovedBuffersBackOnce) {
  Buffer a = device_->allocate(100);
  Buffer b = std::move(a);
  EXPECT_FALSE(a);  // NOLINT(bugprone-use-after-move): that it is empty is the promise
  a = device_->allocate(30);
  EXPECT_EQ(device_->memory().current, 130u);
  b = std::move(a);
  EXPECT_EQ(device_->memory().current, 30u);
  b = Buffer();
  EXPECT_EQ(device_->memory().current, 0u);
}

TEST_P(DeviceConformance, RefusesTheImpossibleByNameAndCountsNothing) {
  const Buffer before = device_->allocate(10);
  for (const size_t bytes : {size_t{1} << 50, ~size_t{0} - 4096}) {
    const auto error = error_of([&] { (void)device_->allocate(bytes); });
    ASSERT_TRUE(error);
    EXPECT_EQ(error->code(), ErrorCode::kUnavailable);
    EXPECT_THAT(error->what(), HasSubstr(GetParam()));
    EXPECT_THAT(error->what(), HasSubstr(format("{} bytes", bytes)));
  }
  EXPECT_EQ(device_->memory().current, 10u);
  EXPECT_EQ(device_->memory().peak, 10u);
  EXPECT_TRUE(device_->allocate(1000)) << "the device is usable after the refusal";
}

TEST_P(DeviceConformance, KeepsUnderItsCap) {
  const Buffer before = device_->allocate(1'000);
  device_->cap_memory(5'000);
  Buffer more = device_->allocate(4'000);
  ASSERT_TRUE(more) << "the cap itself is no excess";
  const auto error = error_of([&] { (void)device_->allocate(7); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), ErrorCode::kUnavailable);
  for (const char* part :
       {GetParam().c_str(), "7 bytes", "cap", "4.88 KiB of 4.88 KiB", "please report"})
    EXPECT_THAT(error->what(), HasSubstr(part));
  EXPECT_EQ(device_->memory().current, 5'000u);
  EXPECT_EQ(device_->memory().peak, 5'000u);
  more = Buffer();
  EXPECT_TRUE(device_->allocate(4'000)) << "what was given back counts no more";
  EXPECT_THAT(error_of([&] { (void)device_->allocate(~size_t{0} - 500); })->what(),
              HasSubstr("cap"));
  device_->cap_memory(0);
  EXPECT_TRUE(device_->allocate(100'000));
}

TEST_P(DeviceConformance, KeepsUnderItsCapWhoeverAllocates) {
  constexpr size_t kCap = 10'000;
  device_->cap_memory(kCap);
  std::vector<std::jthread> threads;
  for (int thread = 0; thread < 4; ++thread)
    threads.emplace_back([this] {
      for (int i = 0; i < 200; ++i) try {
          const Buffer buffer = device_->allocate(3'000);
        } catch (const Error& error) {
          EXPECT_EQ(error.code(), ErrorCode::kUnavailable);
        }
    });
  threads.clear();
  EXPECT_EQ(device_->memory().current, 0u);
  EXPECT_LE(device_->memory().peak, kCap);
  EXPECT_GE(device_->memory().peak, 3'000u);
}

// Of the host, that it allocated itself: as what is pinned, until it takes it back.
TEST_P(DeviceConformance, ReachesMemoryThatIsRegistered) {
  const size_t size = size_t{1} << 20;
  const std::unique_ptr<void, decltype(&std::free)> pages(std::aligned_alloc(4096, size),
                                                          &std::free);
  auto* memory = static_cast<uint8_t*>(pages.get());
  const auto bytes = pattern(size, 5);
  std::copy(bytes.begin(), bytes.end(), memory);
  for (int time = 0; time < 2; ++time) {
    HostRegistration registration = device_->register_host(memory, size);
    EXPECT_EQ(registration != nullptr, !device_->reaches_host_memory());
    const Buffer there = device_->allocate(size);
    stream_->copy(there.data(), memory, size);
    EXPECT_EQ(content(there, *stream_), bytes);
    stream_->fill_zero(memory, size / 2);  // no copy: it is the stream's to write to
    stream_->copy(memory, there.data(), size / 4);
    stream_->synchronize();
    EXPECT_TRUE(std::equal(bytes.begin(), bytes.begin() + size / 4, memory));
    EXPECT_TRUE(
        std::all_of(memory + size / 4, memory + size / 2, [](uint8_t b) { return b == 0; }));
    EXPECT_TRUE(std::equal(bytes.begin() + size / 2, bytes.end(), memory + size / 2));
    registration.reset();
    std::copy(bytes.begin(), bytes.end(), memory);
  }
  EXPECT_FALSE(device_->register_host(memory, 0));
  EXPECT_EQ(device_->memory().current, 0u);
}

TEST_P(DeviceConformance, SharesItsMemoryOrSaysWhyNot) {
  if (device_->exports_memory()) {
    const Buffer buffer = device_->allocate_exportable(kExportedBlock + 1);
    EXPECT_EQ(buffer.bytes(), 2 * kExportedBlock);
    EXPECT_EQ(device_->memory().current, 2 * kExportedBlock);
    EXPECT_FALSE(device_->export_memory(buffer).empty());
    return;
  }
  for (const auto& act :
       std::vector<std::function<void()>>{[&] { (void)device_->allocate_exportable(1); },
                                          [&] { (void)device_->export_memory(Buffer()); },
                                          [&] { (void)device_->import_memory("", 1); }}) {
    const auto error = error_of(act);
    ASSERT_TRUE(error);
    EXPECT_EQ(error->code(), ErrorCode::kUnavailable);
    EXPECT_THAT(error->what(), HasSubstr(GetParam()));
    EXPECT_THAT(error->what(), HasSubstr("--transport"));
  }
}

TEST_P(DeviceConformance, CopiesBetweenHostAndDeviceAndWithin) {
  for (const size_t size : {1u, 63u, 64u, 65u, 4096u, (1u << 20) + 3}) {
    const auto bytes = pattern(size, size);
    const Buffer first = filled(bytes);
    const Buffer second = device_->allocate(size);
    stream_->copy(second.data(), first.data(), size);
    EXPECT_EQ(content(second, *stream_), bytes) << size;
  }
}

TEST_P(DeviceConformance, CopiesAndClearsNothingWithoutHarm) {
  stream_->copy(nullptr, nullptr, 0);
  stream_->fill_zero(nullptr, 0);
  stream_->synchronize();
}

TEST_P(DeviceConformance, ClearsExactlyWhatItIsTold) {
  const Buffer buffer = filled(std::vector<uint8_t>(1000, 0xAB));
  stream_->fill_zero(buffer.data() + 100, 800);
  std::vector<uint8_t> expected(1000, 0xAB);
  std::fill_n(expected.begin() + 100, 800, uint8_t{0});
  EXPECT_EQ(content(buffer, *stream_), expected);
}

TEST_P(DeviceConformance, DoesTheWorkOfAStreamInOrder) {
  const auto bytes = pattern(1 << 18, 9);
  const Buffer source = filled(bytes);
  const Buffer target = device_->allocate(bytes.size());
  for (int i = 0; i < 20; ++i) {
    stream_->fill_zero(target.data(), target.bytes());
    stream_->copy(target.data(), source.data(), source.bytes());
  }
  EXPECT_EQ(content(target, *stream_), bytes);
}

TEST_P(DeviceConformance, HasEventsThatAreReadyUntilRecorded) {
  const auto event = device_->make_event();
  EXPECT_TRUE(event->ready());
  event->wait();
}

TEST_P(DeviceConformance, HasEventsThatTellWhenWorkIsDone) {
  const auto bytes = pattern(1 << 20, 4);
  const Buffer buffer = filled(bytes);
  std::vector<uint8_t> back(bytes.size());
  const auto event = device_->make_event();
  stream_->copy(back.data(), buffer.data(), back.size());
  stream_->record(*event);
  event->wait();
  EXPECT_TRUE(event->ready());
  EXPECT_EQ(back, bytes);
}

TEST_P(DeviceConformance, TellsWhenItCameToWhatWasEnqueued) {
  using std::chrono::milliseconds;
  constexpr int64_t kWork = 20'000'000;
  constexpr int64_t kSkew = 1'000'000;  // of both clocks; what a busy host adds is in between
  const auto timeline = device_->make_timeline(*stream_);
  for (int stretch = 0; stretch < 2; ++stretch) {
    const int64_t before = now_ns();
    timeline->begin();
    timeline->mark();
    int64_t nothing = 0;
    launch(
        *stream_, [](int64_t*) { std::this_thread::sleep_for(milliseconds(20)); },
        memory(&nothing, 0));
    timeline->mark();
    timeline->mark();
    stream_->synchronize();
    const int64_t after = now_ns();
    const auto moments = timeline->moments();
    ASSERT_EQ(moments.size(), 3u);
    EXPECT_GE(moments[0], before - kSkew);
    EXPECT_GE(moments[1], moments[0] + kWork - kSkew);
    EXPECT_GE(moments[2], moments[1]);
    EXPECT_LE(moments[2], after + kSkew);
  }
}

TEST_P(DeviceConformance, OrdersStreamsByEvents) {
  const auto other = device_->make_stream();
  const auto event = device_->make_event();
  const Buffer middle = device_->allocate(1 << 20);
  for (uint64_t round = 0; round < 10; ++round) {  // the event is used again
    const auto bytes = pattern(middle.bytes(), round);
    const Buffer source = filled(bytes);
    stream_->copy(middle.data(), source.data(), source.bytes());
    stream_->record(*event);
    other->wait(*event);
    ASSERT_EQ(content(middle, *other), bytes);
  }
}

TEST_P(DeviceConformance, AwaitsEventsOfTheCpu) {
  const auto cpu = make_cpu_device();
  const auto event = cpu->make_event();
  cpu->make_stream()->record(*event);
  stream_->wait(*event);
  stream_->synchronize();
}

TEST_P(DeviceConformance, ServesManyThreads) {
  std::vector<std::jthread> threads;
  std::atomic<int> wrong = 0;
  for (uint64_t seed = 0; seed < 4; ++seed)
    threads.emplace_back([this, seed, &wrong] {
      std::mt19937_64 random(seed);
      const auto stream = device_->make_stream();
      for (int i = 0; i < 50; ++i) {
        const auto bytes = pattern(1 + random() % 5000, seed);
        const Buffer buffer = device_->allocate(bytes.size());
        stream->copy(buffer.data(), bytes.data(), bytes.size());
        if (content(buffer, *stream) != bytes) ++wrong;
      }
    });
  threads.clear();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(device_->memory().current, 0u);
  EXPECT_LE(device_->memory().peak, 4u * 5000u);
  EXPECT_GT(device_->memory().peak, 0u);
}

INSTANTIATE_TEST_SUITE_P(Devices, DeviceConformance, testing::Values("cpu", "cuda:0", kAsyncTest),
                         [](const auto& name) {
                           return name.param.substr(0, name.param.find_first_of(":-"));
                         });

TEST(DeviceNames, BeginWithTheCpuAndCanAllBeMade) {
  const auto names = device_names();
  ASSERT_FALSE(names.empty());
  EXPECT_EQ(names[0], "cpu");
  EXPECT_EQ(names.size(), 1u + static_cast<size_t>(cuda_support().devices));
  for (const std::string& name : names) EXPECT_EQ(make_device(name)->name(), name);
}

TEST(DeviceNames, HaveTheHardwaresIdentity) {
  std::vector<std::string> seen;
  for (const std::string& name : device_names()) {
    const std::string identity = device_identity(name);
    EXPECT_EQ(identity, device_identity(name));
    EXPECT_EQ(identity.empty(), name == "cpu");
    EXPECT_EQ(std::count(seen.begin(), seen.end(), identity), 0);
    seen.push_back(identity);
  }
  EXPECT_EQ(error_of([] { (void)device_identity("pigeon"); })->code(), ErrorCode::kUsage);
}

TEST(DeviceNames, ThatAreNoneAreRefusedWithThoseThereAre) {
  for (const char* name :
       {"", "gpu", "cuda", "cuda:", "cuda:x", "cuda:1x", "cuda:-1", "CPU", "cuda:99999999999"}) {
    const auto error = error_of([&] { (void)make_device(name); });
    ASSERT_TRUE(error) << name;
    EXPECT_EQ(error->code(), ErrorCode::kUsage);
    EXPECT_THAT(error->message(), HasSubstr("this host has cpu"));
  }
}

TEST(DeviceNames, OfAbsentGpusAreRefusedAsUnavailable) {
  const std::string name = format("cuda:{}", cuda_support().devices);
  const auto error = error_of([&] { (void)make_device(name); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), ErrorCode::kUnavailable);
  EXPECT_THAT(error->what(), HasSubstr(name));
}

}  // namespace
}  // namespace kerf::runtime
