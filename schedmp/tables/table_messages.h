// What those who serve a table and their clients say to each other: a head, and numbers behind it.
// Pure functions; what comes from another worker is checked before it is used.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "ops/layout.h"
#include "runtime/channel.h"
#include "schedmp/tables/table_spec.h"

namespace kerf::schedmp {

enum class TableWord : uint8_t {
  kRead,      // rows, once all have come to `clock`
  kAssign,    // rows become the numbers
  kAdd,       // rows grow by the numbers
  kGradient,  // rows change by the optimizer, whose gradient is the numbers
  kClock,     // the client's next clock; all its changes up to it came before
  kValues,    // answers kRead: the numbers, and the clock that all had come to
  kWaits,     // answers kRead for now: it waits for worker `clock`
  kChanges,   // from another group: rows grew there by the numbers
  kRest,      // that was all for now, from a client, or from another group
};

struct TableHead {
  TableWord word{};
  int32_t table = 0;
  int64_t id = 0;  // of a read: its answer has it, too
  int64_t clock = 0;
  // How often groups told each other all that they changed. kRead: must have; kClock: 1: they are
  // to once more; kChanges: the sender has, with these.
  int64_t settled = 0;
  bool decays = false;  // kGradient, and the next
  double rate = 0;
  float scale = 1;                    // of the numbers of kAdd and kGradient
  std::vector<ops::Range> rows = {};  // by the numbers of who serves them

  template <class Archive>
  void serialize(Archive& archive) {
    archive(word, table, id, clock, settled, decays, rate, scale);
    std::vector<std::pair<int64_t, int64_t>> ends;
    for (const ops::Range& each : rows) ends.emplace_back(each.begin, each.end);
    archive(ends);
    rows.clear();
    for (const auto& [begin, end] : ends) rows.push_back({begin, end});
  }
};

int64_t count_rows(const std::vector<ops::Range>& rows);

struct TableMessage {
  TableHead head;
  std::span<const float> numbers;
};

// How much goes into one message: rows by their bytes, and ranges of them.
inline constexpr int64_t kTableMessageBytes = int64_t{256} << 10;
inline constexpr size_t kMostRanges = 256;
int64_t rows_in_a_message(const TableSpec& spec);
// Of a message with so many numbers.
size_t message_bytes(const TableHead& head, size_t numbers);
// Writes one of that size; the numbers are where it returns, for the caller to write.
std::span<float> write_message(const TableHead& head, size_t numbers, std::span<std::byte> to);
// The numbers lie in `bytes`. Throws Error{kProtocol}.
TableMessage read_message(std::span<const std::byte> bytes);

// Channels between all workers of a group, and between those who serve the same rows in different
// ones.
runtime::LaneTable table_lanes(const std::vector<TableSpec>& specs, int workers);

}  // namespace kerf::schedmp
