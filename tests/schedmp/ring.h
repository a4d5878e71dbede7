// Programs whose state goes round a ring of workers, so that one that repeats a step too many or
// too few, or meets a message of before, comes to other bits; and workers that die, fail or differ.
#pragma once

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "runtime/format.h"
#include "runtime/open_file.h"
#include "schedmp/encoded_program.h"
#include "schedmp/scheduler.h"
#include "schedmp/state.h"
#include "schedmp/tables/tables.h"

namespace kerf::schedmp {

struct RingTask {
  uint64_t told = 0;

  template <class Archive>
  void serialize(Archive& archive) {
    archive(told);
  }
};
struct RingMessages {
  using Job = int64_t;  // a seed
  using Task = RingTask;
  using Result = uint64_t;
};

// In each round every worker sends where it stands to the next one, takes in what it was sent in
// the same round, and steps on by both and by what it is told.
class RingWorker : public KeepsState<RingWorker, WorkerHalf<RingMessages>> {
 public:
  void start(runtime::Workplace& workplace, const int64_t& job) override {
    workplace_ = &workplace;
    place_ = static_cast<uint64_t>(job) + static_cast<uint64_t>(workplace.worker);
  }
  uint64_t update(const RingTask& task) override {
    const int workers = workplace_->workers;
    if (workers > 1) {
      send((workplace_->worker + 1) % workers);
      receive((workplace_->worker + workers - 1) % workers);
    }
    return place_ = place_ * 17 + task.told;
  }
  template <class Archive>
  void state(Archive& archive) {
    archive(place_);
  }

 private:
  void send(int to) {
    runtime::SendChannel& channel = workplace_->endpoint.sender(to);
    const auto slot = channel.acquire(0, sizeof place_, runtime::after(std::chrono::seconds(20)));
    ASSERT_TRUE(slot);
    std::copy_n(reinterpret_cast<const std::byte*>(&place_), sizeof place_, slot->data);
    channel.commit(*slot, {});
  }
  void receive(int from) {
    runtime::ReceiveChannel& channel = workplace_->endpoint.receiver(from);
    const auto view = channel.receive(runtime::after(std::chrono::seconds(20)));
    ASSERT_TRUE(view);
    uint64_t sent = 0;
    std::copy_n(view->data, sizeof sent, reinterpret_cast<std::byte*>(&sent));
    channel.release(*view);
    place_ = place_ * 31 + sent;
  }

  runtime::Workplace* workplace_ = nullptr;
  uint64_t place_ = 0;
};

struct RingOptions {
  int workers = 3;
  int64_t rounds = 60;
  int depth = 3;
  bool keeps_state = true;
};

// Kills workers before rounds, as it is told.
class Ring : public SchedulerHalf<RingMessages> {
 public:
  using Kill = std::function<void(int64_t round)>;
  explicit Ring(const RingOptions& options, Kill kill = {})
      : options_(options), kill_(std::move(kill)) {}

  std::string name() const override { return "ring"; }
  int64_t job(int) override { return 5; }
  int depth() const override { return options_.depth; }
  LaneTable lanes(int workers) const override {
    LaneTable lanes = no_lanes(workers);
    for (int worker = 0; worker < workers && workers > 1; ++worker)
      lanes[static_cast<size_t>(worker)][static_cast<size_t>((worker + 1) % workers)] = {{64, 2}};
    return lanes;
  }
  Decision schedule(int64_t round) override {
    ++scheduled_[round];
    if (round == options_.rounds) return Done{};
    if (kill_) kill_(round);
    std::vector<Task> tasks;
    for (int worker = 0; worker < options_.workers; ++worker)
      tasks.push_back({worker, {place_ + static_cast<uint64_t>(round)}});
    return tasks;
  }
  void aggregate(int64_t round, std::vector<Result> results) override {
    ++aggregated_[round];
    for (const Result& each : results) place_ = place_ * 31 + each.payload;
  }
  void compare(int64_t round, const Result& first, const Result& again) override {
    ++compared_;
    if (first.payload != again.payload)
      throw Error(ErrorCode::kInternal, kerf::format("round {} came to {} and then to {}", round,
                                                     first.payload, again.payload));
  }
  bool keeps_state() const override { return options_.keeps_state; }
  std::string snapshot() override { return runtime::encode(place_); }
  void restore(std::string_view snapshot) override { place_ = runtime::decode<uint64_t>(snapshot); }

  uint64_t place() const { return place_; }
  int64_t compared() const { return compared_; }
  std::vector<int64_t> times(const std::map<int64_t, int64_t>& counts) const {
    std::vector<int64_t> times;
    for (const auto& [round, count] : counts) times.push_back(count);
    return times;
  }
  void expect_once_a_round() const {
    EXPECT_EQ(std::ssize(scheduled_), options_.rounds + 1);
    EXPECT_EQ(std::ssize(aggregated_), options_.rounds);
    EXPECT_THAT(times(scheduled_), testing::Each(1));
    EXPECT_THAT(times(aggregated_), testing::Each(1));
  }

 private:
  RingOptions options_;
  Kill kill_;
  uint64_t place_ = 1;
  int64_t compared_ = 0;
  std::map<int64_t, int64_t> scheduled_;
  std::map<int64_t, int64_t> aggregated_;
};

// The same, but its workers are others.
class Named : public Ring {
 public:
  Named(std::string name, const RingOptions& options, Kill kill = {})
      : Ring(options, std::move(kill)), name_(std::move(name)) {}
  std::string name() const override { return name_; }

 private:
  std::string name_;
};

// A program that has another name, and a table.
class Sharing : public Named {
 public:
  explicit Sharing(const RingOptions& options, Kill kill = {})
      : Named("sharing", options, std::move(kill)) {}
  std::vector<TableSpec> tables(int) override { return {{.name = "values", .rows = 5}}; }
  LaneTable lanes(int workers) const override { return no_lanes(workers); }
};

// Dies of its third task, whoever it is.
class FrailWorker : public RingWorker {
 public:
  uint64_t update(const RingTask& task) override {
    if (++tasks_ == 3) ::kill(::getpid(), SIGKILL);
    return RingWorker::update(task);
  }

 private:
  int tasks_ = 0;
};

// Comes to something else whenever it is another process.
class FickleWorker : public RingWorker {
 public:
  uint64_t update(const RingTask& task) override {
    return RingWorker::update(task) + static_cast<uint64_t>(::getpid());
  }
};

// Dies of keeping what it holds.
class FullWorker : public RingWorker {
 public:
  std::string snapshot() override {
    ::kill(::getpid(), SIGKILL);
    return {};
  }
};

// May write no file, as where there is no memory for one.
template <bool kForGood>
class CrampedWorker : public RingWorker {
 public:
  std::string snapshot() override {
    ::signal(SIGXFSZ, SIG_IGN);
    const bool cramped = kForGood || !std::exchange(was_cramped_, true);
    const rlimit room{cramped ? 0 : RLIM_INFINITY, RLIM_INFINITY};
    ::setrlimit(RLIMIT_FSIZE, &room);
    return RingWorker::snapshot();
  }

 private:
  bool was_cramped_ = false;
};

// Dies of keeping what it holds, of each such state once: KERF_TEST_ONCE is a folder, for files
// that whoever dies makes. Else it comes to the same, or, `fickle`, to something else as another
// process.
template <bool fickle>
class MortalWorker : public RingWorker {
 public:
  uint64_t update(const RingTask& task) override {
    return RingWorker::update(task) + (fickle ? static_cast<uint64_t>(::getpid()) : 0);
  }
  std::string snapshot() override {
    std::string held = RingWorker::snapshot();
    const std::string file =
        kerf::format("{}/{}", std::getenv("KERF_TEST_ONCE"), runtime::decode<uint64_t>(held));
    if (runtime::OpenFile(::open(file.c_str(), O_CREAT | O_EXCL, 0600)).number() >= 0)
      ::kill(::getpid(), SIGKILL);
    return held;
  }
};

// Adds to rows that all share, and reads them, clock by clock.
class SharingWorker : public KeepsState<SharingWorker, WorkerHalf<RingMessages>> {
 public:
  void start(runtime::Workplace& workplace, const int64_t&) override { worker_ = workplace.worker; }
  uint64_t update(const RingTask& task) override {
    Table& table = tables().at(0);
    const auto rows = static_cast<size_t>(table.spec().rows);
    std::vector<float> change(rows, static_cast<float>((task.told + 1) % 7) + 0.25F);
    change[static_cast<size_t>(worker_) % rows] += 1;
    table.add({{0, table.spec().rows}}, change);
    table.clock();
    std::vector<float> values(rows);
    table.read({{0, table.spec().rows}}, values);
    for (const float value : values) seen_ = seen_ * 31 + std::bit_cast<uint32_t>(value);
    return seen_;
  }
  template <class Archive>
  void state(Archive& archive) {
    archive(seen_);
  }

 private:
  int worker_ = 0;
  uint64_t seen_ = 0;
};

// Its device fails under it, once where the environment has KERF_TEST_ONCE, a file that whoever
// fails makes; else of its third task, whoever it is.
class DevicelessWorker : public RingWorker {
 public:
  void start(runtime::Workplace& workplace, const int64_t& job) override {
    is_second_ = workplace.worker == 1;
    RingWorker::start(workplace, job);
  }
  uint64_t update(const RingTask& task) override {
    if (is_second_ && ++tasks_ == 3 && fails())
      throw Error(ErrorCode::kDeviceLost, "a kernel went astray", "cuda:7");
    return RingWorker::update(task);
  }

 private:
  static bool fails() {
    const char* const once = std::getenv("KERF_TEST_ONCE");
    return once == nullptr || runtime::OpenFile(::open(once, O_CREAT | O_EXCL, 0600)).number() >= 0;
  }
  bool is_second_ = false;
  int tasks_ = 0;
};

// Fails by itself.
class FailingWorker : public RingWorker {
 public:
  uint64_t update(const RingTask&) override {
    throw Error(ErrorCode::kUnavailable, "the light went out");
  }
};

}  // namespace kerf::schedmp
