#include "runtime/worker.h"

#include <unistd.h>

#include <utility>

#include "runtime/control_thread.h"
#include "runtime/host_address.h"
#include "runtime/messages.h"
#include "runtime/remote_store.h"
#include "runtime/resident_memory.h"
#include "runtime/wire.h"

namespace kerf::runtime {
namespace {

using namespace std::chrono_literals;

constexpr auto kOpen = 20s;     // for all channels
constexpr auto kDrain = 500ms;  // for messages that nobody took yet when the run ends
constexpr auto kCountEvery = 200ms;
constexpr auto kLook = 1s;  // while there is no task, at threads of the handler

// While this exists, the end of the run interrupts the endpoints and the store, which gets answers.
class Guard {
 public:
  Guard(ControlThread& thread, std::vector<Endpoint*> endpoints, RemoteStore* store)
      : thread_(thread) {
    thread_.guard(std::move(endpoints), store);
  }
  ~Guard() { thread_.guard({}, nullptr); }
  Guard(const Guard&) = delete;
  Guard& operator=(const Guard&) = delete;

 private:
  ControlThread& thread_;
};

// Counts what was mended: now and then for the reports, and at the end of a run, however it ends.
class Count {
 public:
  Count(Mended& at_end, ControlThread& reports, const Endpoint& endpoint, const Endpoint& service,
        const Trace& trace)
      : at_end_(at_end),
        reports_(reports),
        endpoint_(endpoint),
        service_(service),
        trace_(trace),
        next_(after(kCountEvery)) {}
  ~Count() { at_end_ = counted(); }
  Count(const Count&) = delete;
  Count& operator=(const Count&) = delete;

  void look() {
    if (Clock::now() < next_) return;
    reports_.report(counted());
    next_ = after(kCountEvery);
  }

 private:
  Mended counted() const {
    ChannelCounters counters = endpoint_.counters();
    counters += service_.counters();
    return {counters.resent, counters.dropped, trace_.lost()};
  }

  Mended& at_end_;
  ControlThread& reports_;
  const Endpoint& endpoint_;
  const Endpoint& service_;
  const Trace& trace_;
  Clock::time_point next_;
};

// The run was stopped before its work began.
struct Stopped {};

class Server {
 public:
  Server(const WorkerOptions& options, const HandlerFactory& handlers, Activity& activity,
         ControlThread& control)
      : options_(options), handlers_(handlers), activity_(activity), control_(control) {}

  void serve() {
    resident_memory_at_start();
    const auto welcome = join();
    local_ = welcome.local;
    activity_.doing("opening device");
    const std::shared_ptr<Device> device = options_.make_device(options_.device);
    const std::string label = kerf::format("worker {}", welcome.worker);
    const std::string host = host_towards(options_.scheduler);
    const auto endpoint = make_endpoint(welcome.transports, label, device, options_.hub, host);
    const auto service = make_endpoint(by_host_memory(welcome.transports), label,
                                       runtime::make_device("cpu"), options_.hub, host);
    LocalStore own_files;
    const auto far_files = store_of(welcome);
    const Guard guard(control_, {endpoint.get(), service.get()}, far_files.get());
    activity_.doing("");
    control_.send(
        {ControlType::kAddress, encode(Addresses{endpoint->address(), service->address()})});
    auto start = decode<Start>(expect(ControlType::kStart).payload);
    activity_.doing("opening channels");
    endpoint->open(start.wiring, after(kOpen));
    service->open(start.service, after(kOpen));
    activity_.progress();

    Trace trace;
    Count count(mended_, control_, *endpoint, *service, trace);
    const auto stream = device->make_stream();
    Workplace workplace{.worker = welcome.worker,
                        .workers = welcome.workers,
                        .threads = welcome.threads,
                        .device = *device,
                        .stream = *stream,
                        .endpoint = *endpoint,
                        .activity = activity_,
                        .trace = trace,
                        .store = far_files ? static_cast<Store&>(*far_files) : own_files,
                        .service = service.get(),
                        .own_process = !options_.hub};
    const auto handler = handlers_(start.program);
    activity_.doing("starting");
    handler->start(workplace, std::exchange(start.job, {}));
    activity_.progress();
    activity_.doing("");
    control_.send({ControlType::kReady, {}});
    // Threads of one process are lost together, and have no figures that another thread may read.
    while (work(*handler))
      if (!options_.hub) count.look();
    activity_.doing("leaving");
    // What was not taken by now is not wanted: every result has arrived.
    if (!endpoint->drain(after(kDrain))) activity_.doing("leaving with messages untaken");
  }
  // Whether the scheduler said that it started this worker.
  bool local() const { return local_; }
  const Mended& mended() const { return mended_; }

 private:
  Welcome join() {
    control_.send(
        {ControlType::kRegister, encode(Registration{.identity = options_.identity,
                                                     .pid = static_cast<int32_t>(::getpid()),
                                                     .wish = options_.index,
                                                     .device = options_.device,
                                                     .reach = reach(),
                                                     .keeper = options_.keeper})});
    return decode<Welcome>(expect(ControlType::kWelcome).payload);
  }

  // Null for one of the scheduler's host.
  std::unique_ptr<RemoteStore> store_of(const Welcome& welcome) {
    if (welcome.store_window <= 0) return nullptr;
    return std::make_unique<RemoteStore>(
        [this](ControlMessage message) { control_.send(std::move(message)); }, welcome.store_window,
        activity_);
  }

  Reach reach() const { return options_.reach ? *options_.reach : reach_of(options_.device); }

  ControlMessage expect(ControlType type) {
    ControlMessage order = *control_.next_order(Deadline::max());
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

  // One batch of tasks, or what of it was begun before a stop; false when told to stop.
  bool work(Handler& handler) {
    std::optional<ControlMessage> order;
    while (!(order = control_.next_order(after(kLook)))) handler.check();
    if (order->type == ControlType::kStop) return false;
    if (order->type != ControlType::kWork)
      throw Error(ErrorCode::kProtocol, "the scheduler sent something else than work");
    const auto tasks = decode<std::vector<std::string>>(order->payload);
    for (const auto& task : tasks) {
      if (control_.stopped()) break;  // and next_order() will say so
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
  bool local_ = false;
  Mended mended_;
  bool named_ = false;  // what we are doing has a name; the handler may give a better one
};

ControlMessage failure(const Error& error) {
  return {ControlType::kFailed, encode(Failure{.code = static_cast<int32_t>(error.code()),
                                               .message = error.message(),
                                               .where = error.where()})};
}

}  // namespace

std::optional<Error> run_worker(const WorkerOptions& options, ControlClient& control,
                                const HandlerFactory& handlers) {
  Activity activity;
  ControlThread thread(options, control, activity);
  Server server(options, handlers, activity, thread);
  const auto tell = [&](const Error& error) -> std::optional<Error> {
    const bool told = thread.finish(failure(error));
    if (told && server.local()) return error;
    throw error;
  };
  try {
    server.serve();
  } catch (const Stopped&) {
  } catch (const Error& error) {
    // Whatever fails once we were told to stop, or once the scheduler was lost, fails because of
    // that.
    if (!thread.stopped()) return tell(thread.cause().value_or(error));
  } catch (const std::exception& error) {
    return tell(Error(ErrorCode::kInternal, error.what()));
  }
  thread.finish({ControlType::kBye, encode(server.mended())});
  return {};
}

}  // namespace kerf::runtime
