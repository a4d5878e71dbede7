#include "runtime/wire.h"

#include <gmock/gmock.h>

#include "runtime/activity.h"
#include "runtime/channel.h"
#include "tests/runtime/wire_sample.h"
#include "tests/support/errors.h"

namespace kerf::runtime {
namespace {

using testing::HasSubstr;
using tests::error_of;

TEST(Crc32c, HasThePublishedCheckValues) {
  EXPECT_EQ(crc32c(""), 0u);
  EXPECT_EQ(crc32c("123456789"), 0xE3069283u);
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8A9136AAu);  // RFC 3720, B.4
  EXPECT_EQ(crc32c(std::string(32, '\xff')), 0x62A8AB43u);
}

// ---- Values

TEST(Wire, CarriesEveryKindOfValue) {
  SampleMaker maker(1);
  for (int i = 0; i < 500; ++i) {
    const Sample sample = maker.make();
    ASSERT_EQ(decode<Sample>(encode(sample)), sample) << "value " << i;
  }
}

TEST(Wire, IsLittleEndianAndHasNoNames) {
  const std::vector<uint16_t> values = {0x0102, 0x0304};
  EXPECT_EQ(encode(values), std::string("\x02\0\0\0\x02\x01\x04\x03", 8));
  EXPECT_EQ(encode(true), "\x01");
  EXPECT_EQ(encode(std::string("ab")), std::string("\x02\0\0\0ab", 6));
  EXPECT_EQ(encode(Colour::kBlue), std::string("\x03\0", 2));
}

TEST(Wire, CarriesTheMessagesOfThisFloor) {
  Wiring wiring;
  wiring.self = 2;
  wiring.token = 0xFEEDFACECAFEBEEF;
  wiring.addresses = {{0, "tcp://127.0.0.1:5555"}, {1, "ipc://@kerf-1"}};
  wiring.transports = {{0, TransportKind::kTcp}, {1, TransportKind::kShm}};
  wiring.send[1] = {{65536, 3}, {1024, 1}};
  const Wiring back = decode<Wiring>(encode(wiring));
  EXPECT_EQ(back.token, wiring.token);
  EXPECT_EQ(back.addresses, wiring.addresses);
  EXPECT_EQ(back.transports, wiring.transports);
  EXPECT_EQ(back.send, wiring.send);

  const ActivityReport report{"step 1: 0F0", "step 0: 0U", "x", 3, 17, 42};
  EXPECT_EQ(decode<ActivityReport>(encode(report)).awaited, 3);
}

// ---- Values from strangers

template <class T>
void expect_refused(const std::string& bytes, const std::string& why) {
  const auto error = error_of([&] { (void)decode<T>(bytes); });
  ASSERT_TRUE(error) << why;
  EXPECT_EQ(error->code(), ErrorCode::kProtocol);
  EXPECT_THAT(error->message(), HasSubstr(why));
}

std::string count(uint32_t value) { return encode(value); }

TEST(Decode, RefusesCountsThatTheBytesCannotHold) {
  expect_refused<std::vector<float>>(count(1u << 29) + "12345678", "claims 2147483648 bytes");
  expect_refused<std::vector<std::string>>(count(0xFFFFFFFF) + "1234", "claims");
  expect_refused<std::vector<Sample>>(count(0xFFFFFFFF), "claims");
  expect_refused<std::string>(count(0xFFFFFFFF), "claims");
  expect_refused<std::map<int32_t, std::string>>(count(2) + std::string(15, '\0'), "claims");
  expect_refused<std::vector<uint64_t>>(std::string("\0\0\0\0\0\0\0\x20", 8), "left over");  // 2^61
}

TEST(Decode, RefusesBytesTooManyAndTooFew) {
  expect_refused<int32_t>("12345", "left over");
  expect_refused<int32_t>("123", "claims 4 bytes where 3 are left");
  expect_refused<int32_t>("", "claims");
}

TEST(Decode, RefusesABoolThatIsNeitherZeroNorOne) {
  expect_refused<bool>("\x02", "bool");
  expect_refused<std::vector<bool>>(count(1) + "\xff", "bool");
  expect_refused<std::optional<int8_t>>("\x03\x01", "bool");
}

TEST(Decode, RefusesMapsWhoseKeysDoNotAscend) {
  const std::string one = encode(1), two = encode(2);
  EXPECT_EQ((decode<std::map<int, int>>(count(2) + one + one + two + one).size()), 2u);
  expect_refused<std::map<int, int>>(count(2) + two + one + one + one, "ascend");
  expect_refused<std::map<int, int>>(count(2) + one + one + one + one, "ascend");
}

struct Nest {
  std::vector<Nest> inner;
  template <class Archive>
  void serialize(Archive& archive) {
    archive(inner);
  }
};

TEST(Decode, LimitsDepth) {
  const auto nested = [](int depth) {
    std::string bytes;
    for (int i = 1; i < depth; ++i) bytes += count(1);
    return bytes + count(0);
  };
  EXPECT_NO_THROW((void)decode<Nest>(nested(kMaxWireDepth)));
  expect_refused<Nest>(nested(kMaxWireDepth + 1), "nests deeper");
  expect_refused<Nest>(nested(200'000), "nests deeper");
}

TEST(Encode, RefusesWhatCouldNotBeReadBack) {
  Nest nest;
  for (int i = 0; i < kMaxWireDepth; ++i) {
    Nest outer;
    outer.inner.push_back(std::move(nest));
    nest = std::move(outer);
  }
  EXPECT_EQ(error_of([&] { (void)encode(nest); })->code(), ErrorCode::kInternal);
}

struct Choosy {
  int32_t value = 0;
  template <class Archive>
  void serialize(Archive& archive) {
    archive(value);
    if (value == 13) throw Error(ErrorCode::kUsage, "13 is not liked");
    if (value == 14) throw std::length_error("14 is too long");
  }
};

TEST(Decode, TurnsTheOwnersObjectionsIntoProtocolErrors) {
  expect_refused<Choosy>(encode(13), "13 is not liked");
  expect_refused<Choosy>(encode(14), "14 is too long");
}

// ---- Frames

std::string frame_of(const std::string& payload) { return make_frame({7, 3, 99}, payload); }

FrameFault fault_of(const std::string& bytes, size_t max_payload = kMaxControlBytes) {
  FrameFault fault = FrameFault::kNone;
  const bool taken = parse_frame(bytes, fault, max_payload).has_value();
  EXPECT_EQ(taken, fault == FrameFault::kNone);
  return fault;
}

TEST(Frame, IsReadBack) {
  const std::string bytes = frame_of("payload");
  EXPECT_EQ(bytes.size(), kHeaderBytes + 7);
  FrameFault fault{};
  const auto frame = parse_frame(bytes, fault);
  ASSERT_TRUE(frame);
  EXPECT_EQ(frame->header.type, 7);
  EXPECT_EQ(frame->header.epoch, 3u);
  EXPECT_EQ(frame->header.sequence, 99u);
  EXPECT_EQ(frame->payload, "payload");
  EXPECT_EQ(fault_of(frame_of("")), FrameFault::kNone);
}

TEST(Frame, HasTheWrittenHeader) {
  const std::string bytes = make_frame({0x0102, 0x03040506, 0x0708090A0B0C0D0E}, "xyz");
  EXPECT_EQ(bytes.substr(0, 28), std::string("KERF\x03\0\x02\x01\x06\x05\x04\x03\0\0\0\0"
                                             "\x0E\x0D\x0C\x0B\x0A\x09\x08\x07\x03\0\0\0",
                                             28));
  const uint32_t checksum = crc32c(bytes.substr(0, 28) + "xyz");
  EXPECT_EQ(bytes.substr(28, 4), encode(checksum));
}

// Changes one byte and makes the checksum right again, as a stranger could.
std::string forged(size_t at, char value) {
  std::string bytes = frame_of("payload");
  bytes[at] = value;
  bytes.replace(28, 4, encode(crc32c(bytes.substr(0, 28) + bytes.substr(32))));
  return bytes;
}

TEST(Frame, IsRefusedForItsReason) {
  EXPECT_EQ(fault_of(""), FrameFault::kShort);
  EXPECT_EQ(fault_of(frame_of("x").substr(0, kHeaderBytes - 1)), FrameFault::kShort);
  EXPECT_EQ(fault_of(forged(0, 'k')), FrameFault::kMagic);
  EXPECT_EQ(fault_of(forged(4, kProtocol + 1)), FrameFault::kVersion);
  EXPECT_EQ(fault_of(forged(12, 1)), FrameFault::kVersion);
  EXPECT_EQ(fault_of(forged(24, 8)), FrameFault::kLength);
  EXPECT_EQ(fault_of(frame_of("payload") + "x"), FrameFault::kLength);
  EXPECT_EQ(fault_of(frame_of("payload"), 6), FrameFault::kLength);
  for (const size_t at : {size_t{4}, size_t{12}, kHeaderBytes}) {
    std::string bytes = frame_of("payload");
    bytes[at] ^= 1;
    EXPECT_EQ(fault_of(bytes), FrameFault::kChecksum) << at;
  }
}

TEST(Frame, IsNeverMadeLargerThanItsReaderTakes) {
  EXPECT_NO_THROW((void)make_frame({}, "1234", 4));
  EXPECT_EQ(error_of([] { (void)make_frame({}, "12345", 4); })->code(), ErrorCode::kInternal);
  EXPECT_EQ(error_of([] { (void)make_frame({}, std::string(kMaxControlBytes + 1, 'x')); })->code(),
            ErrorCode::kInternal);
}

TEST(Frame, IsRefusedWhereverItIsCut) {
  SampleMaker maker(2);
  for (int i = 0; i < 20; ++i) {
    const std::string bytes = frame_of(encode(maker.make(1)));
    for (size_t size = 0; size < bytes.size(); ++size)
      ASSERT_NE(fault_of(bytes.substr(0, size)), FrameFault::kNone)
          << "frame " << i << ", " << size;
  }
}

TEST(Frame, IsRefusedWhicheverByteChanges) {
  SampleMaker maker(3);
  for (int i = 0; i < 10; ++i) {
    std::string bytes = frame_of(encode(maker.make(0)));
    for (char& byte : bytes)
      for (int flip = 1; flip < 256; ++flip) {
        byte = static_cast<char>(byte ^ flip);
        ASSERT_NE(fault_of(bytes), FrameFault::kNone) << "frame " << i;
        byte = static_cast<char>(byte ^ flip);
      }
  }
}

}  // namespace
}  // namespace kerf::runtime
