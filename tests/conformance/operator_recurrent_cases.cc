// Cases of recurrences.
#include "tests/conformance/operator_case.h"

namespace kerf::ops {
namespace {

void add_lstm_cases(std::vector<OperatorCase>& cases) {
  const auto lstm = [&](std::string name, std::string direction, int64_t layout, bool initial,
                        bool biased) {
    const int64_t d = direction == "bidirectional" ? 2 : 1;
    const Shape x = layout == 1 ? Shape{kBatch, 4, 3} : Shape{4, kBatch, 3};
    const Shape begin = layout == 1 ? Shape{kBatch, d, 5} : Shape{d, kBatch, 5};
    const CaseInput none = absent();
    cases.push_back(
        {.name = std::move(name),
         .op = "LSTM",
         .attributes = {{"hidden_size", int64_t{5}},
                        {"direction", std::move(direction)},
                        {"layout", layout}},
         .inputs = {activation(x), parameter({d, 20, 3}), parameter({d, 20, 5}),
                    biased ? parameter({d, 40}) : none, none, initial ? activation(begin) : none,
                    initial ? activation(begin) : none},
         .outputs = 3,
         .samples = 3,
         .epsilon = 0.02,
         .whole_axes = {"time", "hidden units"}});
  };
  lstm("LSTM_forward", "forward", 0, false, true);
  // 20 hidden units over the steps, of 4 gates, each of 8 terms.
  cases.back().flops = {80 * 16 + 80 * 8, 80 * 16 + 80 * 10, 80 * 16 + 80};
  lstm("LSTM_both_ways_with_initial_states", "bidirectional", 0, true, false);
  lstm("LSTM_reverse_samples_first", "reverse", 1, true, false);
  lstm("LSTM_of_a_decoder", "forward", 1, true, true);
}

// Of an RNN (1 gate) or a GRU (3).
struct Cell {
  std::string op;
  int64_t gates = 1;
  std::string direction = "forward";
  int64_t layout = 0;
  bool initial = false;
  Attributes attributes{};
};

OperatorCase recurrence(std::string name, Cell cell) {
  const int64_t d = cell.direction == "bidirectional" ? 2 : 1;
  const int64_t g = cell.gates;
  const Shape x = cell.layout == 1 ? Shape{kBatch, 4, 3} : Shape{4, kBatch, 3};
  const Shape begin = cell.layout == 1 ? Shape{kBatch, d, 5} : Shape{d, kBatch, 5};
  cell.attributes["hidden_size"] = int64_t{5};
  cell.attributes["direction"] = cell.direction;
  cell.attributes["layout"] = cell.layout;
  return {.name = std::move(name),
          .op = std::move(cell.op),
          .attributes = std::move(cell.attributes),
          .inputs = {activation(x), parameter({d, g * 5, 3}), parameter({d, g * 5, 5}),
                     cell.initial ? absent() : parameter({d, 2 * g * 5}), absent(),
                     cell.initial ? activation(begin) : absent()},
          .outputs = 2,
          .samples = 3,
          .epsilon = 0.02,
          .whole_axes = {"time", "hidden units"}};
}

using Names = std::vector<std::string>;

void add_other_cells(std::vector<OperatorCase>& cases) {
  const Attributes linear{{"linear_before_reset", int64_t{1}}};
  const Attributes relu{{"activations", Names{"Sigmoid"}}};
  cases.push_back(recurrence("RNN_forward", {"RNN"}));
  cases.back().flops = {20 * 16 + 20 * 8, 20 * 16 + 20 * 10, 20 * 16 + 20};
  cases.push_back(recurrence("RNN_both_ways", {"RNN", 1, "bidirectional", 0, true}));
  cases.push_back(recurrence("RNN_of_sigmoids", {"RNN", 1, "reverse", 1, true, relu}));
  cases.push_back(recurrence("GRU_forward", {"GRU", 3}));
  cases.back().flops = {60 * 16 + 60 * 8, 60 * 16 + 60 * 10, 60 * 16 + 60};
  cases.push_back(recurrence("GRU_both_ways", {"GRU", 3, "bidirectional", 0, true}));
  cases.push_back(recurrence("GRU_reverse_samples_first", {"GRU", 3, "reverse", 1, true}));
  cases.push_back(recurrence("GRU_linear_before_reset", {"GRU", 3, "forward", 0, false, linear}));
  cases.push_back(recurrence("GRU_linear_before_reset_both_ways",
                             {"GRU", 3, "bidirectional", 1, true, linear}));
}

// One step of the one direction that there is, from the states of a cell or of a sequence. (Of two
// directions a call needs not all that a whole has; rewrite_test.cc has those.)
void add_single_steps(std::vector<OperatorCase>& cases) {
  const auto step = [&](std::string name, const std::string& cell, int64_t gates,
                        bool samples_first, std::vector<CaseInput> rest, Attributes more = {}) {
    more["cell"] = cell;
    more["layout"] = int64_t{samples_first};
    const Shape given =
        samples_first ? Shape{kBatch, 1, 1, gates * 4} : Shape{1, kBatch, 1, gates * 4};
    std::vector<CaseInput> inputs{activation(given), parameter({1, gates * 4, 4})};
    if (rest.size() < 2) inputs[1].role = Role::kFrozen;  // it is not read
    inputs.insert(inputs.end(), rest.begin(), rest.end());
    cases.push_back({.name = std::move(name),
                     .op = "RecurrentCell",
                     .attributes = std::move(more),
                     .inputs = std::move(inputs),
                     .outputs = cell == "LSTM" ? 2 : 1,
                     .samples = 3,
                     .epsilon = 0.02,
                     .whole_axes = {"biases", "gates"}});
  };
  const auto inputs_of = [&](std::string name, const Shape& x, int64_t layout) {
    cases.push_back({.name = std::move(name),
                     .op = "RecurrentInputs",
                     .attributes = {{"gates", int64_t{3}}, {"layout", layout}},
                     .inputs = {activation(x), parameter({1, 12, 3})},
                     .outputs = 5,
                     .samples = 3,
                     .whole_axes = {"gates"}});
    // 5 steps of 12 rows of 3.
    cases.back().flops = {360, 360, 360};
  };
  inputs_of("RecurrentInputs", {5, kBatch, 3}, 0);
  inputs_of("RecurrentInputs_samples_first", {kBatch, 5, 3}, 1);
  const CaseInput of_cell = activation({1, 1, kBatch, 4});
  const CaseInput first_of_cell = activation({kBatch, 1, 1, 4});
  step("RecurrentCell_LSTM", "LSTM", 4, false, {parameter({1, 32}), of_cell, of_cell});
  // 4 hidden units of 4 gates, each of 4 products and 8 more terms.
  cases.back().flops = {16 * 8 + 16 * 8, 16 * 8 + 16 * 10, 16 * 8 + 16};
  step("RecurrentCell_LSTM_of_a_decoder", "LSTM", 4, true,
       {parameter({1, 32}), activation({kBatch, 1, 4}), activation({kBatch, 1, 4})});
  step("RecurrentCell_LSTM_from_zeros", "LSTM", 4, true, {parameter({1, 32})});
  step("RecurrentCell_GRU", "GRU", 3, true, {parameter({1, 24}), first_of_cell});
  step("RecurrentCell_GRU_of_a_decoder", "GRU", 3, false, {absent(), activation({1, kBatch, 4})});
  step("RecurrentCell_GRU_from_zeros", "GRU", 3, false, {parameter({1, 24})});
  step("RecurrentCell_RNN", "RNN", 1, false, {parameter({1, 8}), of_cell});
  step("RecurrentCell_RNN_of_sigmoids", "RNN", 1, true, {absent(), first_of_cell},
       {{"activation", std::string("Sigmoid")}});
}

// What gives answers only: nothing wants a gradient.
OperatorCase frozen(OperatorCase scene) {
  for (CaseInput& input : scene.inputs)
    input.role = input.role == Role::kParameter ? Role::kFrozen : Role::kInput;
  return scene;
}

void add_unusual_cells(std::vector<OperatorCase>& cases) {
  const CaseInput lengths{{DType::kInt32, {kBatch}}, Role::kInput, Draw::kClass, 5};
  const auto with_lengths = [&](OperatorCase scene) {
    scene.inputs[4] = lengths;
    cases.push_back(frozen(std::move(scene)));
  };
  with_lengths(recurrence("RNN_of_some_steps", {"RNN", 1, "bidirectional", 0, true}));
  with_lengths(recurrence("GRU_of_some_steps", {"GRU", 3, "reverse", 1, true}));
  cases.push_back(frozen(recurrence(
      "GRU_of_other_functions",
      {"GRU",
       3,
       "bidirectional",
       0,
       true,
       {{"clip", 0.4}, {"activations", Names{"HardSigmoid", "Softsign", "Sigmoid", "Elu"}}}})));
  cases.push_back(frozen(recurrence(
      "GRU_clipped_linear_before_reset",
      {"GRU", 3, "forward", 0, false, {{"clip", 0.3}, {"linear_before_reset", int64_t{1}}}})));
  cases.push_back(frozen(
      recurrence("RNN_of_another_function", {"RNN",
                                             1,
                                             "forward",
                                             0,
                                             false,
                                             {{"activations", Names{"ScaledTanh"}},
                                              {"activation_alpha", std::vector<double>{1.5}},
                                              {"activation_beta", std::vector<double>{0.7}}}})));
  OperatorCase lstm = recurrence("LSTM_with_peepholes", {"LSTM", 4, "bidirectional", 0, true});
  lstm.inputs.push_back(lstm.inputs[5]);
  lstm.inputs.push_back(parameter({2, 15}));
  lstm.inputs[4] = lengths;
  lstm.attributes["clip"] = 0.8;
  lstm.outputs = 3;
  cases.push_back(frozen(lstm));
  OperatorCase coupled = recurrence("LSTM_with_coupled_gates", {"LSTM", 4});
  coupled.attributes["input_forget"] = int64_t{1};
  cases.push_back(frozen(coupled));
}

}  // namespace

std::vector<OperatorCase> recurrent_cases() {
  std::vector<OperatorCase> cases;
  add_lstm_cases(cases);
  add_other_cells(cases);
  add_single_steps(cases);
  add_unusual_cells(cases);
  return cases;
}

}  // namespace kerf::ops
