// Which task of how many this process is, where a launcher started several of one command: as the
// launcher says in the environment.
//
//   --launcher   rank                   of                       within its host
//   kerf         KERF_RANK              KERF_RANKS               KERF_LOCAL_RANK
//   torchrun     RANK                   WORLD_SIZE               LOCAL_RANK
//   mpirun       OMPI_COMM_WORLD_RANK   OMPI_COMM_WORLD_SIZE     OMPI_COMM_WORLD_LOCAL_RANK
//   slurm        SLURM_PROCID           SLURM_STEP_NUM_TASKS     SLURM_LOCALID
//   pmix         PMIX_RANK              KERF_RANKS
//   index        JOB_COMPLETION_INDEX   KERF_RANKS
//
// How many there are on its host is torchrun's LOCAL_WORLD_SIZE and mpirun's
// OMPI_COMM_WORLD_LOCAL_SIZE; others do not say.
//
//   env          any of these; two that disagree are an error
//   auto         slurm or mpirun, where they started several tasks and no terminal is the input
//   none         nobody's
//
// Slurm's variables count within a step alone: what salloc and sbatch start has some of them, too.
// Plain values and pure functions.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace kerf::apps {

// The value of a variable; empty where it is not set, or set to nothing.
using Environment = std::function<std::optional<std::string>(const std::string& name)>;

struct Rank {
  int rank = 0;
  int ranks = 1;
  // By those that say the rank alone:
  std::optional<int> local = {};  // within its host
  std::optional<int> here = {};   // how many there are
  // Who say the rank, of those that were asked, in the order above.
  std::vector<std::string> launchers = {};
};

// The names above. Throws Error{kUsage} that lists them.
void check_launcher(const std::string& launcher);
// Empty where nobody is asked, and by auto where there is no such task. Throws Error{kUsage} that
// names the variables: they disagree, are no numbers, are not set, or say that there is one task.
std::optional<Rank> find_rank(const Environment& environment, const std::string& launcher,
                              bool at_terminal);

// Where task 0 listens, as far as the environment says.
struct Meeting {
  // The first is task 0's. One alone: all tasks are on it, where `alone`.
  std::vector<std::string> hosts;
  bool alone = false;
  bool apart = false;  // it is known that tasks are on several, and MASTER_ADDR alone is one
  int port = 0;
};
// Where Slurm alone says the rank, its step's hosts count and a port of kPorts from kFirstPort on,
// by job and step; where torchrun alone does, MASTER_ADDR and MASTER_PORT (or the next, where
// torchrun listens there itself). The others say no place, and two may not agree: then it is
// MASTER_ADDR, or the step, where that has these tasks by the same numbers; and where both are set
// they have to lead to one host. A port that neither says is by mpirun's job. Throws Error{kUsage}
// that says what to give, and that names both where they disagree.
inline constexpr int kFirstPort = 23000;
inline constexpr int kPorts = 8000;
Meeting find_meeting(const Environment& environment, const Rank& rank);

}  // namespace kerf::apps
