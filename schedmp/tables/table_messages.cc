#include "schedmp/tables/table_messages.h"

#include <algorithm>
#include <cstring>

#include "runtime/error.h"
#include "runtime/wire.h"

namespace kerf::schedmp {

namespace {

constexpr size_t kAlign = 64;
constexpr int32_t kSlots = 4;
// Of the largest head: its ranges, and what else it has.
constexpr size_t kMostHead = kMostRanges * sizeof(ops::Range) + 128;

constexpr size_t aligned(size_t bytes) { return (bytes + kAlign - 1) / kAlign * kAlign; }

size_t head_bytes(const std::string& head) { return aligned(sizeof(uint32_t) + head.size()); }

}  // namespace

int64_t count_rows(const std::vector<ops::Range>& rows) {
  int64_t count = 0;
  for (const ops::Range& each : rows) count += each.size();
  return count;
}

int64_t rows_in_a_message(const TableSpec& spec) {
  return std::max<int64_t>(1, kTableMessageBytes / (spec.width * int64_t{sizeof(float)}));
}

size_t message_bytes(const TableHead& head, size_t numbers) {
  return head_bytes(runtime::encode(head)) + numbers * sizeof(float);
}

std::span<float> write_message(const TableHead& head, size_t numbers, std::span<std::byte> to) {
  const std::string bytes = runtime::encode(head);
  const auto size = static_cast<uint32_t>(bytes.size());
  std::memcpy(to.data(), &size, sizeof size);
  std::memcpy(to.data() + sizeof size, bytes.data(), bytes.size());
  return {reinterpret_cast<float*>(to.data() + head_bytes(bytes)), numbers};
}

TableMessage read_message(std::span<const std::byte> bytes) {
  const auto refuse = [] { throw Error(ErrorCode::kProtocol, "a message of no such form"); };
  uint32_t size = 0;
  if (bytes.size() < sizeof size) refuse();
  std::memcpy(&size, bytes.data(), sizeof size);
  if (size > kMostHead || bytes.size() < sizeof size + size) refuse();
  TableMessage message;
  const std::string_view head(reinterpret_cast<const char*>(bytes.data()) + sizeof size, size);
  message.head = runtime::decode<TableHead>(head);
  const size_t begin = std::min(bytes.size(), aligned(sizeof size + size));
  if ((bytes.size() - begin) % sizeof(float) != 0) refuse();
  message.numbers = {reinterpret_cast<const float*>(bytes.data() + begin),
                     (bytes.size() - begin) / sizeof(float)};
  return message;
}

runtime::LaneTable table_lanes(const std::vector<TableSpec>& specs, int workers) {
  if (specs.empty()) return {};
  const auto count = static_cast<size_t>(workers);
  runtime::LaneTable lanes(count, std::vector<std::vector<runtime::Lane>>(count));
  const auto join = [&](int a, int b, uint64_t bytes) {
    auto& lane = lanes[static_cast<size_t>(a)][static_cast<size_t>(b)];
    if (lane.empty()) lane.push_back({0, kSlots});
    lane[0].slot_bytes = std::max(lane[0].slot_bytes, bytes);
  };
  for (const TableSpec& spec : specs) {
    const auto row = static_cast<uint64_t>(spec.width) * sizeof(float);
    const auto most = static_cast<uint64_t>(std::min(spec.rows, rows_in_a_message(spec)));
    const uint64_t bytes = aligned(sizeof(uint32_t) + kMostHead) + most * row;
    for (const std::vector<int>& group : spec.groups)
      for (size_t a = 0; a < group.size(); ++a) {
        for (const int b : group)
          if (group[a] != b) join(group[a], b, bytes);
        for (const std::vector<int>& other : spec.groups)
          if (group[a] != other[a]) join(group[a], other[a], bytes);
      }
  }
  return lanes;
}

}  // namespace kerf::schedmp
