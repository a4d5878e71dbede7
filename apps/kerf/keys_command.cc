// kerf keys: by what the scheduler and the workers of a run know each other across a network.
#include "apps/kerf/commands.h"
#include "apps/main/answer.h"
#include "runtime/format.h"
#include "runtime/json.h"
#include "runtime/keys.h"

namespace kerf::apps {

namespace {

struct KeysMakeCommand {
  std::string folder;
  bool json = false;

  int run() const {
    runtime::make_keys(folder);
    answer(
        json,
        [&] {
          return Json{{"folder", folder},
                      {"scheduler", {"scheduler.secret", "workers.allowed"}},
                      {"worker", {"worker.secret", "scheduler.public"}}};
        },
        [&](bool) {
          return format(
              "made {0}: the run keeps it, and takes --keys {0}\n"
              "copy to each worker's host, which takes --keys too, and nowhere else:\n"
              "  {0}/worker.secret\n"
              "  {0}/scheduler.public\n",
              folder);
        });
    return 0;
  }
};

void add_make(CLI::App& keys, Chosen& chosen) {
  CLI::App* command = keys.add_subcommand(
      "make", "Makes a folder of new keys: one for the scheduler, one for its workers.");
  auto state = std::make_shared<KeysMakeCommand>();
  command->add_option("DIR", state->folder, "A folder that is not there yet")->required();
  add_json_flag(*command, state->json);
  command->footer(
      "Examples:\n"
      "  kerf keys make keys\n"
      "  kerf keys make ~/.kerf-keys --json");
  run_when_chosen(*command, chosen, state);
}

}  // namespace

void add_keys_command(CLI::App& app, Chosen& chosen) {
  CLI::App* command = app.add_subcommand(
      "keys", "Makes the keys that let workers of other hosts join a run, and nobody else.");
  add_make(*command, chosen);
  command->require_subcommand(1);
  command->footer(
      "Examples:\n"
      "  kerf keys make keys\n"
      "  kerf train --workers 2 --listen tcp://10.0.0.1:5555 --keys keys\n"
      "  kerf worker --connect tcp://10.0.0.1:5555 --keys keys");
}

}  // namespace kerf::apps
