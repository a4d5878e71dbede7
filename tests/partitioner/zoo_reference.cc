// Writes a narrow model of the zoo and what its training comes to when nothing cuts it, for
// zoo_reference.py to compare with float64.
//
//   zoo_reference MODEL FOLDER    model.json, and arrays that it names, each a file of raw numbers
//
// Five batches, each from the same parameters: losses of the steps, gradients of the first, and
// what dropouts let through.
#include <cstdio>
#include <filesystem>
#include <set>

#include "partitioner/cut.h"
#include "runtime/error.h"
#include "runtime/file.h"
#include "runtime/json.h"
#include "tests/partitioner/narrow_zoo.h"
#include "tests/partitioner/part_runner.h"

namespace kerf::partitioner {
namespace {

constexpr int kBatches = 5;

class Writer {
 public:
  Writer(const Model& model, std::filesystem::path folder)
      : model_(model), folder_(std::move(folder)) {}

  void write() {
    json_["rate"] = kNarrowRate;
    for (ValueId id = 0; id < model_.values(); ++id) add_value(id);
    for (NodeId id = 0; id < model_.nodes(); ++id) add_node(model_.node(id));
    json_["loss"] = model_.loss();
    PlanRequest request;
    request.cut = Cut::kLayer;
    request.workers = 1;
    request.micro_batches = 1;
    request.batch = kNarrowRows;
    const Plan plan = std::get<Plan>(make_plan(model_, request, *hold_everything()));
    for (int batch = 0; batch < kBatches; ++batch) add_batch(plan, batch);
    runtime::write_file_atomic(folder_ / "model.json", json_text(json_));
  }

 private:
  // Says the name of its file.
  std::string put(const std::string& name, std::span<const std::byte> bytes) {
    runtime::write_file_atomic(folder_ / name,
                               {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
    return name;
  }

  void add_value(ValueId id) {
    const Value& value = model_.value(id);
    Json& json = json_["values"].emplace_back(
        Json{{"name", value.name},
             {"shape", std::vector<int64_t>(value.spec.shape.begin(), value.spec.shape.end())},
             {"type", to_string(value.spec.dtype)},
             {"trained", value.role == Role::kParameter}});
    if (ops::is_kept(value.role))
      json["data"] = put(format("kept{}", id), kept_data(value, Numbers::kNormal));
    else if (value.producer < 0)
      json["fed"] = true;
  }

  void add_node(const Node& node) {
    Json attributes = Json::object();
    for (const auto& [name, attribute] : node.attributes)
      std::visit(
          [&, &name = name](const auto& held) {
            if constexpr (std::is_same_v<std::decay_t<decltype(held)>, ops::TensorLiteral>)
              KERF_CHECK(false, "{}: attribute {} is a tensor", node.name, name);
            else
              attributes[name] = held;
          },
          attribute);
    json_["nodes"].push_back({{"name", node.name},
                              {"op", node.op},
                              {"attributes", attributes},
                              {"inputs", node.inputs},
                              {"outputs", node.outputs}});
  }

  void add_batch(const Plan& plan, int batch) {
    const int64_t first = batch * kNarrowRows;
    PartRunner runner(model_, plan,
                      {.backward = Backward::kTogether, .rate = kNarrowRate, .first_row = first});
    Json json;
    for (ValueId id = 0; id < model_.values(); ++id)
      if (model_.value(id).producer < 0 && !ops::is_kept(model_.value(id).role))
        json["rows"][std::to_string(id)] =
            put(format("rows{}.{}", batch, id),
                row_data(model_, id, first, kNarrowRows, Numbers::kNormal));
    for (int step = 0; step < kNarrowSteps; ++step) {
      StepResult result = runner.run({kNarrowRows});
      json["losses"].push_back(result.losses.at(0));
      if (step == 0)
        for (const auto& [name, gradient] : result.gradients)
          json["gradients"][std::to_string(model_.find_value(name))] =
              put(format("gradient{}.{}", batch, model_.find_value(name)),
                  std::as_bytes(std::span(gradient)));
      Json& passed = json["dropouts"].emplace_back(Json::object());
      for (NodeId id = 0; id < model_.nodes(); ++id)
        if (model_.node(id).op == "Dropout") {
          const ValueId made = model_.node(id).outputs[0];
          const auto& numbers = result.values.at(model_.value(made).name + " of micro-batch 0");
          passed[std::to_string(made)] =
              put(format("dropout{}.{}.{}", batch, step, made), std::as_bytes(std::span(numbers)));
        }
    }
    json_["batches"].push_back(std::move(json));
  }

  const Model& model_;
  const std::filesystem::path folder_;
  Json json_;
};

}  // namespace
}  // namespace kerf::partitioner

int main(int argc, char** argv) {
  using namespace kerf::partitioner;
  try {
    for (const ZooModel& row : zoo())
      if (argc == 3 && row.name == argv[1]) {
        Writer(narrow(row), argv[2]).write();
        return 0;
      }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "zoo_reference: %s\n", error.what());
    return 1;
  }
  std::fputs("zoo_reference MODEL FOLDER\n", stderr);
  return 2;
}
