// Dispatch: how many small tasks a second go from the scheduler through worker processes and back.
//
//   dispatch_bench [--workers 2] [--seconds 2] [--transport ipc] [--json]
//
// Each worker has 16 messages under way; a message carries 1 task, then 16. A task is 64 bytes and
// its result 8. The benchmark starts its own workers: this same program, with --connect.
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "runtime/crew.h"
#include "runtime/json.h"
#include "runtime/process.h"

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

std::unique_ptr<Handler> make_handler(const std::string&) {
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

void run(const Flags& flags) {
  CrewOptions options;
  options.workers = flags.workers;
  options.transport = parse_transport(flags.transport);
  options.worker_command = {program_path()};
  options.identity.build = "dispatch_bench";
  options.handlers = make_handler;
  const auto crew = Crew::assemble(options);
  const auto n = static_cast<size_t>(flags.workers);
  crew->start("echo", std::vector<std::string>(n), {n, std::vector<std::vector<Lane>>(n)});
  measure(*crew, flags.workers, 1, 0.2);  // warm up
  Json report = {{"workers", flags.workers}, {"messages_under_way", kUnderWay}};
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
  report["rows"] = rows;
  if (flags.json) std::printf("%s\n", report.dump(2).c_str());
  crew->stop();
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
