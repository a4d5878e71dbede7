// kerf data: the kinds of data that --data takes.
#include "apps/data/datasets.h"
#include "apps/kerf/commands.h"
#include "apps/main/answer.h"
#include "apps/report/table.h"
#include "runtime/json.h"

namespace kerf::apps {

namespace {

struct DataCommand {
  bool json = false;

  int run() const;
};

std::string without_marks(std::string_view markdown) {
  std::string text(markdown);
  std::erase(text, '`');
  return text;
}

int DataCommand::run() const {
  Table table({"--data", "a row is", "normalised", "for tests are"});
  Json list = Json::array();
  for (const DataKind& kind : data_kinds()) {
    table.add({without_marks(kind.form), without_marks(kind.row), without_marks(kind.normalised),
               without_marks(kind.tests)});
    list.push_back({{"kind", kind.name},
                    {"form", kind.form},
                    {"row", kind.row},
                    {"normalised", kind.normalised},
                    {"tests", kind.tests}});
  }
  answer(
      json,
      [&] {
        return Json{{"data", list}};
      },
      [&](bool colour) {
        return table.text(colour) + "\ndocs/howto/bring-your-data.md says more.\n";
      });
  return 0;
}

}  // namespace

void add_data_command(CLI::App& app, Chosen& chosen) {
  CLI::App* command = app.add_subcommand("data", "Lists the kinds of data that --data takes.");
  auto state = std::make_shared<DataCommand>();
  add_json_flag(*command, state->json);
  command->footer(
      "Examples:\n"
      "  kerf data\n"
      "  kerf train lenet5 --data images:pictures\n"
      "  kerf eval mlp --weights kerf-run/weights.safetensors --data rows.npz");
  run_when_chosen(*command, chosen, state);
}

}  // namespace kerf::apps
