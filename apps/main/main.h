// An executable of Kerf: the kerf command is one, and so is any that has programs of a user's own.
// It serves as the scheduler, by one of its commands, and as each worker.
//
//   int main(int argc, char** argv) {
//     return kerf::main(argc, argv, {.about = "Clusters points.",
//                                    .commands = {apps::program_command<KMeansCommand>()},
//                                    .programs = {{"k-means", worker_half<KMeansWorker>}}});
//   }
//
// Every command has --help; an error is one line, "NAME: error: ...", NAME the executable's; exit
// codes are those of runtime/error.h. The command `worker` is there without being named.
#pragma once

#include <string>
#include <vector>

#include "apps/main/command.h"
#include "apps/main/program_command.h"
#include "schedmp/encoded_program.h"
#include "schedmp/program.h"

namespace kerf {

namespace apps {

struct Executable {
  std::string about;                   // for --help
  std::string version = {};            // "0.1.0", for --version; empty: there is none
  std::string examples = {};           // lines below the help
  std::vector<AddCommand> commands;    // in the order of the help
  schedmp::ProgramFactories programs;  // workers' halves, by name
};

}  // namespace apps

// Returns the exit code; nothing is thrown.
int main(int argc, char** argv, const apps::Executable& executable);

}  // namespace kerf
