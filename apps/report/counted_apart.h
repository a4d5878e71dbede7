// What a run counts apart from its steps and their messages: what it did again behind the loss of a
// worker, what it kept against that, and what came of workers whose time was over.
//
// Plain values; no threads.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace kerf::apps {

// A loss behind which all workers began again.
struct RecoveryRecord {
  std::optional<int> worker = std::nullopt;  // that was lost; empty: not known of one alone
  std::string why;
  int64_t round = 0;                           // all began again before it,
  int64_t reached_round = 0;                   // and had done all before this one
  std::optional<int64_t> step = std::nullopt;  // of a training: all began again from this step
  // Tasks that were done since, and are done again; and those that had been sent beside them: how
  // far their workers were with them only these knew.
  int64_t discarded_tasks = 0;
  int64_t unanswered_tasks = 0;
  double seconds = 0;  // from when the loss was known until a task was done again, or the next loss
};

// What was saved so often.
struct SavedRecord {
  int64_t number = 0;
  int64_t bytes = 0;
  double seconds = 0;
};

struct CountedApart {
  std::vector<RecoveryRecord> recoveries = {};
  int64_t restarts = 0;  // as many as those; of older records, how many there were
  int64_t repeated_tasks = 0;
  std::optional<int64_t> repeated_bytes = std::nullopt;  // that workers sent for these; where known
  SavedRecord commits = {};
  SavedRecord checkpoints = {};
  SavedRecord in_memory = {};  // checkpoints of --keep-workers
  int64_t failed_checkpoints = 0;
  int64_t fenced_messages = 0;  // of workers whose epoch was over
};

int64_t unanswered_tasks(const std::vector<RecoveryRecord>& recoveries);

// For people, those of which there were any.
struct ApartRow {
  std::string what;
  int64_t number = 0;
  std::optional<int64_t> bytes = std::nullopt;
  std::optional<double> seconds = std::nullopt;
};
std::vector<ApartRow> rows_of(const CountedApart& apart);
// A table of them, and a line for each of the first restarts; empty where there were none.
std::string apart_text(const CountedApart& apart, bool colour);

template <class Fields>
void fields(Fields& f, RecoveryRecord& recovery) {
  f("worker", recovery.worker);
  f("why", recovery.why);
  f("round", recovery.round);
  f("reached_round", recovery.reached_round);
  f.newer("step", recovery.step);
  f("discarded_tasks", recovery.discarded_tasks);
  f("unanswered_tasks", recovery.unanswered_tasks);
  f("seconds", recovery.seconds);
}

template <class Fields>
void fields(Fields& f, SavedRecord& saved) {
  f("number", saved.number);
  f("bytes", saved.bytes);
  f("seconds", saved.seconds);
}

template <class Fields>
void fields(Fields& f, CountedApart& apart) {
  f("restarts", apart.restarts);
  f("repeated_tasks", apart.repeated_tasks);
  f("unanswered_tasks", unanswered_tasks(apart.recoveries));
  f("recoveries", apart.recoveries);
  f("commits", apart.commits);
  f("checkpoints", apart.checkpoints);
  f("checkpoints_in_memory", apart.in_memory);
  f("failed_checkpoints", apart.failed_checkpoints);
  f("fenced_messages", apart.fenced_messages);
}

}  // namespace kerf::apps
