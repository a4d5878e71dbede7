#include "schedmp/scheduler.h"

#include <algorithm>
#include <deque>

#include "runtime/error.h"

namespace kerf::schedmp {

namespace {

// How often a program that schedules empty rounds only lets the crew tell of interrupts and losses.
constexpr std::chrono::milliseconds kGlanceEvery{10};

// A round under way: the results that are in, and how many are not.
struct Round {
  int64_t number = 0;
  size_t missing = 0;
  std::vector<Result> results;
};

class Loop {
 public:
  Loop(Program& program, runtime::Crew& crew, const LoopOptions& options)
      : program_(program),
        crew_(crew),
        depth_(static_cast<size_t>(std::max(1, options.depth))),
        batch_(std::clamp<size_t>(static_cast<size_t>(std::max(1, options.batch)), 1, depth_)),
        outbox_(crew.workers().size()),
        owed_(crew.workers().size()) {}

  LoopReport run() {
    const auto begin = runtime::Clock::now();
    while (more_ || !rounds_.empty()) {
      fill();
      send();
      if (!rounds_.empty()) collect();
      fold();
    }
    report_.seconds = std::chrono::duration<double>(runtime::Clock::now() - begin).count();
    return report_;
  }

 private:
  // Schedules ahead, in batches, as far as the depth allows.
  void fill() {
    if (!rounds_.empty() && rounds_.size() + batch_ > depth_) return;
    while (more_ && rounds_.size() < depth_) {
      std::optional<std::vector<Task>> tasks = program_.schedule(next_round_);
      if (!tasks) {
        more_ = false;
        return;
      }
      rounds_.push_back({next_round_++, tasks->size(), {}});
      for (Task& task : *tasks) {
        const auto worker = static_cast<size_t>(task.worker);
        KERF_CHECK(worker < outbox_.size(), "{} schedules worker {} of {}", program_.name(),
                   task.worker, outbox_.size());
        KERF_CHECK(owed_[worker].empty() || owed_[worker].back() != rounds_.back().number,
                   "{} schedules two tasks of round {} for worker {}; one set has one at most",
                   program_.name(), rounds_.back().number, task.worker);
        outbox_[worker].push_back(std::move(task.payload));
        owed_[worker].push_back(rounds_.back().number);
        ++report_.tasks;
      }
    }
  }

  void send() {
    for (size_t worker = 0; worker < outbox_.size(); ++worker)
      if (!outbox_[worker].empty()) {
        crew_.send(static_cast<int>(worker), std::move(outbox_[worker]));
        outbox_[worker].clear();
      }
  }

  // Results of one worker come in the order of its tasks, so the round that each belongs to is
  // known.
  void collect() {
    const bool empty_round = rounds_.front().missing == 0;
    if (empty_round && runtime::Clock::now() < glance_at_) return;
    glance_at_ = runtime::after(kGlanceEvery);
    std::optional<runtime::CrewResults> batch =
        crew_.next(empty_round ? runtime::Deadline{} : runtime::after(std::chrono::seconds(1)));
    if (!batch) return;
    std::deque<int64_t>& owed = owed_[static_cast<size_t>(batch->worker)];
    for (std::string& payload : batch->results) {
      if (owed.empty())
        throw Error(ErrorCode::kProtocol, "a result that nobody asked for",
                    kerf::format("worker {}", batch->worker));
      Round& round = rounds_[static_cast<size_t>(owed.front() - rounds_.front().number)];
      owed.pop_front();
      round.results.push_back({batch->worker, std::move(payload)});
      --round.missing;
    }
  }

  void fold() {
    while (!rounds_.empty() && rounds_.front().missing == 0) {
      Round round = std::move(rounds_.front());
      rounds_.pop_front();
      std::sort(round.results.begin(), round.results.end(),
                [](const Result& a, const Result& b) { return a.worker < b.worker; });
      program_.aggregate(round.number, std::move(round.results));
      ++report_.rounds;
    }
  }

  Program& program_;
  runtime::Crew& crew_;
  size_t depth_;
  size_t batch_;
  bool more_ = true;
  int64_t next_round_ = 0;
  std::deque<Round> rounds_;
  std::vector<std::vector<std::string>> outbox_;
  std::vector<std::deque<int64_t>> owed_;  // worker -> rounds whose results it owes
  runtime::Clock::time_point glance_at_{};
  LoopReport report_;
};

TransportTable transports_of(const runtime::Crew& crew, const LaneTable& lanes) {
  TransportTable table(lanes.size());
  for (size_t u = 0; u < lanes.size(); ++u) {
    table[u].resize(lanes[u].size());
    for (size_t v = 0; v < lanes[u].size(); ++v)
      if (u != v && !lanes[u][v].empty())
        table[u][v] = crew.transport_between(static_cast<int>(u), static_cast<int>(v));
  }
  return table;
}

}  // namespace

LoopReport run(Program& program, runtime::Crew& crew, const LoopOptions& options) {
  const int workers = static_cast<int>(crew.workers().size());
  const LaneTable lanes = program.lanes(workers);
  program.channels_go_over(transports_of(crew, lanes));
  std::vector<std::string> jobs;
  for (int worker = 0; worker < workers; ++worker) jobs.push_back(program.job(worker));
  crew.start(program.name(), jobs, lanes);
  return Loop(program, crew, options).run();
}

}  // namespace kerf::schedmp
