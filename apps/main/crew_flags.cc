#include "apps/main/crew_flags.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <tuple>
#include <utility>

#include "apps/main/answer.h"
#include "apps/main/device_list.h"
#include "apps/main/flag_values.h"
#include "apps/main/host_list.h"
#include "apps/main/launched.h"
#include "apps/main/ranks.h"
#include "partitioner/request.h"
#include "runtime/device.h"
#include "runtime/error.h"
#include "runtime/keeper.h"
#include "runtime/process.h"
#include "schedmp/scheduler.h"

namespace kerf::apps {

namespace {

constexpr const char* kBuddyEvery = "--buddy-every";
constexpr double kMostPatience = 24 * 3600.0;  // seconds

runtime::CrewOptions crew_options(const CrewFlags& flags, const CrewNeeds& needs,
                                  const Interrupts& interrupts) {
  require(flags.hosts.empty() || !flags.device, "--device",
          "it is of local workers, and with --hosts there are none; give it in the line of each "
          "host: HOST device=DEVICE");
  require(
      flags.listen.empty() || flags.launched || !flags.device, "--device",
      format("it is of local workers, and with --listen there are none; give it to each that is "
             "started: {} worker --device",
             runtime::program_name()));
  runtime::CrewOptions options;
  options.workers = needs.workers;
  if (flags.transport) options.transport = runtime::parse_transport(*flags.transport);
  options.threads = flags.threads.value_or(1);
  options.devices = device_list(flags.device.value_or(kDefaultDevice));
  require(flags.keys.empty() || !flags.listen.empty(), "--keys",
          "workers that the run starts itself need none; give --listen as well");
  require(!flags.encrypt_data || !flags.keys.empty(), "--encrypt-data",
          "who listens between scheduler and worker would hear by what it is encrypted; give "
          "--keys as well");
  if (flags.spares > 0 && flags.listen.empty())
    tell_notes(
        {"--spares is of workers that connect; those that the run starts itself it starts "
         "again itself, so they need none"});
  options.spares = flags.spares;
  require(flags.hosts.empty() || !flags.listen.empty(), "--hosts",
          "its workers have to know where this run listens; give --listen as well");
  options.listen = flags.listen;
  options.returning = flags.returning;
  options.admission.keys = flags.keys;
  options.encrypt_data = flags.encrypt_data;
  options.tell = options.admission.notice = [](const std::string& note) { tell_notes({note}); };
  options.worker_command = {runtime::kThisProgram, "worker", runtime::kKeeperFlag,
                            std::to_string(::getpid())};
  options.identity = schedmp::identity();
  options.handlers = schedmp::handlers_of(needs.programs);
  options.interrupt = interrupts.request();
  const auto at_least = [&](std::chrono::milliseconds least, double times) {
    const double patience = std::min(times * needs.longest_action_seconds, kMostPatience);
    return std::max(least,
                    std::chrono::milliseconds(static_cast<int64_t>(std::ceil(patience * 1e3))));
  };
  options.no_progress = at_least(options.no_progress, 10);
  options.deadlock = at_least(options.deadlock, 3);
  // Somebody starts the workers by hand, unless ssh or a launcher does.
  if (!flags.listen.empty()) options.assemble_timeout = std::chrono::hours(1);
  if (flags.shrink) options.restart_timeout = kShrinkAfter;
  options.wishes_bind = !flags.shrink;
  if (!flags.no_restart)
    options.begins_again = [](const Error& loss) {
      tell_notes({format("{}; all workers start again", first_line(loss.message()))});
    };
  if (!flags.hosts.empty() || flags.launched) options.assemble_timeout = std::chrono::minutes(5);
  return options;
}

bool may_be_elsewhere(const CrewFlags& flags) {
  const bool listens = !flags.listen.empty();
  return !flags.hosts.empty() || (listens && !runtime::is_local_address(flags.listen)) ||
         rank_of_process(flags.launcher, listens);
}

// An error's place is part of it.
void check_hosts(const std::string& file) {
  try {
    std::ignore = read_hosts(file);
  } catch (const Error& error) {
    throw Error(error.code(), error.what());
  }
}

// Port 0 is "any that is free" to sockets, as * is to ZeroMQ; only the latter is known further on.
std::string any_port_as_a_star(std::string address) {
  if (address.starts_with("tcp://") && address.ends_with(":0")) address.back() = '*';
  return address;
}

}  // namespace

std::vector<runtime::DeviceKind> device_kinds(const CrewFlags& flags) {
  std::vector<runtime::DeviceKind> kinds;
  for (const std::string& name : device_list(flags.device.value_or(kDefaultDevice)))
    kinds.push_back(name == kDefaultDevice ? runtime::DeviceKind::kCpu
                                           : runtime::DeviceKind::kCuda);
  return kinds;
}

void add_crew_flags(CLI::App& command, CrewFlags& flags) {
  command
      .add_option("--transport", flags.transport,
                  "Of all pairs of workers: cuda, shm, ipc, tcp or inproc (default: for each pair "
                  "cuda on one GPU, shm on one host, else tcp)")
      ->check(parsed_by(runtime::parse_transport))
      ->type_name("NAME");
  command
      .add_option(
          "--device", flags.device,
          "Of local workers, in turn: cpu, cuda (every GPU) or cuda:N, with commas (default cpu)")
      ->type_name("DEVICE[,...]");
  command
      .add_option("--listen", flags.listen,
                  format("Wait here for `{} worker --connect` instead of starting local workers; "
                         "beyond this host workers need --keys",
                         runtime::program_name()))
      ->transform(any_port_as_a_star)
      ->type_name("tcp://HOST:PORT");
  command
      .add_option("--keys", flags.keys,
                  "With --listen: let in only workers that have keys of this folder, which "
                  "`kerf keys make` makes, and encrypt what is said to them")
      ->type_name("DIR");
  command.add_flag("--encrypt-data", flags.encrypt_data,
                   "With --keys: encrypt what workers send each other over tcp, too (default: it "
                   "carries checksums)");
  command
      .add_option("--spares", flags.spares,
                  "With --listen: as many workers more may wait, and take the places of lost ones")
      ->check(whole_number<int>(0, kMostWorkers))
      ->type_name("N")
      ->capture_default_str();
  command
      .add_option("--hosts", flags.hosts,
                  "With --listen: start the workers by ssh on the hosts of this file, one of each "
                  "line: HOST [device=DEVICE] [kerf=PATH] [keys=DIR]")
      ->check(parsed_by(check_hosts))
      ->type_name("FILE");
  command
      .add_option("--launcher", flags.launcher,
                  "Who started this command once for the scheduler and once for each worker, and "
                  "says in the environment which is which: kerf, torchrun, mpirun, slurm, pmix, "
                  "index, env (any), none, or auto: slurm or mpirun where several tasks were "
                  "started and the input is no terminal (default auto)")
      ->check(parsed_by(check_launcher))
      ->type_name("NAME");
  command.add_flag("--no-restart", flags.no_restart,
                   "End the run when a worker is lost (default: all workers begin again from what "
                   "they held a moment before, and the results have the same bits)");
}

CLI::Option* add_keep_workers_flag(CLI::App& command, std::optional<int>& seconds) {
  constexpr int kMostKeptSeconds = 24 * 3600;
  return command
      .add_option("--keep-workers", seconds,
                  "Keep what workers hold in this host's memory, too, about every second: should "
                  "this process be killed, it is there for so long, and --resume goes on from it")
      ->check(whole_number<int>(1, kMostKeptSeconds))
      ->type_name("SECONDS");
}

void add_buddy_flag(CLI::App& command, CrewFlags& flags, const std::string& step) {
  command
      .add_option(
          kBuddyEvery, flags.buddy_every,
          format("Have workers keep what they hold in memory of the scheduler's host every N "
                 "{0}s, whatever that costs: where one is lost, no more than N {0}s are "
                 "done again. With --keep-workers, that is as often (default: about every "
                 "second, for at most a hundredth of the time)",
                 step))
      ->check(whole_number<int64_t>(1))
      ->type_name("N");
}

void check_buddy_flag(const CrewFlags& flags, bool in_memory) {
  if (!flags.buddy_every) return;
  require(!flags.no_restart || in_memory, kBuddyEvery,
          "with --no-restart the loss of a worker ends the run, and nothing is kept; leave one of "
          "them out");
  const bool threads = flags.transport && runtime::parse_transport(*flags.transport) ==
                                              runtime::TransportKind::kInproc;
  require(!threads || in_memory, kBuddyEvery,
          "over inproc workers are threads of this process and lost with it, so nothing is kept; "
          "leave one of them out");
}

void add_threads_flag(CLI::App& command, CrewFlags& flags) {
  command.add_option("--threads", flags.threads, "Per worker (default 1)")
      ->check(whole_number<int>(1, kMostThreads))
      ->type_name("N");
}

std::optional<int64_t> host_memory(const CrewFlags& flags) {
  if (may_be_elsewhere(flags)) return std::nullopt;
  return static_cast<int64_t>(runtime::make_cpu_device()->memory().capacity);
}

void check_host_memory(const CrewFlags& flags, const std::vector<double>& bytes,
                       const std::string& way_out) {
  const std::optional<int64_t> host = host_memory(flags);
  if (!host) return;
  const std::vector<runtime::DeviceKind> kinds = device_kinds(flags);
  double sum = 0;
  for (size_t worker = 0; worker < bytes.size(); ++worker)
    if (partitioner::device_of(kinds, static_cast<int>(worker)) == runtime::DeviceKind::kCpu)
      sum += bytes[worker];
  const auto capacity = static_cast<double>(*host);
  if (capacity > 0 && sum > capacity)
    throw Error(ErrorCode::kInfeasible,
                format("the workers need {} together, but this host has {}; {}", human_bytes(sum),
                       human_bytes(capacity), way_out));
}

runtime::Crew::Waiting tell_who_is_here(const CrewFlags& flags, const CrewNeeds& needs,
                                        bool again) {
  if (flags.listen.empty()) return {};
  return [workers = needs.workers, spares = flags.spares,
          keys = flags.keys.empty() ? "" : " --keys DIR",
          again](int here, const std::string& address) mutable {
    const std::string command =
        format("{} worker --connect {}{}", runtime::program_name(), address, keys);
    if (here > 0)
      tell_line(format("{} of {} workers are here", here, workers));
    else if (std::exchange(again, true))
      tell_line(
          format("whoever is left comes again by itself, and so does the next worker of a "
                 "keeper; where the host is lost, start another: {}",
                 command));
    else
      tell_line(format("listening; start {}{}: {}", plural(workers, "time"),
                       spares > 0 ? format(", and {} more for spares", plural(spares, "time")) : "",
                       command));
  };
}

std::unique_ptr<runtime::Crew> assemble_crew(const CrewFlags& flags, const CrewNeeds& needs,
                                             const Interrupts& interrupts,
                                             const runtime::Crew::Waiting& waiting) {
  return runtime::Crew::assemble(crew_options(flags, needs, interrupts), waiting);
}

}  // namespace kerf::apps
