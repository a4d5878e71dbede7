// What bounded staleness is worth where now this worker is slow and now that, and what asking a
// table costs.
//
//   staleness [--steps 200] [--seed 1]
//   staleness --traffic [--transport shm] [--seconds 2]
//
// Four workers, threads of a crew, sleep 5 ms in each step, and one of them 20: the first always,
// or whom a draw by seed and step picks. Then each adds to a table, ends a clock and reads. Printed
// for each staleness: seconds; their ratio to those of none, which is a barrier in every step; the
// same of an ideal simulation of the same sleeps; and the staleness that reads had.
// With --traffic, two worker processes, of which one reads, adds to and assigns rows of the other.
#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "runtime/crew.h"
#include "runtime/process.h"
#include "schedmp/scheduler.h"

namespace {

using namespace kerf;
using schedmp::Table;
using schedmp::TableSpec;

constexpr int kWorkers = 4;
constexpr int64_t kRows = 64;
constexpr int64_t kWidth = 16;

// Who sleeps how long in which step.
struct Sleeps {
  int64_t steps = 200;
  uint64_t seed = 1;
  bool drawn = true;

  double seconds(int worker, int64_t step) const {
    const uint64_t slow =
        drawn
            ? std::mt19937_64(seed * 1'000'003 + static_cast<uint64_t>(step))() % uint64_t{kWorkers}
            : 0;
    return static_cast<uint64_t>(worker) == slow ? 20e-3 : 5e-3;
  }

  template <class Archive>
  void serialize(Archive& archive) {
    archive(steps, seed, drawn);
  }
};

// Behind a step's sleep, who is not to be further ahead waits; all else takes no time.
double simulated(const Sleeps& sleeps, int64_t staleness) {
  std::vector<std::array<double, kWorkers>> slept;  // when, by step and worker
  std::array<double, kWorkers> now{};
  for (int64_t step = 0; step < sleeps.steps; ++step) {
    for (int worker = 0; worker < kWorkers; ++worker)
      now[static_cast<size_t>(worker)] += sleeps.seconds(worker, step);
    slept.push_back(now);
    if (staleness == TableSpec::kAnyStaleness || step < staleness) continue;
    const double all = std::ranges::max(slept[static_cast<size_t>(step - staleness)]);
    for (double& each : now) each = std::max(each, all);
  }
  return std::ranges::max(now);
}

struct Observed {
  int64_t most = 0;
  int64_t sum = 0;

  template <class Archive>
  void serialize(Archive& archive) {
    archive(most, sum);
  }
};

struct SleeperMessages {
  using Job = Sleeps;
  using Task = int32_t;
  using Result = Observed;
};

class SleeperWorker final : public schedmp::WorkerHalf<SleeperMessages> {
 public:
  void start(runtime::Workplace& workplace, const Sleeps& sleeps) override {
    workplace_ = &workplace;
    sleeps_ = sleeps;
  }
  Observed update(const int32_t&) override {
    Table& table = tables().at(0);
    const std::vector<ops::Range> rows{{0, kRows}};
    std::vector<float> values(static_cast<size_t>(kRows * kWidth));
    const std::vector<float> ones(values.size(), 1.0F);
    Observed observed;
    for (int64_t step = 0; step < sleeps_.steps; ++step) {
      std::this_thread::sleep_for(
          std::chrono::duration<double>(sleeps_.seconds(workplace_->worker, step)));
      table.add(rows, ones);
      table.clock();
      const int64_t stale = table.read(rows, values);
      observed.most = std::max(observed.most, stale);
      observed.sum += stale;
      workplace_->activity.progress();
    }
    return observed;
  }

 private:
  runtime::Workplace* workplace_ = nullptr;
  Sleeps sleeps_;
};

// One task for each of the first so many workers.
template <class Messages>
class OneRound final : public schedmp::SchedulerHalf<Messages> {
 public:
  using Half = schedmp::SchedulerHalf<Messages>;
  OneRound(std::string name, typename Messages::Job job, TableSpec spec, int busy)
      : name_(std::move(name)), job_(job), spec_(std::move(spec)), busy_(busy) {}
  std::string name() const override { return name_; }
  typename Messages::Job job(int) override { return job_; }
  std::vector<TableSpec> tables(int) override { return {spec_}; }
  typename Half::Decision schedule(int64_t round) override {
    if (round > 0) return schedmp::Done{};
    std::vector<typename Half::Task> tasks;
    for (int worker = 0; worker < busy_; ++worker) tasks.push_back({worker, {}});
    return tasks;
  }
  void aggregate(int64_t, std::vector<typename Half::Result> all) override {
    for (auto& each : all) results.push_back(std::move(each.payload));
  }

  std::vector<typename Messages::Result> results;

 private:
  std::string name_;
  typename Messages::Job job_;
  TableSpec spec_;
  int busy_;
};

// ---- traffic

struct TrafficJob {
  double seconds = 2;

  template <class Archive>
  void serialize(Archive& archive) {
    archive(seconds);
  }
};

struct TrafficMessages {
  using Job = TrafficJob;
  using Task = int32_t;
  using Result = std::vector<double>;  // a second, as kTraffic names them
};

constexpr int64_t kTrafficRows = 1 << 16;  // each worker's part is 32 MiB
constexpr int64_t kTrafficWidth = 256;
constexpr std::array kTraffic{"reads of one row", "adds to one row, each followed by a read",
                              "adds to one row", "bytes of reads of 16 MiB",
                              "bytes of assigned 16 MiB"};

class TrafficWorker final : public schedmp::WorkerHalf<TrafficMessages> {
 public:
  void start(runtime::Workplace& workplace, const TrafficJob& job) override {
    workplace_ = &workplace;
    seconds_ = job.seconds;
  }
  std::vector<double> update(const int32_t&) override {
    Table& table = tables().at(0);
    const int64_t other = kTrafficRows / 2;  // of worker 1
    const int64_t many = (int64_t{16} << 20) / (kTrafficWidth * int64_t{sizeof(float)});
    const std::vector<ops::Range> one{{other, other + 1}};
    const std::vector<ops::Range> large{{other, other + many}};
    std::vector<float> row(static_cast<size_t>(kTrafficWidth));
    std::vector<float> rows(static_cast<size_t>(many * kTrafficWidth));
    const auto bytes = static_cast<double>(rows.size() * sizeof(float));
    // What goes one way counts when it has come: a read behind it is answered behind it.
    const auto settle = [&] { table.read(one, row); };
    return {a_second([&] { table.read(one, row); }, settle),
            a_second(
                [&] {
                  table.add(one, row);
                  table.read(one, row);
                },
                settle),
            a_second([&] { table.add(one, row); }, settle),
            bytes * a_second([&] { table.read(large, rows); }, settle),
            bytes * a_second([&] { table.assign(large, rows); }, settle)};
  }

 private:
  template <class Do, class Settle>
  double a_second(const Do& act, const Settle& settle) const {
    for (int i = 0; i < 3; ++i) act();
    settle();
    const auto begin = runtime::Clock::now();
    const auto passed = [&] {
      return std::chrono::duration<double>(runtime::Clock::now() - begin).count();
    };
    int64_t count = 0;
    for (; passed() < seconds_; ++count) {
      act();
      workplace_->activity.progress();
    }
    settle();
    return static_cast<double>(count) / passed();
  }

  runtime::Workplace* workplace_ = nullptr;
  double seconds_ = 0;
};

const schedmp::ProgramFactories kPrograms{{"sleepers", schedmp::worker_half<SleeperWorker>},
                                          {"traffic", schedmp::worker_half<TrafficWorker>}};

struct Measured {
  double seconds = 0;
  int64_t most = 0;
  double mean = 0;
};

Measured measure(const Sleeps& sleeps, int64_t staleness) {
  runtime::CrewOptions options;
  options.workers = kWorkers;
  options.transport = runtime::TransportKind::kInproc;
  options.handlers = schedmp::handlers_of(kPrograms);
  const auto crew = runtime::Crew::assemble(options);
  OneRound<SleeperMessages> program(
      "sleepers", sleeps,
      {.name = "values", .rows = kRows, .width = kWidth, .staleness = staleness}, kWorkers);
  Measured measured{.seconds = schedmp::run(program, *crew).seconds};
  crew->stop();
  for (const Observed& each : program.results) {
    measured.most = std::max(measured.most, each.most);
    measured.mean += static_cast<double>(each.sum) / static_cast<double>(sleeps.steps * kWorkers);
  }
  return measured;
}

void compare(const Sleeps& sleeps) {
  std::printf("%s, %lld steps, seed %llu\n",
              sleeps.drawn ? "one of four is slow, drawn for every step" : "the first is slow",
              static_cast<long long>(sleeps.steps), static_cast<unsigned long long>(sleeps.seed));
  std::printf("%10s%10s%10s%12s%10s%10s\n", "staleness", "seconds", "ratio", "simulated", "most",
              "mean");
  double barrier = 0;
  for (const int64_t staleness :
       {int64_t{0}, int64_t{1}, int64_t{3}, int64_t{7}, TableSpec::kAnyStaleness}) {
    const Measured measured = measure(sleeps, staleness);
    if (staleness == 0) barrier = measured.seconds;
    const std::string name =
        staleness == TableSpec::kAnyStaleness ? "any" : std::to_string(staleness);
    std::printf("%10s%10.2f%10.2f%12.2f%10lld%10.2f\n", name.c_str(), measured.seconds,
                measured.seconds / barrier, simulated(sleeps, staleness) / simulated(sleeps, 0),
                static_cast<long long>(measured.most), measured.mean);
  }
}

void measure_traffic(const std::string& transport, double seconds) {
  runtime::CrewOptions options;
  options.workers = 2;
  options.transport = runtime::parse_transport(transport);
  options.worker_command = {runtime::program_path(), "worker"};
  options.identity = schedmp::identity();
  const auto crew = runtime::Crew::assemble(options);
  OneRound<TrafficMessages> program("traffic", {seconds},
                                    {.name = "values",
                                     .rows = kTrafficRows,
                                     .width = kTrafficWidth,
                                     .staleness = TableSpec::kAnyStaleness},
                                    1);
  schedmp::run(program, *crew);
  crew->stop();
  std::printf("two workers over %s, rows of 1 KiB; a second:\n", transport.c_str());
  for (size_t i = 0; i < kTraffic.size(); ++i)
    std::printf("%16s  %s\n",
                human_count(static_cast<long long>(program.results.at(0).at(i))).c_str(),
                kTraffic[i]);
}

template <class Number>
Number number(const std::string& flag, const std::string& text, Number least, Number most) {
  Number value{};
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (fault != std::errc() || end != text.data() + text.size() || !(value >= least) ||
      !(value <= most))
    throw Error(ErrorCode::kUsage, format("'{}' is no number from {} to {}", text, least, most),
                flag);
  return value;
}

void run(int argc, char** argv) {
  Sleeps sleeps;
  std::string transport = "shm";
  double seconds = 2;
  bool traffic = false;
  for (int i = 1; i < argc; ++i) {
    const std::string flag = argv[i];
    if (flag == "--traffic") {
      traffic = true;
      continue;
    }
    if (i + 1 == argc) throw Error(ErrorCode::kUsage, "it needs a value", flag);
    const std::string value = argv[++i];
    if (flag == "--steps")
      sleeps.steps = number<int64_t>(flag, value, 1, 100'000);
    else if (flag == "--seed")
      sleeps.seed = number<uint64_t>(flag, value, 0, 1'000'000);
    else if (flag == "--transport")
      transport = value;
    else if (flag == "--seconds")
      seconds = number<double>(flag, value, 0.01, 60);
    else
      throw Error(ErrorCode::kUsage, "there is no such flag", flag);
  }
  if (traffic) return measure_traffic(transport, seconds);
  compare(sleeps);
  sleeps.drawn = false;
  compare(sleeps);
}

}  // namespace

int main(int argc, char** argv) {
  if (const auto code = schedmp::serve_if_worker(argc, argv, kPrograms)) return *code;
  try {
    run(argc, argv);
    return 0;
  } catch (const Error& error) {
    std::fprintf(stderr, "staleness: %s\n", error.what());
    return exit_code(error.code());
  }
}
