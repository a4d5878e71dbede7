#include "tests/partitioner/step_checks.h"

#include <gmock/gmock.h>

#include <bit>
#include <cmath>

#include "partitioner/call_needs.h"
#include "partitioner/cut.h"
#include "partitioner/step_vector.h"

namespace kerf::partitioner {
namespace {

// What an instruction has to do with, of its part's locals, as roots.
std::vector<int> roots_of(const Model& model, const Part& part, const Instruction& instruction) {
  std::vector<int> locals;
  const auto add = [&](const std::vector<int>& more) {
    for (const int each : more)
      if (each >= 0) locals.push_back(root_of(part, each));
  };
  if (instruction.kind == Instruction::Kind::kClear)
    return locals;  // what it says, not what it has
  add({instruction.local, instruction.other});
  for (const Move& move : instruction.moves) add({move.local});
  if (instruction.call < 0) return locals;
  const LocalCall& call = part.calls[static_cast<size_t>(instruction.call)];
  if (instruction.kind == Instruction::Kind::kLoss) {
    add(call.inputs);
    add(call.outputs);
    return locals;
  }
  const Pass pass = pass_of(instruction);
  add(locals_read(model, call, pass));
  if (pass == Pass::kForward) add(call.outputs);
  for (const auto& target : instruction.targets) add({target.local});
  return locals;
}

using Lists = std::vector<const InstructionList*>;

// The most bytes of transient locals and scratch that are there at once, while these lists run one
// after the other.
int64_t transient_bytes(const Model& model, const Part& part, const Lists& lists, int64_t samples) {
  using Use = std::pair<size_t, size_t>;
  std::map<int, Use> uses, reserves, handed;
  std::vector<int64_t> live;
  const auto touch = [&](const Place& place, int index, auto& to) {
    if (place.exists() && place.region == RegionKind::kTransient)
      to.emplace(index, Use(live.size(), live.size())).first->second.second = live.size();
  };
  for (const InstructionList* list : lists)
    for (const Instruction& instruction : list->instructions) {
      for (const int root : roots_of(model, part, instruction))
        touch(list->places[static_cast<size_t>(root)], root, uses);
      if (instruction.call >= 0 && instruction.kind != Instruction::Kind::kLoss) {
        const auto call = static_cast<size_t>(instruction.call);
        const Pass pass = pass_of(instruction);
        if (uses_reserve(model, part.calls[call], pass))
          touch(list->reserve[call], instruction.call, reserves);
        if (uses_handed(part.calls[call], pass))
          touch(list->handed[call], instruction.call, handed);
      }
      live.push_back(instruction.scratch_bytes);
    }
  const auto add = [&](const std::pair<size_t, size_t>& use, int64_t bytes) {
    for (size_t i = use.first; i <= use.second; ++i) live[i] += (bytes + 63) / 64 * 64;
  };
  for (const auto& [root, use] : uses)
    add(use, static_cast<int64_t>(part.locals[static_cast<size_t>(root)].bytes(samples)));
  for (const auto& [call, use] : reserves) add(use, part.calls[static_cast<size_t>(call)].reserve);
  for (const auto& [call, use] : handed) add(use, part.calls[static_cast<size_t>(call)].handed);
  return live.empty() ? 0 : *std::max_element(live.begin(), live.end());
}

void expect_close(const std::vector<float>& got, const std::vector<float>& expected,
                  float tolerance, const std::string& name) {
  ASSERT_EQ(got.size(), expected.size()) << name;
  float scale = 1;
  for (const float x : expected) scale = std::max(scale, std::abs(x));
  for (size_t i = 0; i < got.size(); ++i)
    ASSERT_TRUE(std::abs(got[i] - expected[i]) <= tolerance * scale)
        << name << "[" << i << "]: " << got[i] << " and " << expected[i];
}

void expect_close(const StepResult::Tensors& got, const StepResult::Tensors& expected,
                  float tolerance, const std::string& what) {
  ASSERT_EQ(got.size(), expected.size()) << what;
  for (const auto& [name, tensor] : expected) {
    ASSERT_TRUE(got.contains(name)) << what << " of " << name;
    expect_close(got.at(name), tensor, tolerance, format("{} of {}", what, name));
  }
}

}  // namespace

Model tied() {
  Model m("tied");
  const ops::ValueSpec spec{ops::DType::kFloat32, {ops::kBatch, 4}};
  const ValueId x = m.add_input("x", spec);
  const ValueId w =
      m.add_parameter("w", {ops::DType::kFloat32, {4, 4}}, {ops::Initializer::Kind::kUniform, 0.5});
  const ValueId label = m.add_label("label", {ops::DType::kInt64, {ops::kBatch}});
  const ValueId a = m.node(m.add_node("a", "Gemm", {}, {x, w})).outputs[0];
  const ValueId b = m.node(m.add_node("b", "Gemm", {}, {a, w})).outputs[0];
  m.add_node("loss", "SoftmaxCrossEntropyLoss", {}, {b, label});
  return m;
}

Plan plan_of(const Model& model, Cut cut, int workers, const std::string& shares,
             int micro_batches) {
  PlanRequest request;
  request.cut = cut;
  request.workers = workers;
  request.batch = 10;
  request.micro_batches = micro_batches;
  request.shares = shares;
  request.minimise = Minimise::kForwardFlops;  // small models: time would be all overhead
  return std::get<Plan>(make_plan(model, request, *hold_everything()));
}

Plan plan_of(const Model& model, Division division, int parts) {
  Plan plan = plan_of(model, Cut::kLayer, 1);
  for (int part = 1; part < parts; ++part) {
    plan.stages[0].parts.push_back(part);
    plan.binding.push_back(part);
  }
  plan.division = std::move(division);
  plan.layouts = layouts_of(model, plan.division);
  plan.routes = all_routes(model, plan);
  return plan;
}

void expect_dense(const Model& model, const Plan& plan, bool gradients) {
  const int64_t samples = plan.division.largest;
  for (const Part& part : lower(model, plan, {.gradients = gradients})) {
    const Lists pass = {&part.forward,  &part.backward, &part.contribute, &part.reduce,
                        &part.conclude, &part.update,   &part.fetch};
    const Lists apart = {&part.input_gradient, &part.weight_gradient};
    int64_t most = 0;
    int64_t have = part.bytes_of(RegionKind::kTransient);
    if (part.single_pass) {
      most = transient_bytes(model, part, pass, samples);
      have = part.forward.transient_bytes;
      for (const InstructionList* list : pass) EXPECT_EQ(list->transient_bytes, have);
    } else {
      for (const Lists& lists : {pass, apart})
        for (const InstructionList* list : lists)
          most = std::max(most, transient_bytes(model, part, {list}, samples));
    }
    EXPECT_LE(static_cast<double>(have),
              (part.single_pass ? 1.1 : 1.05) * static_cast<double>(most))
        << model.name() << " part " << part.part;
    EXPECT_GE(have, most);
  }
}

namespace {

// The step vector against plain loops: over the losses, and over whole gradients.
void expect_step_vector(const Model& model, const StepResult& result) {
  ASSERT_EQ(result.step.size(), size_t{StepVector::kResults});
  EXPECT_EQ(result.step[StepVector::kCause], 0);
  double loss = 0;
  for (const float each : result.losses) loss += each;
  EXPECT_NEAR(result.step[StepVector::kLoss], loss, 1e-6 * std::abs(loss));
  double all = 0;
  for (const auto& [name, gradient] : result.gradients) {
    double sum = 0;
    for (const float x : gradient) sum += double{x} * x;
    const Value& value = model.value(model.find_value(name));
    const StepVector vector(model, static_cast<int>(result.losses.size()));
    EXPECT_NEAR(result.step_sums[static_cast<size_t>(vector.norm_of(value))], sum, 1e-12 * sum)
        << name;
    all += sum;
  }
  EXPECT_NEAR(result.step[StepVector::kSquaredNorm], all, 1e-12 * all);
}

}  // namespace

StepResult run(const Model& model, const Plan& plan, const std::vector<int64_t>& sizes,
               Numbers numbers) {
  PartRunner apart(model, plan, {Backward::kApart, numbers});
  StepResult result = apart.run(sizes);
  EXPECT_THAT(apart.faults(), ::testing::IsEmpty());
  PartRunner together(model, plan, {Backward::kTogether, numbers});
  const StepResult same = together.run(sizes);
  EXPECT_THAT(together.faults(), ::testing::IsEmpty());
  EXPECT_EQ(result.losses, same.losses);
  EXPECT_EQ(result.gradients, same.gradients);
  EXPECT_EQ(result.parameters, same.parameters);
  EXPECT_EQ(result.step_sums, same.step_sums);
  if (static_cast<int>(sizes.size()) == plan.micro_batches) expect_step_vector(model, result);
  expect_dense(model, plan);
  return result;
}

void expect_close(const StepResult& got, const StepResult& expected, float tolerance) {
  expect_close(got.losses, expected.losses, tolerance, "losses");
  expect_close(got.values, expected.values, tolerance, "values");
  expect_close(got.gradients, expected.gradients, tolerance, "gradients");
  expect_close(got.parameters, expected.parameters, tolerance, "parameters");
}

void expect_same_bits(const StepResult& got, const StepResult& expected) {
  expect_close(got, expected, 0);
  const auto bits = [](const std::vector<float>& numbers) {
    std::vector<uint32_t> result;
    for (const float x : numbers) result.push_back(std::bit_cast<uint32_t>(x));
    return result;
  };
  const auto expect_same = [&](const StepResult::Tensors& ours, const StepResult::Tensors& theirs) {
    for (const auto& [name, tensor] : theirs)
      if (const auto own = ours.find(name); own != ours.end()) {
        EXPECT_EQ(bits(own->second), bits(tensor)) << name;
      }
  };
  EXPECT_EQ(bits(got.losses), bits(expected.losses));
  expect_same(got.values, expected.values);
  expect_same(got.gradients, expected.gradients);
  expect_same(got.parameters, expected.parameters);
}

Model with_sum_loss(const Model& model) {
  Model to(model.name());
  std::vector<ValueId> known(static_cast<size_t>(model.values()), -1);
  const auto of = [&](ValueId value) -> ValueId& { return known[static_cast<size_t>(value)]; };
  for (NodeId id = 0; id < model.nodes(); ++id) {
    const Node& node = model.node(id);
    std::vector<ValueId> inputs;
    for (const ValueId value : node.inputs) {
      const Value& from = model.value(value);
      if (from.role == Role::kLabel) continue;
      if (of(value) < 0)
        of(value) = from.role == Role::kInput
                        ? to.add_input(from.name, from.spec)
                        : to.add_parameter(from.name, from.spec, from.initializer, from.role);
      inputs.push_back(of(value));
    }
    if (id == model.loss()) {
      inputs.push_back(to.add_input("loss.weights", to.value(inputs[0]).spec));
      to.add_node("loss", "SumLoss", {}, inputs);
    } else {
      of(node.outputs[0]) =
          to.node(to.add_node(node.name, node.op, node.attributes, inputs)).outputs[0];
    }
  }
  return to;
}

}  // namespace kerf::partitioner
