#include "runtime/worker.h"

#include <unistd.h>

#include "runtime/control_thread.h"
#include "runtime/messages.h"
#include "runtime/wire.h"

namespace kerf::runtime {
namespace {

using namespace std::chrono_literals;

constexpr auto kOpen = 20s;     // for all channels
constexpr auto kDrain = 500ms;  // for messages that nobody took yet when the run ends

// While this exists, the end of the run interrupts the endpoint.
class Guard {
 public:
  Guard(ControlThread& thread, Endpoint& endpoint) : thread_(thread) { thread_.guard(&endpoint); }
  ~Guard() { thread_.guard(nullptr); }
  Guard(const Guard&) = delete;
  Guard& operator=(const Guard&) = delete;

 private:
  ControlThread& thread_;
};

// The run was stopped before its work began.
struct Stopped {};

class Server {
 public:
  Server(const WorkerOptions& options, const HandlerFactory& handlers, Activity& activity,
         ControlThread& control)
      : options_(options), handlers_(handlers), activity_(activity), control_(control) {}

  void serve() {
    const auto welcome = join();
    const auto device = make_device(options_.device);
    const auto endpoint = make_endpoint(parse_transport(welcome.transport),
                                        kerf::format("worker {}", welcome.worker), options_.hub);
    const Guard guard(control_, *endpoint);
    control_.send({ControlType::kAddress, endpoint->address()});
    const auto start = decode<Start>(expect(ControlType::kStart).payload);
    activity_.doing("opening channels");
    endpoint->open(start.wiring, after(kOpen));

    Trace trace;
    Workplace workplace{.worker = welcome.worker,
                        .workers = welcome.workers,
                        .threads = welcome.threads,
                        .device = *device,
                        .endpoint = *endpoint,
                        .activity = activity_,
                        .trace = trace};
    const auto handler = handlers_(start.program);
    activity_.doing("starting");
    handler->start(workplace, start.job);
    activity_.progress();
    activity_.doing("");
    control_.send({ControlType::kReady, {}});
    while (work(*handler)) {
    }
    activity_.doing("leaving");
    // What was not taken by now is not wanted: every result has arrived.
    if (!endpoint->drain(after(kDrain))) activity_.doing("leaving with messages untaken");
  }

 private:
  Welcome join() {
    control_.send(
        {ControlType::kRegister, encode(Registration{.identity = options_.identity,
                                                     .pid = static_cast<int32_t>(::getpid()),
                                                     .wish = options_.index,
                                                     .device = options_.device,
                                                     .incarnation = random_bits()})});
    return decode<Welcome>(expect(ControlType::kWelcome).payload);
  }

  ControlMessage expect(ControlType type) {
    auto order = control_.next_order();
    if (order.type == type) return order;
    if (order.type == ControlType::kStop) throw Stopped{};
    if (order.type == ControlType::kRefuse)
      throw Error(ErrorCode::kUnavailable,
                  kerf::format("the scheduler at {} refused this worker: {}", options_.scheduler,
                               order.payload));
    throw Error(ErrorCode::kProtocol,
                kerf::format("the scheduler sent message {} where {} was expected",
                             static_cast<int>(order.type), static_cast<int>(type)));
  }

  // One batch of tasks; false when told to stop.
  bool work(Handler& handler) {
    auto order = control_.next_order();
    if (order.type == ControlType::kStop) return false;
    if (order.type != ControlType::kWork)
      throw Error(ErrorCode::kProtocol, "the scheduler sent something else than work");
    const auto tasks = decode<std::vector<std::string>>(order.payload);
    for (const auto& task : tasks) {
      if (!named_) activity_.doing("a task");
      named_ = true;
      control_.add_result(handler.update(task));
      activity_.progress();
    }
    if (control_.idle()) {
      activity_.doing("");
      named_ = false;
    }
    return true;
  }

  const WorkerOptions& options_;
  const HandlerFactory& handlers_;
  Activity& activity_;
  ControlThread& control_;
  bool named_ = false;  // what we are doing has a name; the handler may give a better one
};

ControlMessage failure(ErrorCode code, const std::string& message, const std::string& where) {
  return {ControlType::kFailed,
          encode(Failure{.code = static_cast<int32_t>(code), .message = message, .where = where})};
}

}  // namespace

void run_worker(const WorkerOptions& options, ControlClient& control,
                const HandlerFactory& handlers) {
  Activity activity;
  ControlThread thread(options, control, activity);
  try {
    Server(options, handlers, activity, thread).serve();
    thread.finish({ControlType::kBye, {}});
  } catch (const Stopped&) {
    thread.finish({ControlType::kBye, {}});
  } catch (const Error& error) {
    // Whatever fails once we were told to stop fails because of that.
    const bool stopped = thread.stopped();
    thread.finish(stopped ? ControlMessage{ControlType::kBye, {}}
                          : failure(error.code(), error.message(), error.where()));
    if (!stopped) throw;
  } catch (const std::exception& error) {
    thread.finish(failure(ErrorCode::kInternal, error.what(), {}));
    throw;
  }
}

}  // namespace kerf::runtime
