// Files of weights have PyTorch's names and axes, whatever the model has.
#include "schedmp/training/stored_weights.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <map>
#include <numeric>
#include <set>
#include <span>
#include <sstream>

#include "partitioner/zoo.h"
#include "tests/support/errors.h"
#include "tests/support/temporary_folder.h"

namespace kerf::schedmp {
namespace {

using partitioner::StoredForm;
using partitioner::Value;
using testing::ElementsAre;
using testing::ElementsAreArray;

Value value_of(const ops::Shape& shape, StoredForm form) {
  Value value{"kept", {ops::DType::kFloat32, shape}, ops::Role::kParameter};
  value.stored = std::make_shared<const StoredForm>(std::move(form));
  return value;
}

std::vector<float> floats(const std::string& bytes) {
  std::vector<float> numbers(bytes.size() / sizeof(float));
  std::copy_n(bytes.data(), bytes.size(), reinterpret_cast<char*>(numbers.data()));
  return numbers;
}

// Of a dense value of 0, 1, 2 ...
std::string slice_of(const ops::Shape& shape, const RowRange& rows, int axis) {
  std::string bytes;
  int64_t inner = 1;
  for (int i = axis + 1; i < shape.rank(); ++i) inner *= shape[i];
  for (int64_t at = 0; at < shape.elements(); ++at) {
    const int64_t index = at / inner % shape[axis];
    if (index < rows.first || index >= rows.first + rows.count) continue;
    const auto number = static_cast<float>(at);
    bytes.append(reinterpret_cast<const char*>(&number), sizeof(number));
  }
  return bytes;
}

class WeightsInFiles : public testing::Test {
 protected:
  // What a file has, by name, of a value of 0, 1, 2 ...
  std::map<std::string, std::vector<float>> written(const Value& value) {
    SafetensorsWriter writer(file_, stored_tensors(value));
    write_stored(
        value,
        [&](const RowRange& rows, int axis) {
          slices_.push_back(rows);
          return slice_of(value.spec.shape, rows, axis);
        },
        writer);
    writer.commit();
    std::map<std::string, std::vector<float>> found;
    for (const NamedTensor& tensor : read_safetensors(file_))
      found[tensor.name] = floats(tensor.bytes);
    return found;
  }

  // It comes back, whole and in pieces.
  void expect_read(const Value& value) {
    StoredWeights reader(file_);
    std::vector<float> all(static_cast<size_t>(value.spec.shape.elements()));
    std::iota(all.begin(), all.end(), 0.0F);
    EXPECT_THAT(floats(reader.read(value)), ElementsAreArray(all));
    const int64_t row = value.spec.shape.elements() / value.spec.shape[0];
    for (int64_t first = 0; first < value.spec.shape[0]; ++first)
      for (int64_t count = 0; count <= value.spec.shape[0] - first; ++count)
        EXPECT_THAT(
            floats(reader.read(value, {first, count})),
            ElementsAreArray(all.begin() + first * row, all.begin() + (first + count) * row))
            << first << " " << count;
  }

  tests::TemporaryFolder folder_;
  const std::filesystem::path file_ = folder_.path() / "w.safetensors";
  std::vector<RowRange> slices_;  // that were asked for
};

TEST_F(WeightsInFiles, ATurnedWeightKeepsTheAxesOfItsFile) {
  const Value value = value_of({2, 3}, partitioner::stored_turned("fc.weight", {2, 3}, {1, 0}));
  EXPECT_EQ(stored_tensors(value)[0].spec.shape, (ops::Shape{3, 2}));
  EXPECT_THAT(written(value)["fc.weight"], ElementsAre(0, 3, 1, 4, 2, 5));
  expect_read(value);
  const Value cube = value_of({2, 3, 4}, partitioner::stored_turned("w", {2, 3, 4}, {2, 0, 1}));
  EXPECT_EQ(stored_tensors(cube)[0].spec.shape, (ops::Shape{3, 4, 2}));
  const auto found = written(cube)["w"];
  for (int64_t i = 0; i < 2; ++i)
    for (int64_t j = 0; j < 3; ++j)
      for (int64_t k = 0; k < 4; ++k)
        EXPECT_EQ(found[static_cast<size_t>((j * 4 + k) * 2 + i)],
                  static_cast<float>((i * 3 + j) * 4 + k));
  expect_read(cube);
}

TEST_F(WeightsInFiles, AnotherShapeIsTheSameNumbers) {
  const Value value = value_of({3, 1, 1}, partitioner::stored_as("bn.weight", {3}));
  EXPECT_EQ(stored_tensors(value)[0].spec.shape, ops::Shape{3});
  EXPECT_THAT(written(value)["bn.weight"], ElementsAre(0, 1, 2));
  expect_read(value);
}

// ONNX's i, o, f, g are PyTorch's i, f, g, o.
TEST_F(WeightsInFiles, GatesOfAnLstmAreInPyTorchsOrder) {
  const ops::Shape shape{2, 8, 1};
  const Value weight = value_of(shape, partitioner::stored_cell_weight(
                                           "lstm", "weight_ih", 1, shape, partitioner::kLstmGates));
  auto found = written(weight);
  EXPECT_THAT(found["lstm.weight_ih_l1"], ElementsAre(0, 1, 4, 5, 6, 7, 2, 3));
  EXPECT_THAT(found["lstm.weight_ih_l1_reverse"], ElementsAre(8, 9, 12, 13, 14, 15, 10, 11));
  expect_read(weight);
  const ops::Shape biases{1, 8};
  const Value bias =
      value_of(biases, partitioner::stored_cell_bias("", 0, biases, partitioner::kLstmGates));
  found = written(bias);
  EXPECT_THAT(found["bias_ih_l0"], ElementsAre(0, 2, 3, 1));
  EXPECT_THAT(found["bias_hh_l0"], ElementsAre(4, 6, 7, 5));
  expect_read(bias);
}

// ONNX's z, r, n are PyTorch's r, z, n.
TEST_F(WeightsInFiles, GatesOfAGruAreInPyTorchsOrder) {
  const ops::Shape shape{1, 3, 2};
  const Value weight = value_of(
      shape, partitioner::stored_cell_weight("g", "weight_hh", 0, shape, partitioner::kGruGates));
  EXPECT_THAT(written(weight)["g.weight_hh_l0"], ElementsAre(2, 3, 0, 1, 4, 5));
  expect_read(weight);
}

// More than a slice: pieces of axes that lie apart are put together.
TEST_F(WeightsInFiles, ALargeWeightIsTurnedInPieces) {
  const ops::Shape shape{40, 140'000};
  const Value value = value_of(shape, partitioner::stored_turned("w", shape, {1, 0}));
  const auto found = written(value)["w"];
  EXPECT_GT(slices_.size(), 1U);
  for (const RowRange& slice : slices_) EXPECT_LT(slice.count, 140'000);
  for (size_t i = 0; i < found.size(); ++i) {
    const size_t number = i % 40 * 140'000 + i / 40;
    ASSERT_EQ(found[i], static_cast<float>(number)) << i;
  }
  StoredWeights reader(file_);
  const auto row = floats(reader.read(value, {7, 1}));
  for (size_t i = 0; i < row.size(); ++i)
    ASSERT_EQ(row[i], static_cast<float>(7 * 140'000 + static_cast<int64_t>(i)));
}

// 100, 101, ... in whatever bytes of it are asked for.
class Hundreds : public partitioner::Contents {
 public:
  void read(size_t first, std::span<std::byte> to) const override {
    for (size_t at = 0; at < to.size(); at += sizeof(float)) {
      const size_t index = (first + at) / sizeof(float);
      const auto number = static_cast<float>(100 + index);
      std::memcpy(&to[at], &number, sizeof(number));
    }
  }
  std::string identity() const override { return "hundreds"; }
};

TEST_F(WeightsInFiles, WhatIsDerivedMayBeLacked) {
  Value value = value_of({3, 2}, partitioner::stored_as("derived", {3, 2}));
  value.stored = nullptr;
  value.name = "derived";
  value.contents = std::make_shared<const Hundreds>();
  value.derived = true;
  written(value);
  expect_read(value);
  Value other = value;
  other.name = "lacked";
  StoredWeights reader(file_);
  EXPECT_TRUE(reader.has(value));
  EXPECT_FALSE(reader.has(other));
  EXPECT_THAT(floats(reader.read(other)), ElementsAre(100, 101, 102, 103, 104, 105));
  EXPECT_THAT(floats(reader.read(other, {1, 2})), ElementsAre(102, 103, 104, 105));
  other.derived = false;
  EXPECT_TRUE(tests::error_of([&] { reader.read(other); })) << "it has contents, too";
}

// A file under PyTorch's names, and what it is read by, of values that the model calls otherwise.
class WeightsByMap : public WeightsInFiles {
 protected:
  const Value& add(const std::string& name, const ops::Shape& shape, StoredForm form) {
    const partitioner::ValueId id =
        model_.add_parameter(name, {ops::DType::kFloat32, shape}, {}, ops::Role::kParameter);
    model_.set_stored(id, std::make_shared<const StoredForm>(std::move(form)));
    return model_.value(id);
  }
  void write(const std::string& names) {
    std::vector<NamedSpec> specs;
    for (const partitioner::ValueId id : model_.kept_values())
      for (const NamedSpec& spec : stored_tensors(model_.value(id))) specs.push_back(spec);
    SafetensorsWriter writer(file_, specs, {{kNamesKey, names}});
    for (const partitioner::ValueId id : model_.kept_values()) {
      const Value& value = model_.value(id);
      write_stored(
          value,
          [&](const RowRange& rows, int axis) {
            slices_.push_back(rows);
            return slice_of(value.spec.shape, rows, axis);
          },
          writer);
    }
    writer.commit();
  }

  partitioner::Model model_{"renamed.onnx"};
};

TEST_F(WeightsByMap, AreFoundUnderOtherNames) {
  add("onnx::MatMul_7", {2, 3}, partitioner::stored_turned("fc.weight", {2, 3}, {1, 0}));
  const ops::Shape cell{2, 8, 1};
  add("onnx::LSTM_20", cell,
      partitioner::stored_cell_weight("lstm", "weight_ih", 0, cell, partitioner::kLstmGates));
  write(stored_names(model_));
  for (const partitioner::ValueId id : model_.kept_values()) {
    Value value = model_.value(id);
    expect_read(value);
    value.stored = nullptr;  // who reads it knows no names of PyTorch's
    expect_read(value);
    value.stored =
        std::make_shared<const StoredForm>(partitioner::stored_as("unlike", value.spec.shape));
    expect_read(value);
  }
}

TEST_F(WeightsByMap, RefuseWhatCannotBe) {
  Value value = add("w", {2, 3}, partitioner::stored_turned("fc.weight", {2, 3}, {1, 0}));
  value.stored = nullptr;
  const std::map<std::string, std::string> refused{
      {R"(no JSON)", "its map of names:1:2"},
      {R"([])", "its map of names is no JSON object"},
      {R"({"w": {"tensors": ["other"]}})", "it names no tensor of the file"},
      {R"({"w": {"tensors": ["fc.weight"]}})", "\"rows\" is missing"},
      {R"({"w": {"tensors": ["fc.weight"], "axes": [0, 1]}})", "is not [2, 3] turned over"},
      {R"({"w": {"tensors": ["fc.weight"], "axes": [0, 0]}})", "each once"},
      {R"({"w": {"tensors": ["fc.weight"], "axes": [-1, 0]}})", "each once"},
      {R"({"w": {"tensors": ["fc.weight"], "rows": [[0, 0]]}})", "[tensor, first, count]"},
      {R"({"w": {"tensors": ["fc.weight"], "rows": [[1, 0, 6]]}})", "[tensor, first, count]"},
      {R"({"w": {"tensors": ["fc.weight"], "rows": [[0, 0, 4]]}})", "4 rows are not those of"},
      {R"({"w": {"tensors": ["fc.weight"], "rows": [[0, 0, 2], [0, 1, 1]]}})", "overlap"},
      {R"({"w": {"tensors": ["fc.weight", "fc.weight"], "rows": [[0, 0, 6]]}})", "other rows"},
      {R"({"w": {"tensors": ["fc.weight"],
            "rows": [[0, 0, 9223372036854775807], [0, 0, 9223372036854775807]]}})",
       "[tensor, first, count]"}};
  for (const auto& [names, part] : refused) {
    write(names);
    const auto error = tests::error_of([&] { StoredWeights(file_).read(value); });
    ASSERT_TRUE(error) << names;
    EXPECT_THAT(error->what(), testing::HasSubstr(part)) << names;
    EXPECT_THAT(error->what(), testing::HasSubstr(file_.string())) << names;
  }
}

using Names = std::set<std::string>;

// "MODEL NAME 2x3" a line.
std::map<std::string, Names> names_by_model() {
  std::ifstream file(KERF_TORCH_NAMES);
  std::map<std::string, Names> names;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with('#')) continue;
    const size_t space = line.find(' ');
    names[line.substr(0, space)].insert(line.substr(space + 1));
  }
  return names;
}

TEST(TorchNames, OfEveryModelAreThoseOfItsStateDict) {
  const auto expected = names_by_model();
  for (const partitioner::ZooModel& row : partitioner::zoo()) {
    const std::string name(row.name);
    if (name == "bvlc-alexnet" || name == "inception-v1") continue;  // Caffe's
    const partitioner::Model model = partitioner::make_zoo_model(name);
    Names mine;
    for (const partitioner::ValueId id : model.kept_values()) {
      if (model.value(id).literal != nullptr) continue;
      for (const NamedSpec& tensor : stored_tensors(model.value(id)))
        mine.insert(format("{} {}", tensor.name,
                           fmt::join(tensor.spec.shape.begin(), tensor.spec.shape.end(), "x")));
    }
    ASSERT_TRUE(expected.contains(name)) << name << ": run torch_names/make_names.py";
    EXPECT_THAT(mine, testing::ContainerEq(expected.at(name))) << name;
  }
}

}  // namespace
}  // namespace kerf::schedmp
