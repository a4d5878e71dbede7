// Operators against the values that PyTorch computed for them (torch/*.txt).
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <ostream>
#include <sstream>

#include "tests/conformance/operator_runner.h"

namespace kerf::ops {
namespace {

struct TorchCase {
  std::string name;
  std::string op;
  int64_t samples = 0;
  NodeFacts facts;
  std::vector<HostTensor> inputs;
  std::vector<HostTensor> outputs;
  std::vector<HostTensor> upstream;  // without floats: nobody reads the output
  std::map<int, std::vector<float>> gradients;
};

// NOLINTNEXTLINE(readability-identifier-naming): the name that GoogleTest looks for
void PrintTo(const TorchCase& scene, std::ostream* out) { *out << scene.name; }

template <class T>
std::vector<T> rest_of(std::istream& line) {
  std::vector<T> values;
  for (T value; line >> value;) values.push_back(value);
  return values;
}

Shape shape_of(const std::string& text) {
  std::vector<int64_t> extents;
  std::istringstream list(text == "scalar" ? "" : text);
  for (std::string extent; std::getline(list, extent, ',');)
    extents.push_back(extent == "N" ? kBatch : std::stoll(extent));
  return Shape(extents);
}

Attribute attribute_of(std::istream& line) {
  std::string type;
  line >> type;
  if (type == "ints") return rest_of<int64_t>(line);
  if (type == "int") return rest_of<int64_t>(line).at(0);
  if (type == "floats") return rest_of<double>(line);
  if (type == "strings") return rest_of<std::string>(line);
  if (type == "float") return rest_of<double>(line).at(0);
  return rest_of<std::string>(line).at(0);
}

void add_input(std::istream& line, TorchCase& scene) {
  const std::map<std::string, Role> roles{{"activation", Role::kActivation},
                                          {"parameter", Role::kParameter},
                                          {"state", Role::kState},
                                          {"input", Role::kInput},
                                          {"label", Role::kLabel}};
  std::string role;
  std::string type;
  std::string shape;
  line >> role >> type >> shape;
  Operand operand;
  HostTensor value;
  operand.present = role != "absent";
  if (operand.present) {
    operand.role = roles.at(role);
    operand.spec = {parse_dtype(type), shape_of(shape)};
    operand.wants_gradient = operand.role == Role::kActivation || operand.role == Role::kParameter;
    value.dtype = operand.spec.dtype;
    value.shape = operand.spec.shape.with_batch(scene.samples);
    if (value.dtype == DType::kFloat32)
      value.floats = rest_of<float>(line);
    else
      value.integers = rest_of<int64_t>(line);
  }
  scene.facts.inputs.push_back(operand);
  scene.inputs.push_back(std::move(value));
}

HostTensor output_of(std::istream& line, int64_t samples) {
  std::string shape;
  line >> shape;
  return {DType::kFloat32, shape_of(shape).with_batch(samples), rest_of<float>(line), {}};
}

void add_cases(const std::filesystem::path& path, std::vector<TorchCase>& cases) {
  std::ifstream file(path);
  for (std::string text; std::getline(file, text);) {
    std::istringstream line(text);
    std::string word;
    std::string name;
    line >> word;
    if (word == "case") {
      cases.emplace_back();
      line >> cases.back().name >> cases.back().op >> cases.back().samples;
      continue;
    }
    TorchCase& scene = cases.back();
    if (word == "attribute") {
      line >> name;
      scene.facts.attributes[name] = attribute_of(line);
    } else if (word == "input") {
      add_input(line, scene);
    } else if (word == "output") {
      scene.outputs.push_back(output_of(line, scene.samples));
      scene.facts.outputs = static_cast<int>(scene.outputs.size());
    } else if (word == "upstream") {
      const bool absent = text.find("absent") != std::string::npos;
      const Shape& shape = scene.outputs.back().shape;
      scene.upstream.push_back(absent ? HostTensor{DType::kFloat32, shape, {}, {}}
                                      : output_of(line, scene.samples));
    } else {
      int input = 0;
      line >> input;
      scene.gradients[input] = rest_of<float>(line);
    }
  }
}

std::vector<TorchCase> torch_cases() {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(KERF_TORCH_CASES))
    if (entry.path().extension() == ".txt") files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  std::vector<TorchCase> cases;
  for (const auto& path : files) add_cases(path, cases);
  return cases;
}

void expect_near(const std::vector<float>& got, const std::vector<float>& wanted,
                 const std::string& what) {
  ASSERT_EQ(got.size(), wanted.size()) << what;
  double most = 1e-3;
  for (const float value : wanted) most = std::max(most, std::abs(double{value}));
  for (size_t i = 0; i < wanted.size(); ++i)
    ASSERT_NEAR(double{got[i]}, double{wanted[i]}, 1e-5 * most) << what << ", element " << i;
}

class TorchValues : public testing::TestWithParam<TorchCase> {};

TEST_P(TorchValues, OutputsAndGradientsAreThose) {
  const TorchCase& scene = GetParam();
  const auto op = bind_operator(find_operator(scene.op), scene.facts);
  const auto device = runtime::make_cpu_device();
  OperatorRunner runner(op, *device, scene.samples);
  const Moment moment{.samples = scene.samples};
  const auto outputs = runner.forward(scene.inputs, moment);
  for (size_t i = 0; i < scene.outputs.size(); ++i) {
    EXPECT_EQ(to_string(outputs[i].shape), to_string(scene.outputs[i].shape));
    expect_near(outputs[i].floats, scene.outputs[i].floats, "output " + std::to_string(i));
  }
  std::vector<Asked> asked;
  for (const auto& [input, values] : scene.gradients)
    asked.push_back({input, false, zeros(scene.inputs[static_cast<size_t>(input)].shape)});
  const auto gradients = runner.gradients(scene.inputs, moment, scene.upstream, asked);
  for (size_t t = 0; t < asked.size(); ++t)
    expect_near(gradients[t].floats, scene.gradients.at(asked[t].input),
                "gradient of input " + std::to_string(asked[t].input));
}

INSTANTIATE_TEST_SUITE_P(Operators, TorchValues, testing::ValuesIn(torch_cases()),
                         [](const auto& param) { return param.param.name; });

}  // namespace
}  // namespace kerf::ops
