// A program whose workers go through the clocks of a table: for tests, with what must come of it.
#pragma once

#include <algorithm>
#include <chrono>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "schedmp/encoded_program.h"

namespace kerf::schedmp {

// What a worker adds at a clock: to some rows, scattered, each once.
struct Added {
  std::vector<ops::Range> rows;
  std::vector<float> numbers;
};

inline Added added_by(const TableSpec& spec, uint64_t seed, int worker, int64_t clock) {
  std::mt19937_64 random(seed * 1000 + static_cast<uint64_t>(worker) * 100 +
                         static_cast<uint64_t>(clock));
  Added added;
  for (int64_t row = 0; row < spec.rows;) {
    const auto count = std::min<int64_t>(1 + static_cast<int64_t>(random() % 3), spec.rows - row);
    if (random() % 2 == 0) {
      added.rows.push_back({row, row + count});
      for (int64_t i = 0; i < count * spec.width; ++i)
        added.numbers.push_back(static_cast<float>(random() % 16));
    }
    row += count;
  }
  return added;
}

inline void add_to(std::vector<float>& values, const TableSpec& spec, const Added& added) {
  const float* from = added.numbers.data();
  for (const ops::Range& rows : added.rows)
    for (int64_t i = rows.begin * spec.width; i < rows.end * spec.width; ++i)
      values[static_cast<size_t>(i)] += *from++;
}

inline std::vector<float> begun(const TableSpec& spec) {
  std::vector<float> values;
  for (int64_t row = 0; row < spec.rows; ++row)
    values.insert(values.end(), static_cast<size_t>(spec.width), static_cast<float>(row));
  return values;
}

// What all workers changed in their first so many clocks, on top of what a table begins with.
inline std::vector<float> after(const TableSpec& spec, uint64_t seed, int workers, int64_t clocks) {
  std::vector<float> values = begun(spec);
  for (int worker = 0; worker < workers; ++worker)
    for (int64_t clock = 0; clock < clocks; ++clock)
      add_to(values, spec, added_by(spec, seed, worker, clock));
  return values;
}

// A walk of one worker through its clocks: at each it adds to rows, and then reads all.
struct WalkJob {
  int64_t clocks = 0;
  int slow = -1;  // this worker sleeps at each clock
  int sleep_us = 0;
  uint64_t seed = 1;
  bool sums = false;  // what it read last it tells by its sum alone

  template <class Archive>
  void serialize(Archive& archive) {
    archive(clocks, slow, sleep_us, seed, sums);
  }
};

struct WalkResult {
  std::vector<int64_t> staleness;              // of each read
  std::vector<std::vector<float>> reads = {};  // of all rows
  std::vector<float> last = {};                // read settled
  double sum = 0;                              // of that, each number times its place

  template <class Archive>
  void serialize(Archive& archive) {
    archive(staleness, reads, last, sum);
  }
};

struct WalkMessages {
  using Job = WalkJob;
  using Task = int32_t;
  using Result = WalkResult;
};

inline double sum_of(const std::vector<float>& values) {
  double sum = 0;
  for (size_t i = 0; i < values.size(); ++i)
    sum += static_cast<double>(i + 1) * static_cast<double>(values[i]);
  return sum;
}

// Each row begins with its number.
inline void fill_own(Table& table) {
  std::span<float> own = table.own();
  for (int64_t row = 0; row < table.own_rows(); ++row)
    for (int64_t i = 0; i < table.spec().width; ++i)
      own[static_cast<size_t>(row * table.spec().width + i)] = static_cast<float>(table.row(row));
}

class WalkWorker final : public WorkerHalf<WalkMessages> {
 public:
  void start(runtime::Workplace& workplace, const WalkJob& job) override {
    worker_ = workplace.worker;
    job_ = job;
    fill_own(tables().at(0));
  }

  WalkResult update(const int32_t&) override {
    Table& table = tables().at(0);
    const TableSpec& spec = table.spec();
    const std::vector<ops::Range> all{{0, spec.rows}};
    WalkResult result;
    std::vector<float> values(static_cast<size_t>(spec.rows * spec.width));
    for (int64_t clock = 0; clock < job_.clocks; ++clock) {
      if (worker_ == job_.slow)
        std::this_thread::sleep_for(std::chrono::microseconds(job_.sleep_us));
      const Added added = added_by(spec, job_.seed, worker_, clock);
      table.add(added.rows, added.numbers);
      table.clock(clock + 1 == job_.clocks);
      result.staleness.push_back(table.read(all, values));
      if (!job_.sums) result.reads.push_back(values);
    }
    table.read_settled(all, values);
    result.sum = sum_of(values);
    if (!job_.sums) result.last = values;
    return result;
  }

 private:
  int worker_ = 0;
  WalkJob job_;
};

class Walk final : public SchedulerHalf<WalkMessages> {
 public:
  Walk(TableSpec spec, WalkJob job, int workers)
      : spec_(std::move(spec)), job_(job), workers_(workers) {}

  std::string name() const override { return "walk"; }
  WalkJob job(int) override { return job_; }
  std::vector<TableSpec> tables(int) override { return {spec_}; }
  Decision schedule(int64_t round) override {
    if (round > 0) return Done{};
    std::vector<Task> tasks;
    for (int worker = 0; worker < workers_; ++worker) tasks.push_back({worker, 0});
    return tasks;
  }
  void aggregate(int64_t, std::vector<Result> results) override {
    for (Result& each : results) results_.push_back(std::move(each.payload));
  }
  const std::vector<WalkResult>& results() const { return results_; }

 private:
  TableSpec spec_;
  WalkJob job_;
  int workers_;
  std::vector<WalkResult> results_;
};

}  // namespace kerf::schedmp
