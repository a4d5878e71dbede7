#include "runtime/wire.h"

#include <cstring>
#include <exception>

#include "runtime/crc32c.h"

namespace kerf::runtime {

namespace {

constexpr uint32_t kMagic = 0x4652454B;  // "KERF"

struct Header {
  uint32_t magic = kMagic;
  uint16_t version = kProtocol;
  uint16_t type = 0;
  uint32_t epoch = 0;
  uint32_t reserved = 0;
  uint64_t sequence = 0;
  uint32_t length = 0;
  uint32_t checksum = 0;
};
static_assert(sizeof(Header) == kHeaderBytes && offsetof(Header, sequence) == 16 &&
              offsetof(Header, checksum) == 28 && std::is_trivially_copyable_v<Header>);

uint32_t checksum_of(const Header& header, std::string_view payload) {
  const std::string_view head(reinterpret_cast<const char*>(&header), offsetof(Header, checksum));
  return extend_crc32c(extend_crc32c(0, head), payload);
}

FrameFault fault_of(const Header& header, std::string_view payload, size_t max_payload) {
  if (header.magic != kMagic) return FrameFault::kMagic;
  if (header.length != payload.size() || header.length > max_payload) return FrameFault::kLength;
  if (header.checksum != checksum_of(header, payload)) return FrameFault::kChecksum;
  // Only of a frame that is sound: else a bit that fell over would end whoever it came to.
  if (header.version != kProtocol || header.reserved != 0) return FrameFault::kVersion;
  return FrameFault::kNone;
}

}  // namespace

std::string_view to_string(FrameFault fault) {
  switch (fault) {
    case FrameFault::kNone:
      return "no fault";
    case FrameFault::kShort:
      return "shorter than a header";
    case FrameFault::kMagic:
      return "not a message of Kerf";
    case FrameFault::kVersion:
      return "another version of the protocol";
    case FrameFault::kLength:
      return "wrong or excessive length";
    case FrameFault::kChecksum:
      return "wrong checksum";
  }
  return "unknown fault";
}

uint32_t crc32c(std::string_view bytes) { return extend_crc32c(0, bytes); }

std::string make_frame(const FrameHeader& header, std::string_view payload, size_t max_payload) {
  KERF_CHECK(payload.size() <= std::min<size_t>(max_payload, std::numeric_limits<uint32_t>::max()),
             "a payload of {} bytes exceeds the limit of {}", payload.size(), max_payload);
  Header full;
  full.type = header.type;
  full.epoch = header.epoch;
  full.sequence = header.sequence;
  full.length = static_cast<uint32_t>(payload.size());
  full.checksum = checksum_of(full, payload);
  std::string frame;
  frame.reserve(kHeaderBytes + payload.size());
  frame.append(reinterpret_cast<const char*>(&full), kHeaderBytes);
  frame.append(payload);
  return frame;
}

std::optional<Frame> parse_frame(std::string_view bytes, FrameFault& fault, size_t max_payload) {
  fault = FrameFault::kShort;
  if (bytes.size() < kHeaderBytes) return std::nullopt;
  Header header;
  std::memcpy(&header, bytes.data(), kHeaderBytes);
  const std::string_view payload = bytes.substr(kHeaderBytes);
  fault = fault_of(header, payload, max_payload);
  if (fault != FrameFault::kNone) return std::nullopt;
  return Frame{{header.type, header.epoch, header.sequence}, payload};
}

void throw_wire_too_deep(ErrorCode code) {
  throw Error(code, format("a message nests deeper than {}", kMaxWireDepth));
}

void throw_wire_too_short(size_t wanted, size_t left) {
  throw Error(ErrorCode::kProtocol,
              format("a message claims {} bytes where {} are left", wanted, left));
}

void throw_wire_fault(std::string_view fault) {
  throw Error(ErrorCode::kProtocol, format("malformed message: {}", fault));
}

void throw_wire_count(size_t count) {
  throw Error(ErrorCode::kInternal, format("{} elements do not fit a message", count));
}

void rethrow_as_protocol_error() {
  try {
    throw;
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kProtocol) throw;
    throw Error(ErrorCode::kProtocol, error.message(), error.where());
  } catch (const std::exception& error) {
    throw Error(ErrorCode::kProtocol, format("malformed message: {}", error.what()));
  }
}

}  // namespace kerf::runtime
