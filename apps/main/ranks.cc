#include "apps/main/ranks.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <utility>

#include "apps/main/node_list.h"
#include "runtime/error.h"

namespace kerf::apps {

namespace {

constexpr char kLauncherFlag[] = "--launcher";
constexpr char kRanks[] = "KERF_RANKS";

struct Source {
  const char* launcher;
  const char* rank;
  const char* ranks;  // what follows may be empty: nobody says
  const char* local;
  const char* here;
};
constexpr std::array kSources{
    Source{"kerf", "KERF_RANK", kRanks, "KERF_LOCAL_RANK", ""},
    Source{"torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"},
    Source{"mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
           "OMPI_COMM_WORLD_LOCAL_SIZE"},
    Source{"slurm", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", ""},
    Source{"pmix", "PMIX_RANK", "", "", ""},
    Source{"index", "JOB_COMPLETION_INDEX", "", "", ""},
};

[[noreturn]] void refuse(const std::string& what) {
  throw Error(ErrorCode::kUsage, what, kLauncherFlag);
}

// A variable that is set, and what it says.
struct Said {
  std::string variable;
  std::string launcher;
  int64_t value = 0;

  std::string text() const { return format("{}={}", variable, value); }
};

std::optional<Said> said(const Environment& environment, const std::string& variable,
                         const std::string& launcher) {
  if (variable.empty()) return std::nullopt;
  const auto text = environment(variable);
  if (!text) return std::nullopt;
  Said number{variable, launcher};
  const char* const end = text->data() + text->size();
  const auto [next, fault] = std::from_chars(text->data(), end, number.value);
  if (fault != std::errc() || next != end || number.value < 0 || number.value > UINT32_MAX)
    refuse(format("{} is \"{}\", which is no number", variable, *text));
  return number;
}

// What is no number of a step marks the shells of sbatch and salloc.
bool is_in_step(const Environment& environment) {
  constexpr int64_t kNoStep = 0xfffffff0;
  auto step = said(environment, "SLURM_STEP_ID", "slurm");
  return step && step->value < kNoStep;
}

bool is_asked(const Source& source, const std::string& launcher, const Environment& environment) {
  const std::string name = source.launcher;
  const bool named = launcher == "env" || launcher == name ||
                     (launcher == "auto" && (name == "slurm" || name == "mpirun"));
  return named && (name != "slurm" || is_in_step(environment));
}

// The first's value, with which all others agree; empty where nobody says.
std::optional<int64_t> agreed(const std::vector<Said>& all) {
  if (all.empty()) return std::nullopt;
  for (const Said& other : all)
    if (other.value != all[0].value)
      refuse(format("{} and {} disagree; --launcher {} or --launcher {} says which one counts",
                    all[0].text(), other.text(), all[0].launcher, other.launcher));
  return all[0].value;
}

std::string names(const char* Source::*variable) {
  std::vector<std::string> all;
  for (const Source& source : kSources)
    if (const std::string name = source.*variable; !name.empty()) all.push_back(name);
  return format("{}", fmt::join(all, ", "));
}

std::optional<Rank> nobody(const std::string& launcher) {
  if (launcher == "auto") return std::nullopt;
  if (launcher == "env")
    refuse(format("nobody says which task this is: none of {} is set", names(&Source::rank)));
  const auto named = std::ranges::find(kSources, launcher, &Source::launcher);
  refuse(format("nobody says which task this is: {} is not set {}", named->rank,
                launcher == "slurm" ? "in a step of srun" : format("by {}", launcher)));
}

bool is_said_by_alone(const Rank& rank, const std::string& launcher) {
  return rank.launchers == std::vector{launcher};
}

// It has as many tasks, and this one by the same number: its hosts are theirs, whoever was asked.
bool is_task_of_step(const Environment& environment, const Rank& rank) {
  if (!is_in_step(environment)) return false;
  const auto mine = said(environment, "SLURM_PROCID", "slurm");
  const auto all = said(environment, "SLURM_STEP_NUM_TASKS", "slurm");
  return mine && all && mine->value == rank.rank && all->value == rank.ranks;
}

std::optional<int> port_of_master(const Environment& environment) {
  constexpr int64_t kMostPort = 65'534;
  const auto port = said(environment, "MASTER_PORT", "torchrun");
  if (!port) return std::nullopt;
  if (port->value < 1 || port->value > kMostPort) refuse(format("{} is no port", port->text()));
  const bool has_torchrun_itself = environment("TORCHELASTIC_USE_AGENT_STORE") == "True";
  return static_cast<int>(port->value) + (has_torchrun_itself ? 1 : 0);
}

std::optional<int> port_of_step(const Environment& environment) {
  const auto job = said(environment, "SLURM_JOB_ID", "slurm");
  if (!job) return std::nullopt;
  const auto step = said(environment, "SLURM_STEP_ID", "slurm");
  return kFirstPort + static_cast<int>((job->value * 16 + step->value) % kPorts);
}

// All tasks come to the same; another run on that host most likely to another.
int port_of(const Environment& environment, const Rank& rank) {
  std::optional<int> port;
  if (!is_said_by_alone(rank, "slurm")) port = port_of_master(environment);
  if (!port && is_task_of_step(environment, rank)) port = port_of_step(environment);
  if (!port) port = port_of_master(environment);
  if (port) return *port;
  const auto job_of_mpirun = environment("PMIX_NAMESPACE");
  if (!job_of_mpirun)
    refuse(
        "nobody says at which port the tasks meet; give --listen tcp://HOST:PORT, HOST being that "
        "of task 0, or set MASTER_PORT");
  uint32_t sum = 0;
  for (const unsigned char letter : *job_of_mpirun) sum = sum * 31 + letter;
  return kFirstPort + static_cast<int>(sum % kPorts);
}

// Slurm's names of hosts have no domain.
bool is_same_host(const std::string& one, const std::string& other) {
  return one == other || one.starts_with(other + ".") || other.starts_with(one + ".");
}

// The step's, where that says anything of these tasks.
std::vector<std::string> hosts_of_step(const Environment& environment, const Rank& rank) {
  const auto text = environment("SLURM_STEP_NODELIST");
  if (!text || !is_task_of_step(environment, rank)) return {};
  return parse_nodes(*text, "SLURM_STEP_NODELIST");
}

// As far as anybody says: some are on other hosts than this task, or it is on another than the
// first.
bool is_apart(const Rank& rank) {
  return (rank.local && *rank.local != rank.rank) || (rank.here && *rank.here < rank.ranks);
}

}  // namespace

void check_launcher(const std::string& launcher) {
  if (launcher == "auto" || launcher == "env" || launcher == "none") return;
  for (const Source& source : kSources)
    if (launcher == source.launcher) return;
  throw Error(ErrorCode::kUsage,
              format("there is no launcher \"{}\"; there are auto, none, env, {}", launcher,
                     names(&Source::launcher)));
}

std::optional<Rank> find_rank(const Environment& environment, const std::string& launcher,
                              bool at_terminal) {
  if (launcher == "none" || (launcher == "auto" && at_terminal)) return std::nullopt;
  std::vector<Said> rank;
  std::vector<Said> ranks;
  std::vector<std::string> launchers;
  std::optional<int> local, here;
  for (const Source& source : kSources) {
    if (!is_asked(source, launcher, environment)) continue;
    const auto number = said(environment, source.rank, source.launcher);
    if (!number) continue;
    rank.push_back(*number);
    launchers.push_back(number->launcher);
    if (const auto many = said(environment, source.ranks, source.launcher)) ranks.push_back(*many);
    for (auto& [into, variable] : {std::pair(&local, source.local), {&here, source.here}})
      if (const auto more = said(environment, variable, source.launcher); more && !*into)
        *into = static_cast<int>(more->value);
  }
  const auto mine = agreed(rank);
  if (!mine) return nobody(launcher);
  // For those that do not say it themselves.
  if (const auto many = said(environment, kRanks, "kerf"); many && ranks.empty())
    ranks.push_back(*many);
  const auto all = agreed(ranks);
  if (!all) refuse(format("{}, but nobody says of how many; set {}", rank[0].text(), kRanks));
  if (*mine >= *all)
    refuse(format("{} and {}: ranks are below it", rank[0].text(), ranks[0].text()));
  if (*all == 1 && launcher == "auto") return std::nullopt;
  if (*all == 1)
    refuse(format("{}: one task is the scheduler, so start one more than there are workers",
                  ranks[0].text()));
  return Rank{static_cast<int>(*mine), static_cast<int>(*all), local, here, launchers};
}

Meeting find_meeting(const Environment& environment, const Rank& rank) {
  Meeting meeting;
  auto master = environment("MASTER_ADDR");
  std::vector<std::string> step = hosts_of_step(environment, rank);
  if (master && !step.empty()) {
    if (is_said_by_alone(rank, "slurm"))
      master.reset();
    else if (is_said_by_alone(rank, "torchrun"))
      step.clear();
    else if (!is_same_host(*master, step[0]))
      refuse(
          format("MASTER_ADDR={} and SLURM_STEP_NODELIST={} disagree on which host task 0 is; "
                 "unset the one that does not count, or give --listen tcp://HOST:PORT",
                 *master, *environment("SLURM_STEP_NODELIST")));
  }
  if (!step.empty()) {
    meeting.hosts = std::move(step);
    meeting.alone = meeting.hosts.size() == 1;
  } else if (master) {
    meeting.hosts = {*master};
    meeting.apart = is_apart(rank);
  } else {
    meeting.alone = rank.here == rank.ranks;
    if (!meeting.alone)
      refuse(
          "nobody says on which host task 0 is; give --listen tcp://HOST:PORT, HOST being that "
          "one, or set MASTER_ADDR");
  }
  meeting.port = port_of(environment, rank);
  return meeting;
}

}  // namespace kerf::apps
