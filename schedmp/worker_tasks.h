// What the workers of a loop are to do, and how it is done again when one of them is lost.
//
//   round        ... 40 | 41  42  43  44
//   kept before 41      |      x          worker 1 is lost in round 42: all workers begin again as
//                       | 41  42  43  44  they were before 41, and are sent the same tasks
//
// A commit is where the run begins again from: what each worker held between two rounds, as it
// wrote it to a file of the crew's memory. Every task before it has been answered and none behind
// it begun, so that nothing is on its way between workers. There are two files for each worker,
// written in turn; the scheduler's half lives on, and is not asked for a round twice. Without any
// commit all is done again from the beginning, or from a snapshot.
//
// Commits come by time, or every so many steps: then rounds behind one that is yet to be taken may
// be scheduled already, and wait, until it is their turn, for the next.
//
// The same tasks on the same state give the same bits wherever an undisturbed run gives them twice.
// Belongs to the loop's thread.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "runtime/crew.h"
#include "runtime/time.h"
#include "schedmp/loop_spans.h"
#include "schedmp/task_log.h"
#include "schedmp/worker_request.h"

namespace kerf::schedmp {

// What a run took to commit, the last time among them.
struct CommitCounts {
  int64_t taken = 0;
  int64_t bytes = 0;  // of files of all workers
  // From when the first worker had nothing else to do until the last had written its file: others
  // may have been at work meanwhile.
  double seconds = 0;
};

// Between rounds: the next one, and how many steps (progress()) there were before it.
struct RoundAndSteps {
  int64_t round = 0;
  int64_t steps = 0;
};
// "from step 500" where a person knows progress() as steps, else "before round 500".
std::string beginning_at(const RoundAndSteps& place, bool counts_steps);

// A loss behind which all workers began again.
struct Recovery {
  std::optional<int> worker = {};    // that was lost; empty: not known of one alone
  std::string why;                   // a line
  int64_t round = 0;                 // all began again before it,
  int64_t reached = 0;               // and had done all before this one
  std::optional<int64_t> step = {};  // where a person knows progress() as steps: from which
  // Tasks whose results had come since: done, and to be done again.
  int64_t answered = 0;
  // Others that workers had been sent: begun or not, as only those knew who are gone.
  int64_t unanswered = 0;
  // From when the loss was known until a task was done again, or the next loss.
  int64_t begin_ns = 0;
  int64_t end_ns = 0;
};

struct RestartOptions {
  bool allowed = false;
  // What workers hold, in memory; else all begin again from a snapshot, or the beginning.
  bool keeps = true;
  // Between two commits, and no less than a hundred times what the last one took.
  std::chrono::milliseconds commit_every{1000};
  // In place of that: as many steps of the program's progress(), whatever they cost; 0: by time.
  int64_t commit_steps = 0;
  bool counts_steps = false;  // what is told is told in steps of progress(), not in rounds
  // Told of a loss, and where all begin again, before they do.
  std::function<void(const Error& loss, const RoundAndSteps& place)> lost = {};
  runtime::Crew::Waiting waiting = {};  // for workers that connect
  // Told that there is no room for what workers hold. May be empty.
  std::function<void(const std::string&)> tell = {};
};

class WorkerTasks {
 public:
  // Commits where the program `keeps_state`. `crew` and `spans` outlive this.
  WorkerTasks(runtime::Crew& crew, RestartOptions options, bool keeps_state, LoopSpans& spans);

  // Behind those that the worker has.
  void add(int worker, const OwedTask& owed, std::string request);
  // The tasks of this round come next, behind so many steps; `rests`: nothing is on its way between
  // workers before it. There they keep what they hold, if it is time.
  using Place = RoundAndSteps;
  void begin_round(const Place& place, bool rests);
  void send();

  struct Done {
    int worker = 0;
    OwedTask owed;
    std::string payload;
    std::optional<std::string> before;  // its first result, of a task that was repeated
  };
  // What comes within a second, of one worker, goes behind what is there.
  void collect(std::vector<Done>& done);
  bool owed() const;  // whether any worker owes a result

  // Each worker has done all that it was told, and would go on from there by this request: what
  // they committed is given back. Another such is to come at `until`: so long they need not commit.
  void stand(const Place& place, std::vector<std::string> restore,
             runtime::Clock::time_point until = {});
  // Behind a loss, which is thrown again where it cannot be helped: workers are back where they
  // stood, and have all that they did since before them.
  void recover(const Error& loss);

  // Where nothing is to be done any more, the last is over.
  void end_recovery();
  const std::vector<Recovery>& recoveries() const { return recoveries_; }
  int64_t repeated() const { return repeated_; }  // tasks
  // One file of each worker, as of the last commit; 0: there was none.
  const std::vector<int64_t>& kept_bytes() const { return kept_bytes_; }
  const CommitCounts& commits() const { return commit_counts_; }

 private:
  bool is_due(const Place& place) const;
  void begin_commit(const Place& place);
  void begin_due();
  void ask_for_commit();
  void commit_in_vain();
  void come_later(const Place& place);
  size_t bytes_of_logs() const;
  void limit_what_is_kept();
  void take_commit(size_t worker, const std::string& answer);
  void end_commit();
  [[noreturn]] void throw_with_place(const Error& error) const;
  int64_t first_missing() const;
  void begin_recovery(const Error& loss, bool first);
  void expect_another_end(const Error& loss);
  void restore();

  struct Commit {
    Place place;
    size_t missing = 0;
    // When the first worker had nothing else to do; none: all still have.
    std::optional<runtime::Clock::time_point> begin = {};
    bool asked = false;
    std::vector<PlacedPart> parts = {};
    std::string failure = {};  // why one of them could not be written
  };

  runtime::Crew& crew_;
  const RestartOptions options_;
  LoopSpans& spans_;
  bool commits_ = false;  // now, and
  bool may_commit_ = false;
  std::vector<TaskLog> logs_;                      // by worker
  std::optional<Commit> commit_;                   // under way
  std::deque<Place> due_;                          // behind that
  int files_ = 0;                                  // those that the next one is written to
  std::array<std::vector<PlacedPart>, 2> filled_;  // of those that the last two were
  runtime::Clock::time_point next_at_;             // when it is time for that, or
  int64_t next_steps_ = 0;                         // behind as many steps
  Place stood_;                                    // where they begin again
  std::vector<std::string> restore_;               // by which; none: as they start
  int64_t later_ = 1;          // times as long to the next commit, behind some in vain,
  bool told_in_vain_ = false;  // which was told
  bool tried_again_ = false;   // by steps: one that was in vain
  bool repeats_ = false;
  bool gave_up_ = false;  // until they stand somewhere: too much is not kept
  std::vector<Recovery> recoveries_;
  bool recovers_ = false;  // the last of those is not over
  int64_t repeated_ = 0;
  std::vector<int64_t> kept_bytes_;  // by worker
  CommitCounts commit_counts_;
  int64_t behind_ = 0;               // all rounds that were begun
  int64_t lost_at_ = -1;             // the first round that was not done at the last loss
  int losses_there_ = 0;             // about there, in a row
  int losses_since_ = 0;             // there and before
  std::optional<Error> first_loss_;  // of those
};

}  // namespace kerf::schedmp
