#include "apps/report/counted_apart.h"

#include <algorithm>

#include "apps/report/table.h"
#include "apps/report/terminal.h"
#include "runtime/format.h"

namespace kerf::apps {

namespace {

constexpr size_t kMostTold = 5;  // restarts

// As it was told when it happened. What was done since is in tasks of workers.
std::string line_of(const RecoveryRecord& recovery) {
  const std::string where = recovery.step
                                ? format("from step {}, to do {} again that had been done",
                                         *recovery.step, plural(recovery.discarded_tasks, "task"))
                                : format("before round {}, having done all before {}",
                                         recovery.round, recovery.reached_round);
  return in_line(format("restarted {}, in {:.3f} s: {}", where, recovery.seconds, recovery.why)) +
         "\n";
}

}  // namespace

int64_t unanswered_tasks(const std::vector<RecoveryRecord>& recoveries) {
  int64_t sum = 0;
  for (const RecoveryRecord& each : recoveries) sum += each.unanswered_tasks;
  return sum;
}

std::vector<ApartRow> rows_of(const CountedApart& apart) {
  std::optional<double> restarting;
  for (const RecoveryRecord& each : apart.recoveries)
    restarting = restarting.value_or(0) + each.seconds;
  const auto saved = [](const char* what, const SavedRecord& of) {
    // Older records lack bytes: none were saved in no bytes.
    return ApartRow{what, of.number, of.bytes > 0 ? std::optional(of.bytes) : std::nullopt,
                    of.seconds};
  };
  std::vector<ApartRow> rows{{"restarts", apart.restarts, std::nullopt, restarting},
                             {"tasks done again", apart.repeated_tasks, apart.repeated_bytes},
                             {"tasks under way at a loss", unanswered_tasks(apart.recoveries)},
                             saved("commits", apart.commits),
                             saved("checkpoints", apart.checkpoints),
                             saved("checkpoints in memory", apart.in_memory),
                             {"checkpoints that could not be written", apart.failed_checkpoints},
                             {"messages of workers of before", apart.fenced_messages}};
  std::erase_if(rows, [](const ApartRow& row) { return row.number == 0; });
  return rows;
}

std::string apart_text(const CountedApart& apart, bool colour) {
  const std::vector<ApartRow> rows = rows_of(apart);
  if (rows.empty()) return {};
  Table table({"counted apart", "number", "bytes", "seconds"});
  for (const ApartRow& row : rows)
    table.add({row.what, human_count(row.number), row.bytes ? bytes_text(*row.bytes) : "-",
               row.seconds ? format("{:.3f}", *row.seconds) : "-"});
  std::string text = "\n" + table.text(colour);
  const size_t told = std::min(kMostTold, apart.recoveries.size());
  for (size_t i = 0; i < told; ++i) text += line_of(apart.recoveries[i]);
  if (const size_t left = apart.recoveries.size() - told; left > 0)
    text += format("and {} more\n", plural(static_cast<long long>(left), "restart"));
  return text;
}

}  // namespace kerf::apps
