#include "apps/main/program_command.h"

namespace kerf::apps {

void add_program_command(const std::shared_ptr<ProgramCommand>& program, CLI::App& app,
                         Chosen& chosen) {
  CLI::App* command = app.add_subcommand(program->name(), program->about());
  const auto run = std::make_shared<ProgramRun>(chosen.programs);
  program->add_flags(*command);
  run->add_flags(*command, program->divided());
  command->footer(program->examples());
  command->callback([&chosen, program, run] {
    chosen.run = [program, run] {
      run->check();
      program->run(*run);
      return 0;
    };
  });
}

}  // namespace kerf::apps
