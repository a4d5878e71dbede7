#include "apps/main/launched.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <tuple>
#include <vector>

#include "apps/main/device_list.h"
#include "apps/main/flag_values.h"
#include "runtime/host_address.h"
#include "runtime/keeper.h"
#include "runtime/process.h"

namespace kerf::apps {

namespace {

// Task 0 may plan and read its data first.
constexpr std::chrono::seconds kTaskPatience = std::chrono::minutes(10);

std::optional<std::string> variable_of_process(const std::string& name) {
  const char* const value = std::getenv(name.c_str());
  if (value == nullptr || *value == 0) return std::nullopt;
  return value;
}

// Where task 0 is reached. Its own name may lead to loopback there (Debian's 127.0.1.1): then it is
// what it has towards another of the hosts.
std::string host_of(const Meeting& meeting) {
  if (meeting.alone) return runtime::kLoopbackHost;
  std::string host = runtime::number_of_host(meeting.hosts[0]);
  if (!runtime::is_loopback_host(host)) return host;
  if (meeting.hosts.size() == 1 && meeting.apart)
    throw Error(ErrorCode::kUsage,
                format("\"{}\" is {} here, where each host finds itself, and tasks are on several; "
                       "give --listen tcp://HOST:PORT, HOST being task 0's address in their "
                       "network, or set MASTER_ADDR to that",
                       meeting.hosts[0], host),
                "MASTER_ADDR");
  if (meeting.hosts.size() == 1) return host;
  return runtime::host_towards(format("tcp://{}:1", meeting.hosts[1]));
}

// Whether the system is to choose the port.
bool leaves_port_to_system(const std::string& listen) {
  return listen.ends_with(":*") || listen.ends_with(":0");
}

// As all tasks find it.
std::string address_of(const Rank& rank, const std::string& listen) {
  require(!leaves_port_to_system(listen), "--listen",
          "each task has to know the port beforehand, and nobody tells the others which one the "
          "system chose for the first; name one: tcp://HOST:5555");
  if (!listen.empty()) return listen;
  const Meeting meeting = find_meeting(variable_of_process, rank);
  return format("tcp://{}:{}", host_of(meeting), meeting.port);
}

std::string given(const CLI::App& command, const std::string& name) {
  const CLI::Option* const option = command.get_option_no_throw(name);
  return option != nullptr && option->count() > 0 ? option->results().back() : "";
}

int spares_of(const CLI::App& command) {
  const CLI::Option* const option = command.get_option_no_throw("--spares");
  return option != nullptr && option->count() > 0 ? option->as<int>() : 0;
}

const CLI::App& innermost(const CLI::App& app) {
  const std::vector<CLI::App*> chosen = app.get_subcommands();
  return chosen.empty() ? app : innermost(*chosen[0]);
}

// Beside --listen nobody is asked who is which task, unless --launcher says whom: then each task
// would be a run of its own, and at a port that nobody knows no worker could come to it.
void refuse_a_run_of_each(const std::string& launcher, const std::string& listen) {
  if (!launcher.empty() && launcher != "auto") return;
  if (!leaves_port_to_system(listen)) return;
  const auto rank = rank_of_process("auto", false);
  require(!rank, "--listen",
          format("{} were started, of which each would be a run of its own at a port that no other "
                 "knows; leave it out, and they are one run, or name a port (tcp://HOST:5555) and "
                 "give --launcher env; --launcher none if each is to be a run of its own",
                 rank ? plural(rank->ranks, "task") : ""));
}

// What a task's worker is told, whoever keeps it.
struct TaskWorker {
  std::string address;
  std::string device;
  std::string keys;          // empty: none
  std::optional<int> index;  // empty: whichever is free
};

std::vector<std::string> command_of(const std::string& program, const TaskWorker& worker) {
  std::vector<std::string> command{
      program,    "worker",      "--connect",  worker.address,
      "--device", worker.device, "--patience", std::to_string(kTaskPatience.count())};
  if (!worker.keys.empty()) command.insert(command.end(), {"--keys", worker.keys});
  if (worker.index) command.insert(command.end(), {"--index", std::to_string(*worker.index)});
  return command;
}

// Of tasks that are as many as workers the first keeps the last worker, which computes on the last
// device of its host.
std::vector<std::string> worker_of_first_task(const CrewFlags& flags, int workers) {
  return command_of(runtime::kThisProgram,
                    {.address = flags.listen,
                     .device = device_list(flags.device.value_or(kDefaultDevice)).back(),
                     .keys = flags.keys,
                     .index = flags.spares > 0 ? std::nullopt : std::optional(workers - 1)});
}

// The scheduler's host has a task whose device is none or the last.
size_t turn_of(const Rank& rank) {
  const int local = rank.local.value_or(rank.rank);
  return static_cast<size_t>(local > 0 && local == rank.rank ? local - 1 : local);
}

}  // namespace

std::optional<Rank> rank_of_process(const std::string& launcher, bool has_address) {
  if (launcher == "auto" && has_address) return std::nullopt;
  return find_rank(variable_of_process, launcher, ::isatty(STDIN_FILENO) == 1);
}

CrewFlags as_launched(const CrewFlags& flags, int workers) {
  CrewFlags mine = flags;
  const auto rank = rank_of_process(flags.launcher, !flags.listen.empty() || !flags.hosts.empty());
  if (!rank) return mine;
  require(!flags.shrink, "--shrink", "the launcher started the tasks of one run; give --spares");
  require(flags.hosts.empty(), "--hosts", "the launcher starts the workers; leave one of them out");
  const int all = workers + flags.spares;
  require(
      rank->ranks == all || rank->ranks == all + 1, "--launcher",
      format("it started {}, and the run has {}{}; start {}, or {} where the first is to be the "
             "scheduler alone, or give --launcher none",
             plural(rank->ranks, "task"), plural(workers, "worker"),
             flags.spares > 0 ? format(" and {}", plural(flags.spares, "spare")) : "", all,
             all + 1));
  const std::vector<runtime::DeviceKind> kinds = device_kinds(flags);
  require(std::ranges::all_of(kinds, [&](auto kind) { return kind == kinds[0]; }), "--device",
          "tasks of each host take devices of the list in turn, and a plan has to know whose are "
          "GPUs; give CPUs or GPUs alone");
  mine.launched = true;
  mine.listen = address_of(*rank, flags.listen);
  if (rank->ranks == all) mine.own_worker = worker_of_first_task(mine, workers);
  return mine;
}

std::optional<int> serve_if_launched(const CLI::App& app) {
  const CLI::App& command = innermost(app);
  if (command.get_option_no_throw("--launcher") == nullptr) return std::nullopt;
  const std::string launcher = given(command, "--launcher");
  const std::string listen = given(command, "--listen");
  const bool starts_by_ssh = !given(command, "--hosts").empty();
  const auto rank =
      rank_of_process(launcher.empty() ? "auto" : launcher, !listen.empty() || starts_by_ssh);
  if (!rank && !starts_by_ssh) refuse_a_run_of_each(launcher, listen);
  if (!rank) return std::nullopt;
  const std::string address = address_of(*rank, listen);  // task 0, too, fails now or never
  if (rank->rank == 0) return std::nullopt;
  const std::string device = given(command, "--device");
  const std::vector<std::string> devices = device_list(device.empty() ? kDefaultDevice : device);
  // With spares, whoever comes first has a place, and nobody may wish for one.
  const auto index = spares_of(command) > 0 ? std::nullopt : std::optional(rank->rank - 1);
  std::vector<std::string> worker =
      command_of("/proc/self/exe", {.address = address,
                                    .device = devices[turn_of(*rank) % devices.size()],
                                    .keys = given(command, "--keys"),
                                    .index = index});
  // Who ends a job tells every task, and the first, which may have a checkpoint to write, tells the
  // others in its own time.
  std::ignore = std::signal(SIGTERM, SIG_IGN);
  // It keeps its title: Slurm's proctrack/linuxproc loses a process whose name has a space.
  return runtime::keep_worker(std::move(worker));
}

}  // namespace kerf::apps
