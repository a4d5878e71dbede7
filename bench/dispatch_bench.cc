// Dispatch: how many small tasks a second go from the scheduler through worker processes and back.
//
//   dispatch_bench [--workers 2] [--seconds 2] [--transport ipc] [--json]
//
// By the crew alone, each worker has 16 messages under way; a message carries 1 task, then 16.
// Through the loop by a program: rounds of one task for each worker in turn, and for all of them,
// one at a time, 64 under way, and 64 of which 16 go together. A task is 64 bytes and its result 8.
// The benchmark starts its own workers: this same program, with --connect.
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "runtime/crew.h"
#include "runtime/json.h"
#include "runtime/process.h"
#include "schedmp/scheduler.h"

namespace {

using namespace kerf;
using namespace kerf::runtime;
using namespace std::chrono_literals;

constexpr int kUnderWay = 16;
constexpr size_t kTaskBytes = 64;
constexpr size_t kResultBytes = 8;

class EchoHandler final : public Handler {
 public:
  void start(Workplace&, std::string_view) override {}
  std::string update(std::string_view task) override {
    return std::string(task.substr(0, kResultBytes));
  }
};

// The same as a program: `to_all` or to each worker in turn, for `seconds`.
struct EchoMessages {
  using Job = schedmp::NoJob;
  using Task = std::string;
  using Result = std::string;
};

class Echo final : public schedmp::SchedulerHalf<EchoMessages> {
 public:
  Echo(int workers, bool to_all, double seconds)
      : workers_(workers),
        to_all_(to_all),
        end_(after(
            std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds)))) {}
  std::string name() const override { return "echo program"; }
  Decision schedule(int64_t round) override {
    if (Clock::now() >= end_) return schedmp::Done{};
    std::vector<Task> tasks;
    for (int worker = 0; worker < workers_; ++worker)
      if (to_all_ || round % workers_ == worker) tasks.push_back({worker, task_});
    return tasks;
  }
  void aggregate(int64_t, std::vector<Result>) override {}

 private:
  int workers_;
  bool to_all_;
  Clock::time_point end_;
  std::string task_ = std::string(kTaskBytes, 't');
};

class EchoWorker final : public schedmp::WorkerHalf<EchoMessages> {
 public:
  std::string update(const std::string& task) override { return task.substr(0, kResultBytes); }
};

std::unique_ptr<Handler> make_handler(const std::string& program) {
  if (program == "echo program") return schedmp::worker_half<EchoWorker>();
  return std::make_unique<EchoHandler>();
}

int work(const std::string& scheduler, int index) {
  const auto control = make_control_client(scheduler);
  WorkerOptions options;
  options.scheduler = scheduler;
  options.index = index;
  options.identity.build = "dispatch_bench";
  return run_worker(options, *control, make_handler) ? 1 : 0;
}

struct Figures {
  int64_t tasks = 0;
  double seconds = 0;
  double per_second() const { return static_cast<double>(tasks) / seconds; }
};

// Keeps kUnderWay messages of `batch` tasks under way at each worker for `seconds`.
Figures measure(Crew& crew, int workers, int batch, double seconds) {
  const std::string task(kTaskBytes, 't');
  std::vector<int> owed(static_cast<size_t>(workers),
                        0);  // results until the next message goes out
  const auto send = [&](int worker) {
    crew.send(worker, std::vector<std::string>(static_cast<size_t>(batch), task));
  };
  const auto begin = Clock::now();
  for (int worker = 0; worker < workers; ++worker)
    for (int i = 0; i < kUnderWay; ++i) send(worker);
  int64_t sent = int64_t{workers} * kUnderWay * batch;
  Figures figures;
  bool over = false;
  while (figures.tasks < sent) {
    const auto results = crew.next(after(10s));
    if (!results) throw Error(ErrorCode::kTimeout, "no result within 10 s");
    figures.tasks += static_cast<int64_t>(results->results.size());
    over = over || std::chrono::duration<double>(Clock::now() - begin).count() >= seconds;
    if (over) continue;
    auto& done = owed[static_cast<size_t>(results->worker)];
    for (done += static_cast<int>(results->results.size()); done >= batch; done -= batch) {
      send(results->worker);
      sent += batch;
    }
  }
  figures.seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  return figures;
}

struct Flags {
  std::string connect;
  int index = -1;
  int workers = 2;
  double seconds = 2;
  std::string transport = "ipc";
  bool json = false;
};

Flags parse(int argc, char** argv) {
  Flags flags;
  for (int i = 1; i < argc; ++i) {
    const std::string flag = argv[i];
    if (flag == "--json") {
      flags.json = true;
      continue;
    }
    if (i + 1 == argc) throw Error(ErrorCode::kUsage, flag + " needs a value");
    const std::string value = argv[++i];
    if (flag == "--connect")
      flags.connect = value;
    else if (flag == "--index")
      flags.index = std::stoi(value);
    else if (flag == "--workers")
      flags.workers = std::stoi(value);
    else if (flag == "--seconds")
      flags.seconds = std::stod(value);
    else if (flag == "--transport")
      flags.transport = value;
    else if (flag != "--device")
      throw Error(ErrorCode::kUsage, "no flag " + flag);
  }
  return flags;
}

std::unique_ptr<Crew> assemble(const Flags& flags) {
  CrewOptions options;
  options.workers = flags.workers;
  options.transport = parse_transport(flags.transport);
  options.worker_command = {program_path()};
  options.identity.build = "dispatch_bench";
  options.handlers = make_handler;
  return Crew::assemble(options);
}

Json by_crew(const Flags& flags) {
  const auto crew = assemble(flags);
  const auto n = static_cast<size_t>(flags.workers);
  crew->start("echo", std::vector<std::string>(n), {n, std::vector<std::vector<Lane>>(n)});
  measure(*crew, flags.workers, 1, 0.2);  // warm up
  Json rows = Json::array();
  if (!flags.json)
    std::printf("%d workers, %d messages under way at each\n", flags.workers, kUnderWay);
  for (const int batch : {1, 16}) {
    const Figures figures = measure(*crew, flags.workers, batch, flags.seconds);
    rows.push_back({{"tasks_per_message", batch}, {"tasks_per_second", figures.per_second()}});
    if (!flags.json)
      std::printf("%3d tasks a message: %12s tasks/s, %6.2f us a task\n", batch,
                  human_count(static_cast<long long>(figures.per_second())).c_str(),
                  1e6 / figures.per_second());
  }
  crew->stop();
  return rows;
}

Json by_program(const Flags& flags) {
  Json rows = Json::array();
  if (!flags.json) std::printf("through the loop, by a program\n");
  for (const bool to_all : {false, true})
    for (const auto& [depth, batch] : {std::pair(1, 1), {64, 1}, {64, 16}}) {
      const auto crew = assemble(flags);
      Echo program(flags.workers, to_all, flags.seconds);
      const schedmp::LoopReport report =
          schedmp::run(program, *crew, {.depth = depth, .batch = batch});
      crew->stop();
      const double per_second = static_cast<double>(report.rounds) / report.seconds;
      rows.push_back({{"to_all", to_all},
                      {"depth", depth},
                      {"batch", batch},
                      {"rounds_per_second", per_second}});
      if (!flags.json)
        std::printf("a task for %s, depth %2d, %2d together: %12s rounds/s\n",
                    to_all ? "each worker" : "one worker ", depth, batch,
                    human_count(static_cast<long long>(per_second)).c_str());
    }
  return rows;
}

void run(const Flags& flags) {
  Json report = {{"workers", flags.workers}, {"messages_under_way", kUnderWay}};
  report["rows"] = by_crew(flags);
  report["programs"] = by_program(flags);
  if (flags.json) std::printf("%s\n", report.dump(2).c_str());
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const Flags flags = parse(argc, argv);
    if (!flags.connect.empty()) return work(flags.connect, flags.index);
    run(flags);
    return 0;
  } catch (const Error& error) {
    std::fprintf(stderr, "dispatch_bench: %s\n", error.what());
    return exit_code(error.code());
  }
}
