// kerf models: the built-in models.
#include "apps/kerf/commands.h"
#include "apps/main/answer.h"
#include "apps/report/table.h"
#include "partitioner/zoo.h"
#include "runtime/format.h"
#include "runtime/json.h"

namespace kerf::apps {

namespace {

using partitioner::Model;
using partitioner::Role;
using partitioner::ValueId;

struct ModelsCommand {
  bool json = false;

  int run() const;
};

// What there is to say of a model, from the model itself.
struct About {
  int64_t parameters = 0;
  int nodes = 0;
  std::string input;  // names and shapes
};

About about(const Model& model) {
  About about;
  about.nodes = model.nodes();
  for (const ValueId id : model.parameters())
    about.parameters += model.value(id).spec.shape.elements();
  for (ValueId id = 0; id < model.values(); ++id) {
    if (model.value(id).role != Role::kInput) continue;
    if (!about.input.empty()) about.input += ", ";
    about.input += format("{} {}", model.value(id).name, to_string(model.value(id).spec.shape));
  }
  return about;
}

int ModelsCommand::run() const {
  Table table({"model", "parameters", "operators", "input", "what it is"});
  std::string sizes;
  Json list = Json::array();
  for (const partitioner::ZooModel& row : partitioner::zoo()) {
    const std::string name(row.name);
    const About it = about(partitioner::make_zoo_model(name));
    table.add({name, format("{}", it.parameters), format("{}", it.nodes), it.input,
               std::string(row.help)});
    if (!row.sizes.empty()) sizes += format("  {:<8}  {}\n", row.name, row.sizes);
    list.push_back({{"name", name},
                    {"parameters", it.parameters},
                    {"operators", it.nodes},
                    {"input", it.input},
                    {"help", row.help},
                    {"sizes", row.sizes},
                    {"images", row.images}});
  }
  answer(
      json,
      [&] {
        return Json{{"models", list}};
      },
      [&](bool colour) {
        return format(
            "{}\nWhat --sizes means, with its default:\n{}\nAll take --width; networks of images "
            "[N, 3, ...] also --classes and --image-size.\n",
            table.text(colour), sizes);
      });
  return 0;
}

}  // namespace

void add_models_command(CLI::App& app, Chosen& chosen) {
  CLI::App* command = app.add_subcommand("models", "Lists the built-in models.");
  auto state = std::make_shared<ModelsCommand>();
  add_json_flag(*command, state->json);
  command->footer(
      "Examples:\n"
      "  kerf models\n"
      "  kerf plan resnet50 --width 0.125 --image-size 64 --workers 4\n"
      "  kerf train gpt --sizes 2-64-4-32-96 --data tokens --workers 2");
  run_when_chosen(*command, chosen, state);
}

}  // namespace kerf::apps
