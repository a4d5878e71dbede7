// A program whose end tells whether anything was forgotten on the way, and runs of it that keep
// snapshots: for tests of those.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/error.h"
#include "runtime/file.h"
#include "schedmp/scheduler.h"
#include "schedmp/snapshots.h"
#include "tests/support/errors.h"
#include "tests/support/inproc_crew.h"
#include "tests/support/temporary_folder.h"

namespace kerf::schedmp {

// By the error that `body` ends with.
template <class Body>
std::string told(const Body& body) {
  const auto error = tests::error_of(body);
  return error ? error->what() : "no error";
}

struct KeptWalkMessages {
  using Job = int64_t;  // a seed
  using Task = uint64_t;
  using Result = uint64_t;
};

constexpr int64_t kRounds = 30;

// Each worker steps on from where it stands by what it is told, and is told what all have come to
// so far: whoever forgets anything ends elsewhere.
struct KeptWalk : public SchedulerHalf<KeptWalkMessages> {
  KeptWalk(int of_workers, int of_depth, int64_t of_seed = 7)
      : workers(of_workers), declared(of_depth), seed(of_seed) {}
  std::string name() const override { return "walk"; }
  int depth() const override { return declared; }
  int64_t job(int worker) override { return seed + worker; }
  Decision schedule(int64_t round) override {
    ++asked;
    if (round == asked_to_end_at) interrupt->ask();
    if (round == fails_at) throw Error(ErrorCode::kUnavailable, "the light went out");
    if (round == kRounds) return Done{};
    std::vector<Task> tasks;
    for (int worker = 0; worker < workers; ++worker)
      tasks.push_back({worker, place + static_cast<uint64_t>(round)});
    return tasks;
  }
  void aggregate(int64_t /*round*/, std::vector<Result> results) override {
    for (const Result& each : results) place = place * 31 + each.payload;
  }
  std::string snapshot() override { return runtime::encode(place); }
  void restore(std::string_view snapshot) override { place = runtime::decode<uint64_t>(snapshot); }

  int workers, declared;
  int64_t seed;
  int64_t fails_at = -1;
  int64_t asked_to_end_at = -1;
  std::shared_ptr<runtime::Interrupt> interrupt = std::make_shared<runtime::Interrupt>();
  uint64_t place = 1;  // wraps around
  int64_t asked = 0;   // for a round
};

struct KeptWalkWorker : public WorkerHalf<KeptWalkMessages> {
  void start(runtime::Workplace& /*workplace*/, const int64_t& job) override {
    place = static_cast<uint64_t>(job);
  }
  uint64_t update(const uint64_t& task) override { return place = place * 17 + task; }
  std::string snapshot() override { return runtime::encode(place); }
  void restore(std::string_view snapshot) override { place = runtime::decode<uint64_t>(snapshot); }
  uint64_t place = 0;
};

struct Hurry : public KeptWalk {
  using KeptWalk::KeptWalk;
  std::string name() const override { return "hurry"; }
  std::string snapshot() override { throw_no_snapshot(); }
};

class WalksThatKeepSnapshots : public testing::Test {
 protected:
  template <class Program, class Worker = KeptWalkWorker>
  static LoopReport run(Program& program, const SnapshotOptions& options) {
    const auto crew = tests::inproc_crew(program.workers, {{program.name(), worker_half<Worker>}});
    LoopReport report =
        schedmp::run(program, *crew, {.snapshots = options, .interrupt = program.interrupt});
    crew->stop();
    return report;
  }
  SnapshotOptions kept(int64_t every = 4) const {
    return {.folder = folder_ / "kept", .every = every};
  }
  // Ends in that round.
  void interrupt(int64_t round, KeptWalk program = KeptWalk(2, 2)) const {
    program.fails_at = round;
    std::filesystem::remove_all(folder_ / "kept");
    EXPECT_THAT(told([&] { run(program, kept()); }), testing::HasSubstr("the light went out"));
  }
  std::vector<std::string> files() const {
    std::vector<std::string> names;
    for (const auto& each : std::filesystem::directory_iterator(folder_ / "kept"))
      names.push_back(each.path().filename().string());
    std::sort(names.begin(), names.end());
    return names;
  }
  std::string resume_error(KeptWalk program) const {
    return told([&] { run(program, {.resume = folder_ / "kept"}); });
  }

  tests::TemporaryFolder folder_;
};

// In some rounds its folder cannot be had: a file of that name is there.
struct Hindered : public KeptWalk {
  using KeptWalk::KeptWalk;
  Decision schedule(int64_t round) override {
    if (round == 10 || (twice && round == 22)) {
      std::filesystem::rename(folder, folder.string() + "-away");
      runtime::write_file_atomic(folder, "");
    }
    if (round == 18 || (twice && round == 26)) {
      std::filesystem::remove(folder);
      std::filesystem::rename(folder.string() + "-away", folder);
    }
    return KeptWalk::schedule(round);
  }
  std::filesystem::path folder;
  bool twice = false;
};

}  // namespace kerf::schedmp
