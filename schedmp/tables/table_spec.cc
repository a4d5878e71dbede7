#include "schedmp/tables/table_spec.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "runtime/error.h"

namespace kerf::schedmp {

void complete(TableSpec& spec, int workers) {
  const auto require = [&](bool holds, const std::string& why) {
    if (!holds) throw Error(ErrorCode::kUsage, why, "table " + spec.name);
  };
  require(spec.rows >= 1 && spec.width >= 1, "it needs a row, and a number in it");
  require(spec.rows <= (int64_t{1} << 40) / spec.width,
          kerf::format("{} rows of {} numbers are too many", spec.rows, spec.width));
  require(spec.staleness >= TableSpec::kAnyStaleness,
          kerf::format("a staleness of {}; it is at least 0", spec.staleness));
  require(spec.exchange >= 1, "groups exchange what they changed every clock, or more seldom");
  require(spec.sharding == Sharding::kByBlock || spec.sharding == Sharding::kByKey,
          "there is no such sharding");
  if (spec.optimizer) ops::Optimizer checked(*spec.optimizer);
  if (spec.groups.empty()) {
    spec.groups.emplace_back(static_cast<size_t>(workers));
    std::iota(spec.groups[0].begin(), spec.groups[0].end(), 0);
  }
  std::set<int> all;
  for (const std::vector<int>& group : spec.groups) {
    require(!group.empty() && group.size() == spec.groups[0].size(), "groups are of one size");
    for (const int worker : group)
      require(worker >= 0 && worker < workers && all.insert(worker).second,
              kerf::format("worker {} is in it twice, or there is none", worker));
  }
}

TableRows::TableRows(const TableSpec& spec, int servers)
    : sharding_(spec.sharding), rows_(spec.rows), servers_(servers) {}

// As even as can be, without a product that overflows.
int64_t TableRows::first(int server) const {
  const int64_t each = rows_ / servers_;
  return server * each + std::min<int64_t>(server, rows_ % servers_);
}

int64_t TableRows::rows_of(int server) const { return own(server, {0, rows_}).size(); }

ops::Range TableRows::own(int server, ops::Range rows) const {
  if (sharding_ == Sharding::kByBlock) {
    const int64_t begin = first(server);
    const int64_t end = first(server + 1);
    const int64_t from = std::clamp(rows.begin, begin, end);
    return {from - begin, std::max(from, std::clamp(rows.end, begin, end)) - begin};
  }
  const auto before = [&](int64_t row) { return (row - server + servers_ - 1) / servers_; };
  return {before(std::max<int64_t>(rows.begin, 0)), before(rows.end)};
}

int64_t TableRows::row(int server, int64_t own) const {
  return sharding_ == Sharding::kByBlock ? first(server) + own : own * servers_ + server;
}

std::optional<TablePlace> place_in(const TableSpec& spec, int worker) {
  for (size_t group = 0; group < spec.groups.size(); ++group) {
    const auto& members = spec.groups[group];
    const auto found = std::ranges::find(members, worker);
    if (found != members.end())
      return TablePlace{static_cast<int>(group), static_cast<int>(found - members.begin())};
  }
  return std::nullopt;
}

int64_t table_bytes(const TableSpec& spec, int worker) {
  const std::optional<TablePlace> place = place_in(spec, worker);
  if (!place) return 0;
  const auto servers = static_cast<int>(spec.groups[0].size());
  const int64_t rows = TableRows(spec, servers).rows_of(place->place);
  int64_t copies = 1;
  if (spec.optimizer) copies += ops::Optimizer(*spec.optimizer).states();
  // What other groups have yet to hear of, and what is on its way to each.
  if (spec.groups.size() > 1) copies += std::ssize(spec.groups);
  if (spec.synchronous()) copies += int64_t{servers};  // what waits for its clock
  const int64_t counts = spec.optimizer ? rows * int64_t{sizeof(int64_t)} : 0;
  return copies * rows * spec.width * int64_t{sizeof(float)} + counts;
}

}  // namespace kerf::schedmp
