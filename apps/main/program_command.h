// The command of a program: what a user's own executable gives kerf::main for each of its programs.
//
//   class KMeansCommand : public ProgramCommand {
//     std::string name() const override { return "k-means"; }
//     ...
//     void run(ProgramRun& run) override {
//       const int workers = run.workers(rows_, "rows");
//       History history("round", {{"cost", "cost"}}, {.most_seconds = run.most_seconds()});
//       KMeans program(..., history);
//       run.drive(program, workers, history);
//       run.answer(history, "k-means", {{"centres", program.centres()}}, "...");
//     }
//   };
#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "apps/main/command.h"
#include "apps/main/program_run.h"

namespace kerf::apps {

class ProgramCommand {
 public:
  virtual ~ProgramCommand() = default;
  virtual std::string name() const = 0;   // on the command line
  virtual std::string about() const = 0;  // what it does, for its help
  // What is divided over the workers, for the help: "Rows".
  virtual std::string divided() const = 0;
  virtual std::string examples() const { return {}; }  // lines below its help
  // Those that are not of every program (ProgramRun).
  virtual void add_flags(CLI::App& command) = 0;
  // Flags were read. Throws Error{kUsage} where they cannot be, and what ended the run.
  virtual void run(ProgramRun& run) = 0;
};

void add_program_command(const std::shared_ptr<ProgramCommand>& program, CLI::App& app,
                         Chosen& chosen);

// For Executable::commands.
template <class Command>
AddCommand program_command() {
  return [](CLI::App& app, Chosen& chosen) {
    add_program_command(std::make_shared<Command>(), app, chosen);
  };
}

}  // namespace kerf::apps
