#include "tests/support/test_worker.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <span>
#include <sstream>
#include <thread>

#include "runtime/control.h"
#include "runtime/file.h"
#include "runtime/keeper.h"
#include "runtime/process.h"
#include "tests/support/errors.h"

namespace kerf::tests {
namespace {

using namespace std::chrono_literals;
using runtime::Workplace;

class WordsHandler final : public runtime::Handler {
 public:
  ~WordsHandler() override {
    std::this_thread::sleep_for(linger_);
    if (perishes_) ::kill(::getpid(), SIGKILL);
  }

  void start(Workplace& workplace, std::string_view job) override {
    workplace_ = &workplace;
    job_ = std::string(job);
  }

  std::string update(std::string_view task) override {
    std::istringstream words{std::string(task)};
    std::string verb;
    words >> verb;
    workplace_->activity.doing(kerf::format("'{}'", task.substr(0, 40)));
    if (verb == "echo") return rest(words);
    if (verb == "job") return job_.size() > 100 ? std::to_string(job_.size()) : job_;
    if (verb == "who")
      return kerf::format("{} of {}, {} threads", workplace_->worker, workplace_->workers,
                          workplace_->threads);
    if (verb == "sum") return sum(words);
    if (verb == "sleep") return sleep(words);
    if (verb == "pretend") return pretend(words);
    if (verb == "linger") return linger(words);
    if (verb == "perish") return perishes_ = true, "will perish";
    if (verb == "trace") return trace(words);
    if (verb == "send") return send(words);
    if (verb == "receive") return receive(words);
    if (verb == "write" || verb == "read") return file(verb, words);
    if (verb == "store" || verb == "fetch") return stored(verb, words);
    if (verb == "pour") return pour(words);
    return end(verb, words);
  }

 private:
  static std::string rest(std::istringstream& words) {
    std::string text;
    std::getline(words >> std::ws, text);
    return text;
  }

  static std::string file(const std::string& verb, std::istringstream& words) {
    std::string path;
    words >> path;
    if (verb == "read") return runtime::read_file(path);
    runtime::write_file_atomic(path, rest(words));
    return "written";
  }

  std::string stored(const std::string& verb, std::istringstream& words) {
    std::string path;
    words >> path;
    if (verb == "store") {
      const auto file = workplace_->store.create(path);
      file->write(rest(words));
      file->commit();
      return "stored";
    }
    const auto file = workplace_->store.open(path);
    std::string text(file->bytes(), '\0');
    file->read(0, std::as_writable_bytes(std::span(text)), ErrorCode::kUsage);
    return text;
  }

  std::string pour(std::istringstream& words) {
    std::string path;
    size_t mebibytes = 0;
    words >> path >> mebibytes;
    const auto file = workplace_->store.create(path);
    file->write(std::string(mebibytes << 20, 'x'));
    file->flush();
    workplace_->activity.doing("'poured'");
    std::this_thread::sleep_for(60s);
    return "poured";
  }

  static std::string sum(std::istringstream& words) {
    int64_t a = 0;
    int64_t b = 0;
    words >> a >> b;
    return std::to_string(a + b);
  }

  static std::string sleep(std::istringstream& words) {
    int64_t milliseconds = 0;
    words >> milliseconds;
    std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
    return "slept";
  }

  std::string pretend(std::istringstream& words) {
    workplace_->activity.doing("");
    return sleep(words);
  }

  std::string trace(std::istringstream& words) {
    int spans = 0;
    words >> spans;
    workplace_->trace.enable(true);
    for (int i = 0; i < spans; ++i) workplace_->trace.add({.name = "a span"});
    return "traced";
  }

  std::string linger(std::istringstream& words) {
    int64_t milliseconds = 0;
    words >> milliseconds;
    linger_ = std::chrono::milliseconds(milliseconds);
    return "will linger";
  }

  std::string send(std::istringstream& words) {
    int peer = 0;
    words >> peer;
    const std::string text = rest(words);
    auto& channel = workplace_->endpoint.sender(peer);
    workplace_->activity.awaits("a free slot", peer);
    const auto slot = channel.acquire(0, text.size(), runtime::after(60s));
    if (!slot) throw Error(ErrorCode::kTimeout, "no slot");
    auto& stream = workplace_->stream;
    if (slot->writable != nullptr) stream.wait(*slot->writable);
    stream.copy(slot->data, text.data(), text.size());
    channel.commit(*slot, {}, &stream);
    return "sent";
  }

  std::string receive(std::istringstream& words) {
    int peer = 0;
    words >> peer;
    auto& channel = workplace_->endpoint.receiver(peer);
    workplace_->activity.awaits("a greeting", peer);
    const auto view = channel.receive(runtime::after(60s));
    if (!view) throw Error(ErrorCode::kTimeout, "no message");
    auto& stream = workplace_->stream;
    std::string text(view->bytes, '\0');
    if (view->ready != nullptr) stream.wait(*view->ready);
    stream.copy(text.data(), view->data, view->bytes);
    stream.synchronize();
    channel.release(*view, &stream);
    return text;
  }

  static std::string end(const std::string& verb, std::istringstream& words) {
    if (verb == "fail") throw Error(ErrorCode::kInternal, rest(words), "test/fail");
    if (verb == "lose") throw Error(ErrorCode::kDeviceLost, rest(words), "cuda:7");
    if (verb == "die") ::kill(::getpid(), SIGKILL);
    if (verb == "stop") ::kill(::getpid(), SIGSTOP);
    int code = 0;
    words >> code;
    if (verb == "exit") ::_exit(code);
    throw Error(ErrorCode::kUsage, kerf::format("no task '{}'", verb));
  }

  Workplace* workplace_ = nullptr;
  std::string job_;
  std::chrono::milliseconds linger_{0};
  bool perishes_ = false;
};

class NullHandler final : public runtime::Handler {
 public:
  void start(Workplace&, std::string_view) override {}
  std::string update(std::string_view) override { return {}; }
};

}  // namespace

std::unique_ptr<runtime::Handler> make_test_handler(const std::string& program) {
  if (program == "words") return std::make_unique<WordsHandler>();
  if (program == "null") return std::make_unique<NullHandler>();
  throw Error(ErrorCode::kUsage, kerf::format("no program '{}'; there are words, null", program));
}

runtime::CrewOptions crew_options(runtime::TransportKind transport, int workers,
                                  const std::string& program) {
  runtime::CrewOptions options;
  options.workers = workers;
  options.transport = transport;
  options.worker_command = {program};
  options.identity = test_identity();
  options.handlers = make_test_handler;
  options.assemble_timeout = std::chrono::seconds(20);
  return options;
}

bool wait_for_report(runtime::Crew& crew, size_t worker, const std::string& text) {
  const auto deadline = runtime::after(10s);
  while (runtime::Clock::now() < deadline) {
    if (crew.next(runtime::after(20ms))) return false;
    const auto activity = crew.workers().at(worker).activity;
    if ((activity.doing + "\n" + activity.awaits).find(text) != std::string::npos) return true;
  }
  return false;
}

Error end_of(runtime::Crew& crew) {
  const auto ended = error_of([&] {
    const auto deadline = runtime::after(20s);
    while (crew.next(deadline) || runtime::Clock::now() < deadline) {
    }
  });
  return ended.value_or(Error(ErrorCode::kTimeout, "no error came"));
}

runtime::Identity test_identity() { return {.build = "test 1", .instructions = "any"}; }

int run_test_worker(int argc, char** argv) {
  runtime::WorkerOptions options;
  options.identity = test_identity();
  for (int i = 1; i + 1 < argc; ++i) {
    const std::string flag = argv[i];
    if (flag == "--connect") options.scheduler = argv[i + 1];
    if (flag == "--keys") options.keys = argv[i + 1];
    if (flag == "--index") options.index = std::stoi(argv[i + 1]);
    if (flag == "--device") options.device = argv[i + 1];
    if (flag == "--host" || flag == "--container") {  // another, of this one's network
      options.reach = runtime::reach_of("cpu");
      options.reach->host = argv[i + 1];
      if (flag == "--host") options.reach->sockets = argv[i + 1];
    }
    if (flag == runtime::kKeeperFlag) options.keeper = std::stoi(argv[i + 1]);
    if (flag == "--build") options.identity.build = argv[i + 1];
  }
  const bool keeps =
      std::any_of(argv + 1, argv + argc, [](std::string_view word) { return word == "--keep"; });
  if (keeps && options.keeper == 0) return runtime::keep_worker(argc, argv);
  if (keeps) runtime::end_with(options.keeper);
  options.give_up = [keeper = options.keeper](const Error& error, bool known) {
    if (!known) std::fprintf(stderr, "worker: %s\n", error.what());
    ::_exit(runtime::end_of_worker(error, keeper));
  };
  options.again = [=] { runtime::begin_process_again(argc, argv); };
  runtime::set_process_title(argc, argv, "kerf worker");
  try {
    const auto control = runtime::make_control_client(options.scheduler, options.keys);
    const auto told = run_worker(options, *control, make_test_handler);
    return told ? exit_code(told->code()) : 0;
  } catch (const Error& error) {
    std::fprintf(stderr, "worker: %s\n", error.what());
    return runtime::end_of_worker(error, options.keeper);
  }
}

}  // namespace kerf::tests
