// Bytes from strangers: whatever arrives, decode gives a value whose bytes are exactly those that
// arrived, or Error{kProtocol}; and it allocates in proportion to what arrived.
#include <gtest/gtest.h>

#include "runtime/activity.h"
#include "runtime/channel.h"
#include "runtime/trace.h"
#include "runtime/wire.h"
#include "runtime/worker.h"
#include "tests/runtime/wire_sample.h"
#include "tests/support/allocation_meter.h"
#include "tests/support/mutated.h"

namespace kerf::runtime {
namespace {

// What one element of a container costs in memory, against the bytes that claim it: the largest
// struct here has 360 bytes for at least 62, a growing vector holds up to three times its elements.
constexpr size_t kAllowedPerByte = 32;
constexpr size_t kAllowedAlways = 4096;  // an Error and its text

enum class Outcome { kTaken, kRefused };

template <class T>
Outcome offer(const std::string& bytes) {
  const size_t before = tests::allocated_bytes();
  Outcome outcome = Outcome::kRefused;
  std::optional<T> value;
  try {
    value = decode<T>(bytes);
    outcome = Outcome::kTaken;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kProtocol) << error.what();
  }
  const size_t allocated = tests::allocated_bytes() - before;
  EXPECT_LE(allocated, kAllowedAlways + kAllowedPerByte * bytes.size());
  if (value) {
    EXPECT_EQ(encode(*value), bytes);
  }
  return outcome;
}

template <class T>
class Mutation : public testing::Test {};

template <class T>
T valid(SampleMaker& maker) {
  if constexpr (std::is_same_v<T, Sample>) {
    return maker.make();
  } else if constexpr (std::is_same_v<T, ActivityReport>) {
    return {maker.text(), maker.text(), maker.text(), 1, 2, 3};
  } else if constexpr (std::is_same_v<T, Span>) {
    return {maker.text(), Span::Kind::kSend, 2, 5, 9, maker.below(1 << 20)};
  } else if constexpr (std::is_same_v<T, Wiring>) {
    Wiring wiring;
    for (int32_t i = 0; i < 4; ++i) {
      wiring.addresses[i] = maker.text();
      wiring.transports[i] = static_cast<TransportKind>(maker.below(6));
      wiring.send[i].resize(maker.below(4));
      wiring.receive[i].resize(maker.below(4));
    }
    return wiring;
  } else {
    return T(maker.below(20));
  }
}

using Types = testing::Types<Sample, ActivityReport, Span, Wiring, std::vector<std::vector<float>>,
                             std::vector<std::map<int32_t, std::string>>>;
TYPED_TEST_SUITE(Mutation, Types);

TYPED_TEST(Mutation, IsRefusedOrTakenAsItStands) {
  SampleMaker maker(11);
  int taken = 0;
  for (int i = 0; i < 10'000 && !this->HasFailure(); ++i)
    if (offer<TypeParam>(tests::mutated(encode(valid<TypeParam>(maker)), maker.random())) ==
        Outcome::kTaken)
      ++taken;
  EXPECT_LT(taken, 9'900);  // otherwise the mutations miss
}

TYPED_TEST(Mutation, OfNoiseIsRefusedOrTakenAsItStands) {
  SampleMaker maker(12);
  for (int i = 0; i < 10'000 && !this->HasFailure(); ++i) {
    std::string bytes(maker.below(200), '\0');
    const uint64_t mask = maker.below(2) == 0 ? 0xFF : 0x03;  // small counts lead further in
    for (char& byte : bytes) byte = static_cast<char>(maker.below(256) & mask);
    offer<TypeParam>(bytes);
  }
}

TEST(Frames, OfNoiseAreRefused) {
  SampleMaker maker(13);
  for (int i = 0; i < 20'000; ++i) {
    std::string bytes = make_frame({1, 2, 3}, maker.text());
    const std::string changed = tests::mutated(bytes, maker.random());
    FrameFault fault{};
    ASSERT_EQ(parse_frame(changed, fault).has_value(), changed == bytes);
  }
}

}  // namespace
}  // namespace kerf::runtime
