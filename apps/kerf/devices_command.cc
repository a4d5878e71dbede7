// kerf devices: what this host can compute on.
#include "apps/kerf/answer.h"
#include "apps/kerf/commands.h"
#include "apps/report/table.h"
#include "runtime/device.h"
#include "runtime/format.h"
#include "runtime/json.h"

namespace kerf::apps {

namespace {

struct DevicesCommand {
  bool json = false;

  int run() const;
};

int DevicesCommand::run() const {
  Table table({"device", "memory", "description"});
  Json list = Json::array();
  for (const std::string& name : runtime::device_names()) {
    const auto device = runtime::make_device(name);
    const size_t capacity = device->memory().capacity;
    table.add({name, capacity == 0 ? "-" : human_bytes(static_cast<double>(capacity)),
               device->description()});
    list.push_back(
        {{"name", name}, {"memory_bytes", capacity}, {"description", device->description()}});
  }
  answer(
      json,
      [&] {
        return Json{{"devices", list}};
      },
      [&](bool colour) { return table.text(colour); });
  return 0;
}

}  // namespace

void add_devices_command(CLI::App& app, Chosen& chosen) {
  CLI::App* command =
      app.add_subcommand("devices", "Lists what workers on this host can compute on.");
  auto state = std::make_shared<DevicesCommand>();
  add_json_flag(*command, state->json);
  command->footer(
      "Examples:\n"
      "  kerf devices\n"
      "  kerf devices --json");
  run_when_chosen(*command, chosen, state);
}

}  // namespace kerf::apps
