// kerf devices: what this host can compute on.
#include "apps/kerf/commands.h"
#include "apps/main/answer.h"
#include "apps/report/table.h"
#include "runtime/device.h"
#include "runtime/error.h"
#include "runtime/format.h"
#include "runtime/json.h"

namespace kerf::apps {

namespace {

struct DevicesCommand {
  bool json = false;

  int run() const;
};

struct Row {
  std::string name;
  std::string description;
  size_t memory = 0;  // bytes; 0: unknown
  std::string error;  // why it cannot be used; empty: it can
};

// A device that is there but cannot be opened says why in the place of its description.
Row row_of(const std::string& name) {
  try {
    const auto device = runtime::make_device(name);
    return {name, device->description(), device->memory().capacity, {}};
  } catch (const Error& error) {
    return {name, format("cannot be used: {}", error.message()), 0, error.message()};
  }
}

int DevicesCommand::run() const {
  runtime::CudaSupport cuda = runtime::cuda_support();
  std::string first_error;
  bool any_opens = cuda.devices == 0;  // else that is the reason
  Table table({"device", "memory", "description"});
  Json list = Json::array();
  for (const std::string& name : runtime::device_names()) {
    const Row row = row_of(name);
    table.add({name, row.memory == 0 ? "-" : human_bytes(static_cast<double>(row.memory)),
               row.description});
    Json about{{"name", name}, {"memory_bytes", row.memory}, {"description", row.description}};
    if (!row.error.empty()) about["error"] = row.error;
    list.push_back(std::move(about));
    if (!name.starts_with("cuda:")) continue;
    if (row.error.empty()) any_opens = true;
    if (first_error.empty()) first_error = row.error;
  }
  if (!any_opens) cuda.reason = first_error;
  answer(
      json,
      [&] {
        Json about = {{"built", cuda.built}, {"devices", cuda.devices}};
        if (!cuda.reason.empty()) about["reason"] = cuda.reason;
        return Json{{"devices", list}, {"cuda", about}};
      },
      [&](bool colour) {
        const std::string text = table.text(colour);
        return cuda.reason.empty() ? text : format("{}\nno GPU: {}\n", text, cuda.reason);
      });
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
