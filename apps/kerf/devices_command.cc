// kerf devices: what this host can compute on.
#include <cstdio>

#include "apps/kerf/commands.h"
#include "apps/report/table.h"
#include "apps/report/terminal.h"
#include "runtime/device.h"
#include "runtime/format.h"
#include "runtime/json.h"

namespace kerf::apps {

namespace {

int list_devices(bool json) {
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
  const std::string text =
      json ? json_text({{"devices", list}}, 2) + "\n" : table.text(wants_colour(1));
  std::fputs(text.c_str(), stdout);
  return 0;
}

}  // namespace

void add_devices_command(CLI::App& app, Chosen& chosen) {
  CLI::App* command =
      app.add_subcommand("devices", "Lists what workers on this host can compute on.");
  auto json = std::make_shared<bool>(false);
  command->add_flag("--json", *json, "Print JSON");
  command->footer(
      "Examples:\n"
      "  kerf devices\n"
      "  kerf devices --json");
  command->callback([&chosen, json] { chosen.run = [json] { return list_devices(*json); }; });
}

}  // namespace kerf::apps
