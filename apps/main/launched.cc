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

// As all tasks find it.
std::string address_of(const Rank& rank, const std::string& listen) {
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

// The scheduler's host has a task that takes no device.
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
  const int others = workers + flags.spares;
  require(
      rank->ranks - 1 == others, "--launcher",
      format("it started {}, a scheduler and {}, and the run has {}{}; start {} or give "
             "--launcher none",
             plural(rank->ranks, "task"), plural(rank->ranks - 1, "worker"), workers,
             flags.spares > 0 ? format(" and {}", plural(flags.spares, "spare")) : "", others + 1));
  const std::vector<runtime::DeviceKind> kinds = device_kinds(flags);
  require(std::ranges::all_of(kinds, [&](auto kind) { return kind == kinds[0]; }), "--device",
          "tasks of each host take devices of the list in turn, and a plan has to know whose are "
          "GPUs; give CPUs or GPUs alone");
  mine.launched = true;
  mine.listen = address_of(*rank, flags.listen);
  return mine;
}

std::optional<int> serve_if_launched(const CLI::App& app) {
  const CLI::App& command = innermost(app);
  if (command.get_option_no_throw("--launcher") == nullptr) return std::nullopt;
  const std::string launcher = given(command, "--launcher");
  const std::string listen = given(command, "--listen");
  const auto rank = rank_of_process(launcher.empty() ? "auto" : launcher,
                                    !listen.empty() || !given(command, "--hosts").empty());
  if (!rank) return std::nullopt;
  const std::string address = address_of(*rank, listen);  // task 0, too, fails now or never
  if (rank->rank == 0) return std::nullopt;
  const std::string device = given(command, "--device");
  const std::vector<std::string> devices = device_list(device.empty() ? kDefaultDevice : device);
  std::vector<std::string> worker{"/proc/self/exe", "worker",
                                  "--connect",      address,
                                  "--device",       devices[turn_of(*rank) % devices.size()],
                                  "--patience",     std::to_string(kTaskPatience.count())};
  const auto add = [&](const char* flag, const std::string& value) {
    if (!value.empty()) worker.insert(worker.end(), {flag, value});
  };
  add("--keys", given(command, "--keys"));
  if (const int workers = rank->ranks - 1 - spares_of(command); rank->rank <= workers)
    add("--index", std::to_string(rank->rank - 1));
  // Who ends a job tells every task, and the first, which may have a checkpoint to write, tells the
  // others in its own time.
  std::ignore = std::signal(SIGTERM, SIG_IGN);
  // It keeps its title: Slurm's proctrack/linuxproc loses a process whose name has a space.
  return runtime::keep_worker(std::move(worker));
}

}  // namespace kerf::apps
