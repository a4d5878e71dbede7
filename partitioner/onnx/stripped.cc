#include "partitioner/onnx/stripped.h"

#include <algorithm>

namespace kerf::partitioner::onnx {
namespace {

// Numbers of fields, of onnx.proto.
constexpr uint64_t kGraphOfModel = 7;
constexpr uint64_t kInitializerOfGraph = 5;
constexpr uint64_t kRawDataOfTensor = 9;
constexpr uint64_t kLargeBytes = 1024;
constexpr uint64_t kMostBytes = uint64_t{1} << 31;
// What is not weights: the nodes of the largest graphs take some megabytes.
constexpr uint64_t kMostMessage = uint64_t{1} << 30;

enum WireType : uint8_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

struct Field {
  uint64_t number = 0;
  uint64_t type = 0;
  uint64_t begin = 0;  // of the value, behind the tag and what says its length
  uint64_t end = 0;
  uint64_t tag = 0;  // where the field begins
};

class Stripper {
 public:
  explicit Stripper(const WeightFile& file) : file_(file) {}

  Stripped strip() {
    if (file_.bytes() >= kMostBytes)
      refuse("it has 2 GiB or more, which no protobuf message may; keep weights as external data",
             0);
    Stripped result;
    bool has_graph = false;
    for (uint64_t at = 0; at < file_.bytes();) {
      const Field field = next(at, file_.bytes());
      at = field.end;
      if (field.number != kGraphOfModel || field.type != kBytes) {
        copy(field.tag, field.end, result.message);
        continue;
      }
      if (has_graph) refuse("it has two graphs", field.tag);
      has_graph = true;
      put(field.number, graph(field, result), result.message);
    }
    if (!has_graph) refuse("it has no graph: is it an ONNX model?", 0);
    return result;
  }

 private:
  [[noreturn]] void refuse(const std::string& why, uint64_t at) const {
    throw Error(ErrorCode::kUsage, why, format("{}: byte {}", file_.origin(), at));
  }

  std::string graph(const Field& of, Stripped& result) {
    std::string message;
    int initializers = 0;
    for (uint64_t at = of.begin; at < of.end;) {
      const Field field = next(at, of.end);
      at = field.end;
      if (field.number == kInitializerOfGraph && field.type == kBytes)
        put(field.number, tensor(field, initializers++, result), message);
      else
        copy(field.tag, field.end, message);
    }
    return message;
  }

  std::string tensor(const Field& of, int number, Stripped& result) {
    std::string message;
    for (uint64_t at = of.begin; at < of.end;) {
      const Field field = next(at, of.end);
      at = field.end;
      const uint64_t bytes = field.end - field.begin;
      if (field.number != kRawDataOfTensor || field.type != kBytes || bytes < kLargeBytes)
        copy(field.tag, field.end, message);
      else if (!result.raw.emplace(number, RawBytes{field.begin, bytes}).second)
        refuse("an initializer has its bytes twice", field.tag);
    }
    return message;
  }

  Field next(uint64_t at, uint64_t limit) {
    Field field;
    field.tag = at;
    const uint64_t tag = varint(at, limit);
    field.number = tag >> 3;
    field.type = tag & 7;
    if (field.number == 0) refuse("it is no protobuf message", field.tag);
    uint64_t bytes = 0;
    switch (field.type) {
      case kVarint: {
        field.begin = at;
        varint(at, limit);
        field.end = at;
        return field;
      }
      case kFixed64:
        bytes = 8;
        break;
      case kBytes:
        bytes = varint(at, limit);
        break;
      case kFixed32:
        bytes = 4;
        break;
      default:
        refuse("it is no protobuf message", field.tag);
    }
    if (bytes > limit - at)
      refuse(format("a field of {} bytes, where {} are left: it is cut short, or no ONNX model",
                    bytes, limit - at),
             field.tag);
    field.begin = at;
    field.end = at + bytes;
    return field;
  }

  uint64_t varint(uint64_t& at, uint64_t limit) {
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      if (at >= limit) refuse("it is cut short", at);
      const uint64_t byte = byte_at(at++);
      value |= (byte & 0x7F) << shift;
      if (byte < 0x80) return value;
    }
    refuse("it is no protobuf message", at);
  }

  uint64_t byte_at(uint64_t at) {
    if (at < window_at_ || at >= window_at_ + window_.size()) {
      window_at_ = at;
      window_.resize(std::min<uint64_t>(kLargeBytes, file_.bytes() - at));
      file_.read(at, std::as_writable_bytes(std::span(window_)));
    }
    return static_cast<unsigned char>(window_[at - window_at_]);
  }

  void copy(uint64_t begin, uint64_t end, std::string& to) {
    copied_ += end - begin;
    if (copied_ > kMostMessage)
      refuse("it has more than 1 GiB that is no raw data of weights", end);
    const size_t had = to.size();
    to.resize(had + (end - begin));
    file_.read(begin, std::as_writable_bytes(std::span(to).subspan(had)));
  }

  static void put(uint64_t number, const std::string& value, std::string& to) {
    put_varint(number << 3 | kBytes, to);
    put_varint(value.size(), to);
    to += value;
  }

  static void put_varint(uint64_t value, std::string& to) {
    for (; value >= 0x80; value >>= 7) to += static_cast<char>((value & 0x7F) | 0x80);
    to += static_cast<char>(value);
  }

  const WeightFile& file_;
  std::string window_;
  uint64_t window_at_ = 0;
  uint64_t copied_ = 0;
};

}  // namespace

Stripped strip(const WeightFile& file) { return Stripper(file).strip(); }

}  // namespace kerf::partitioner::onnx
