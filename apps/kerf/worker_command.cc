// kerf worker: the flags are read by schedmp::serve_if_worker before the parser runs; here is the
// help.
#include "apps/kerf/commands.h"
#include "runtime/error.h"

namespace kerf::apps {

void add_worker_command(CLI::App& app, Chosen& chosen) {
  CLI::App* command = app.add_subcommand(
      "worker", "Joins a run that `kerf train --listen ADDRESS` started, and computes its part.");
  command->add_option("--connect", "The scheduler's address, tcp://127.0.0.1:PORT")
      ->type_name("ADDRESS");
  command->add_option("--device", "What to compute on: cpu or cuda:N (default cpu)")
      ->type_name("DEVICE");
  command->add_option("--index", "Which worker to be (default: the next free one)")->type_name("N");
  command->footer(
      "A run without --listen starts its own workers; this command is for starting them by hand,\n"
      "for another device each, or under a debugger. Only local addresses are accepted.\n\n"
      "Examples:\n"
      "  kerf train lenet5 --workers 2 --listen tcp://127.0.0.1:5555 &\n"
      "  kerf worker --connect tcp://127.0.0.1:5555 &\n"
      "  kerf worker --connect tcp://127.0.0.1:5555 --index 0");
  command->callback([&chosen] {
    chosen.run = []() -> int { throw Error(ErrorCode::kInternal, "the worker was not served"); };
  });
}

}  // namespace kerf::apps
