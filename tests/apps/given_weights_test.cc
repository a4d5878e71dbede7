// Weights that a person gives for a model of an ONNX file: what may be meant, and what may not.
#include "apps/given_weights.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <memory>
#include <span>

#include "partitioner/builder.h"
#include "partitioner/onnx/weight_file.h"
#include "runtime/format.h"
#include "schedmp/safetensors.h"
#include "tests/support/errors.h"
#include "tests/support/temporary_folder.h"

namespace kerf::apps {
namespace {

using partitioner::onnx::FoldedWeights;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

// y = (x a.weight + n.bias) n.weight
partitioner::Model model() {
  partitioner::Builder b("net.onnx");
  const ops::Initializer zero;
  const auto product =
      b.matmul(b.input("x", {ops::kBatch, 4}), b.parameter("a.weight", {4, 4}, zero));
  const auto moved = b.add(product, b.parameter("n.bias", {4}, zero));
  b.node("Mul", {moved, b.parameter("n.weight", {4}, zero)}, {});
  return b.build();
}

std::string numbers_of(size_t count, float value) {
  const std::vector<float> numbers(count, value);
  return {reinterpret_cast<const char*>(numbers.data()), count * sizeof(float)};
}

class GivenWeightsFile : public testing::Test {
 protected:
  // A vector of so many times a number.
  using Vectors = std::map<std::string, std::pair<int64_t, float>>;

  std::string file(const Vectors& others, float weight = 2, float bias = 3) const {
    std::vector<schedmp::NamedTensor> tensors{
        {"a.weight", ops::DType::kFloat32, {4, 4}, numbers_of(16, 1)},
        {"n.weight", ops::DType::kFloat32, {4}, numbers_of(4, weight)},
        {"n.bias", ops::DType::kFloat32, {4}, numbers_of(4, bias)}};
    for (const auto& [name, of] : others)
      tensors.push_back({name,
                         ops::DType::kFloat32,
                         {of.first},
                         numbers_of(static_cast<size_t>(of.first), of.second)});
    const auto path = folder_ / "w.safetensors";
    schedmp::write_safetensors(path, tensors);
    return path.string();
  }
  std::vector<std::string> notes_of(const FoldedWeights& folded, const Vectors& others,
                                    float weight = 2, float bias = 3) const {
    return check_weights(model(), "{}", folded, file(others, weight, bias));
  }
  std::string complaint(const FoldedWeights& folded, const Vectors& others) const {
    const auto error = tests::error_of([&] { notes_of(folded, others); });
    return error ? error->what() : "";
  }

  tests::TemporaryFolder folder_;
};

TEST_F(GivenWeightsFile, WhatTheModelHasIsTakenAndTheRestIsTold) {
  EXPECT_THAT(notes_of({}, {}), IsEmpty());
  EXPECT_THAT(notes_of({}, {{"more.bias", {4, 9.0F}}}), ElementsAre(HasSubstr("more.bias of ")));
}

// A constant of the model's has the name, and stays what it is.
TEST_F(GivenWeightsFile, WhatIsAConstantIsNotTaken) {
  partitioner::Model constant = model();
  const auto c =
      constant.add_constant("c", {ops::DType::kFloat32, ops::Shape{4}, numbers_of(4, 1)});
  constant.add_node("more", "Add", {}, {constant.values() - 2, c});
  EXPECT_THAT(check_weights(constant, "{}", {}, file({{"c", {4, 2.0F}}})),
              ElementsAre(HasSubstr("c of ")));
}

// What it was computed of is not in the model's file any more.
TEST_F(GivenWeightsFile, ABufferThatTheFileCutIsToldAndAParameterRefused) {
  FoldedWeights folded;
  folded.computed["pe"] = {"slice_1", {}, false};
  EXPECT_THAT(notes_of(folded, {{"pe", {9, 1.0F}}}),
              ElementsAre(HasSubstr("is a buffer, of which net.onnx has only what was computed "
                                    "when it was written, and that stays")));
  folded.computed["pe"].parameter = true;
  EXPECT_THAT(complaint(folded, {{"pe", {9, 1.0F}}}),
              HasSubstr("its pe cannot be compared with that of net.onnx, which has only slice_1"));
}

TEST_F(GivenWeightsFile, WhatItWasComputedOfIsAsItWas) {
  FoldedWeights folded;
  folded.computed["pe"] = {"slice_1",
                           {{ops::DType::kFloat32, {9}},
                            partitioner::onnx::contents_of(numbers_of(9, 1), ops::DType::kFloat32)},
                           false};
  EXPECT_EQ(complaint(folded, {{"pe", {9, 1.0F}}}), "");
  EXPECT_THAT(complaint(folded, {{"pe", {9, 2.0F}}}), HasSubstr("its pe is not that of net.onnx"));
}

// Numbers that nobody may ask for.
class Unread : public partitioner::Contents {
 public:
  void read(size_t /*first*/, std::span<std::byte> /*to*/) const override {
    ADD_FAILURE() << "its shape says enough";
  }
  std::string identity() const override { return "unread"; }
};

TEST_F(GivenWeightsFile, OfAnotherShapeIsAnotherUnread) {
  FoldedWeights folded;
  folded.weights["pe"] = {{ops::DType::kFloat32, {3, 3}}, std::make_shared<Unread>(), false};
  EXPECT_THAT(complaint(folded, {{"pe", {9, 1.0F}}}),
              HasSubstr("its pe is not that of net.onnx, which has it in its constants"));
}

TEST_F(GivenWeightsFile, IntegersAreTheModels) {
  FoldedWeights folded;
  const auto three = [](int64_t last) {
    const int64_t numbers[] = {2, 0, last};
    return std::string(reinterpret_cast<const char*>(numbers), sizeof numbers);
  };
  folded.weights["perm"] = {{ops::DType::kInt64, {3}},
                            partitioner::onnx::contents_of(three(1), ops::DType::kInt64),
                            false};
  const auto check = [&](int64_t last) {
    std::vector<schedmp::NamedTensor> tensors = schedmp::read_safetensors(file({}));
    tensors.push_back({"perm", ops::DType::kInt64, {3}, three(last)});
    tensors.push_back({"batches", ops::DType::kInt64, {}, std::string(8, '\0')});
    const auto path = folder_ / "integers.safetensors";
    schedmp::write_safetensors(path, tensors);
    const auto error =
        tests::error_of([&] { check_weights(model(), "{}", folded, path.string()); });
    return error ? std::string(error->what()) : "";
  };
  EXPECT_EQ(check(1), "");
  EXPECT_THAT(check(7), HasSubstr("its perm is not that of net.onnx"));
}

// As most that is published has them.
TEST_F(GivenWeightsFile, OfHalfTheBitsAreReadAndTold) {
  std::vector<schedmp::NamedTensor> tensors = schedmp::read_safetensors(file({}));
  for (schedmp::NamedTensor& each : tensors)
    if (each.name != "a.weight") each = {each.name, ops::DType::kBFloat16, {4}, std::string(8, 0)};
  const auto path = folder_ / "half.safetensors";
  schedmp::write_safetensors(path, tensors);
  for (const char* source : {"", "{}"})
    EXPECT_THAT(check_weights(model(), source, {}, path.string()),
                ElementsAre(HasSubstr("2 tensors of " + path.string() +
                                      " are bfloat16, and read as float32")));
  for (schedmp::NamedTensor& each : tensors)
    if (each.name != "a.weight") each = {each.name, ops::DType::kInt16, {4}, std::string(8, 0)};
  schedmp::write_safetensors(path, tensors);
  const auto error = tests::error_of([&] { check_weights(model(), "", {}, path.string()); });
  ASSERT_TRUE(error);
  EXPECT_THAT(error->what(), HasSubstr("save it as float32"));
}

// Beside the model's: what nobody reads may be of any type.
TEST_F(GivenWeightsFile, WhatCannotBeReadIsToldWhereNothingNeedsIt) {
  const auto named = [&](const std::string& name) {
    const std::string header = R"({"a.weight":{"dtype":"F32","shape":[4,4],"data_offsets":[0,64]},)"
                               R"("n.weight":{"dtype":"F32","shape":[4],"data_offsets":[64,80]},)" +
                               fmt::format(R"("{}":{{"dtype":"C64","shape":[2],)", name) +
                               R"("data_offsets":[80,96]}})";
    const uint64_t length = header.size();
    std::ofstream(folder_ / "any.safetensors", std::ios::binary)
        << std::string(reinterpret_cast<const char*>(&length), 8) << header
        << std::string(96, '\0');
    return (folder_ / "any.safetensors").string();
  };
  partitioner::Builder b("net.onnx");
  const auto product =
      b.matmul(b.input("x", {ops::kBatch, 4}), b.parameter("a.weight", {4, 4}, {}));
  b.node("Mul", {product, b.parameter("n.weight", {4}, {})}, {});
  const partitioner::Model small = b.build();
  EXPECT_THAT(check_weights(small, "{}", {}, named("freqs")), ElementsAre(HasSubstr("freqs of ")));
  FoldedWeights folded;
  folded.weights["freqs"] = {{ops::DType::kFloat32, {4}}, std::make_shared<Unread>(), false};
  const auto error = tests::error_of([&] { check_weights(small, "{}", folded, named("freqs")); });
  ASSERT_TRUE(error);
  EXPECT_THAT(error->what(), HasSubstr("its freqs: dtype C64 is not one of"));
  const auto needed = tests::error_of([&] { check_weights(model(), "", {}, named("n.bias")); });
  ASSERT_TRUE(needed);
  EXPECT_THAT(needed->what(), HasSubstr("its n.bias: dtype C64 is not one of"));
}

// What a run of the model wrote has the model's own names for what is in doubt.
TEST_F(GivenWeightsFile, OfARunOfTheModelIsTakenAsItIs) {
  FoldedWeights folded;
  folded.weights["n.weight"] = {
      {ops::DType::kFloat32, {4}},
      partitioner::onnx::contents_of(numbers_of(4, 1), ops::DType::kFloat32),
      true};
  const auto check = [&](const std::map<std::string, std::string>& metadata,
                         const std::vector<schedmp::NamedTensor>& more = {}) {
    std::vector<schedmp::NamedTensor> tensors = schedmp::read_safetensors(file({}));
    tensors.insert(tensors.end(), more.begin(), more.end());
    const auto path = folder_ / "run.safetensors";
    schedmp::write_safetensors(path, tensors, metadata);
    std::vector<std::string> notes;
    const auto error =
        tests::error_of([&] { notes = check_weights(model(), "{}", folded, path.string()); });
    return error ? std::string(error->what()) : fmt::format("{}", fmt::join(notes, "; "));
  };
  const auto refused = HasSubstr("its n.weight is not that of net.onnx, which has it put together");
  const std::vector<schedmp::NamedTensor> other{
      {"other", ops::DType::kFloat32, {4}, numbers_of(4, 1)}};
  EXPECT_THAT(check({}), refused);
  EXPECT_EQ(check({{"fingerprint", model().fingerprint()}}), "");
  EXPECT_EQ(check({{"fingerprint", model().fingerprint()}}, other), "");
  EXPECT_EQ(check({{"fingerprint", "of another loss"}}), "") << "all that it has is read";
  EXPECT_THAT(check({{"fingerprint", "of another model"}}, other), refused);
}

// n.weight and n.bias are read in several places: m's were equal to them when it was written.
TEST_F(GivenWeightsFile, TwinsOfWhatIsSharedAreEqualToOneOfThem) {
  FoldedWeights folded;
  folded.shared = {"n.weight", "n.bias"};
  EXPECT_EQ(complaint(folded, {{"m.weight", {4, 2.0F}}, {"m.bias", {4, 3.0F}}}), "");
  EXPECT_THAT(complaint(folded, {{"m.weight", {4, 2.0F}}, {"m.bias", {4, 5.0F}}}),
              HasSubstr("m.bias differ there, but net.onnx has no m.bias"));
  EXPECT_EQ(complaint(folded, {{"m.weight", {5, 2.0F}}, {"m.bias", {4, 5.0F}}}), "")
      << "a module of which something can be nothing of the model's is none of it";
}

TEST_F(GivenWeightsFile, ANormalisationIsFoldedOnlyWhereAWeightHasAsManyChannels) {
  const auto of_a = HasSubstr("its batch normalisation a.bn is nothing that net.onnx has");
  EXPECT_THAT(complaint({}, {{"a.bn.running_var", {4, 1.0F}}}), of_a);
  EXPECT_EQ(complaint({}, {{"a.bn.running_var", {5, 1.0F}}}), "");
  EXPECT_EQ(complaint({}, {{"other.bn.running_var", {4, 1.0F}}}), "");
  FoldedWeights folded;
  folded.parameters = {"a.weight", "n.weight", "n.bias"};
  EXPECT_EQ(complaint(folded, {{"a.bn.running_var", {4, 1.0F}}}), "") << "the program had none";
  folded.buffers.insert("a.bn.running_var");
  EXPECT_THAT(complaint(folded, {{"a.bn.running_var", {4, 1.0F}}}), of_a);
}

// y = (x a.weight + n.bias) n.weight + slice_1, which the exporter computed of a buffer.
partitioner::Model model_with_slice() {
  partitioner::Model result = model();
  const ops::ValueSpec spec{ops::DType::kFloat32, {4}};
  const auto slice = result.add_parameter("slice_1", spec, {}, ops::Role::kFrozen);
  result.set_contents(slice, partitioner::onnx::contents_of(numbers_of(4, 7), ops::DType::kFloat32),
                      true);
  result.add_node("shifted", "Add", {}, {result.values() - 2, slice});
  return result;
}

TEST_F(GivenWeightsFile, MayLackWhatWasComputedOfABuffer) {
  FoldedWeights folded;
  folded.parameters = {"a.weight", "n.weight", "n.bias"};
  folded.computed["pe"] = {"slice_1", {}, false};
  const auto notes = [&](const Vectors& others) {
    return check_weights(model_with_slice(), "{}", folded, file(others));
  };
  EXPECT_THAT(notes({{"pe", {9, 1.0F}}}), ElementsAre(HasSubstr("and that stays")));
  EXPECT_THAT(notes({}), IsEmpty()) << "a buffer that is no part of a state_dict";
  EXPECT_THAT(notes({{"slice_1", {4, 1.0F}}}), IsEmpty());
}

TEST_F(GivenWeightsFile, MayNotLackTheParameterThatSomethingWasComputedOf) {
  FoldedWeights folded;
  folded.parameters = {"a.weight", "n.weight", "n.bias", "table"};
  folded.computed["table"] = {
      "slice_1",
      {{ops::DType::kFloat32, {9}},
       partitioner::onnx::contents_of(numbers_of(9, 1), ops::DType::kFloat32)},
      true};
  const auto check = [&](const Vectors& others) {
    return check_weights(model_with_slice(), "{}", folded, file(others));
  };
  EXPECT_THAT(check({{"table", {9, 1.0F}}}), IsEmpty());
  EXPECT_THAT(check({{"slice_1", {4, 1.0F}}}), IsEmpty()) << "a run of the model wrote it";
  const auto error = tests::error_of([&] { check({}); });
  ASSERT_TRUE(error);
  EXPECT_THAT(error->what(), HasSubstr("it lacks 1 of the 4 tensors of net.onnx: table"));
}

// y = ((x a.weight + n.bias) n.weight) of which nothing says what the 7, 8, 9, 10 are of.
class GivenWeightsOfSlices : public GivenWeightsFile {
 protected:
  static std::string run_of(std::vector<float> numbers) {
    return {reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(float)};
  }
  static std::string check(const std::string& slice, const std::string& weights) {
    partitioner::Model result = model_with_slice();
    result.set_contents(result.find_value("slice_1"),
                        partitioner::onnx::contents_of(slice, ops::DType::kFloat32), true);
    std::vector<std::string> notes;
    const auto error = tests::error_of([&] { notes = check_weights(result, "{}", {}, weights); });
    return error ? error->what() : fmt::format("{}", fmt::join(notes, "; "));
  }
  std::string with(const std::map<std::string, std::string>& others) const {
    std::vector<schedmp::NamedTensor> tensors = schedmp::read_safetensors(file({}));
    for (const auto& [name, bytes] : others)
      tensors.push_back({name,
                         ops::DType::kFloat32,
                         {1, static_cast<int64_t>(bytes.size() / sizeof(float))},
                         bytes});
    const auto path = folder_ / "others.safetensors";
    schedmp::write_safetensors(path, tensors);
    return path.string();
  }
  const std::string slice_ = run_of({7, 8, 9, 10});
  const std::string whole_ = run_of({7, 8, 9, 10, 11, 12});
};

TEST_F(GivenWeightsOfSlices, AreTakenWhereTheyBeginAsTheFile) {
  EXPECT_THAT(check(slice_, with({})), HasSubstr("slice_1 of net.onnx is not in "));
  EXPECT_THAT(check(slice_, with({{"pe", whole_}})), HasSubstr("pe of "));
  EXPECT_THAT(check(slice_, with({{"pe", whole_}})), Not(HasSubstr("lacks")));
}

TEST_F(GivenWeightsOfSlices, AreRefusedWhereTheyMayBeOfSomethingElse) {
  const auto refused = HasSubstr("it lacks 1 of the 4 tensors of net.onnx: slice_1");
  EXPECT_THAT(check(slice_, with({{"pe", run_of({7, 8, 9, 10.5F, 11})}})), refused);
  EXPECT_THAT(check(slice_, with({{"pe", run_of({6, 7, 8, 9, 10})}})), refused);
  EXPECT_THAT(check(slice_, with({{"pe", run_of({7, 8, 9})}})), refused) << "shorter";
  const std::string zeros = run_of({0, 0, 0, 0});
  EXPECT_THAT(check(zeros, with({{"pe", run_of({0, 0, 0, 0, 0})}})), refused) << "as many do";
}

TEST_F(GivenWeightsOfSlices, OthersStayWhereAllThatIsUnreadIsKnown) {
  partitioner::Model result = model_with_slice();
  const ops::ValueSpec spec{ops::DType::kFloat32, {4}};
  const auto more = result.add_parameter("more", spec, {}, ops::Role::kFrozen);
  result.set_contents(result.find_value("slice_1"),
                      partitioner::onnx::contents_of(slice_, ops::DType::kFloat32), true);
  result.set_contents(more, partitioner::onnx::contents_of(numbers_of(4, 1), ops::DType::kFloat32),
                      true);
  result.add_node("again", "Add", {}, {result.values() - 2, more});
  const auto error_of = [&](const std::string& weights) {
    const auto error = tests::error_of([&] { check_weights(result, "{}", {}, weights); });
    return error ? std::string(error->what()) : "";
  };
  EXPECT_EQ(error_of(with({{"pe", whole_}})), "");
  EXPECT_THAT(error_of(with({{"pe", whole_}, {"scale", run_of({2})}})),
              HasSubstr("it lacks 1 of the 5 tensors of net.onnx: more"));
}

TEST_F(GivenWeightsFile, OfAnotherShapeAreRefusedBeforeAnyWorkerBegins) {
  std::vector<schedmp::NamedTensor> tensors = schedmp::read_safetensors(file({}));
  for (schedmp::NamedTensor& each : tensors)
    if (each.name == "n.bias") each = {each.name, each.dtype, {5}, numbers_of(5, 1)};
  const auto path = folder_ / "five.safetensors";
  schedmp::write_safetensors(path, tensors);
  for (const char* source : {"", "{}"}) {
    const auto error = tests::error_of([&] { check_weights(model(), source, {}, path.string()); });
    ASSERT_TRUE(error);
    EXPECT_THAT(error->what(),
                HasSubstr("its n.bias is float32 [5], and that of net.onnx float32 [4]"));
  }
}

TEST_F(GivenWeightsFile, WhatIsLackedIsNamed) {
  const auto path = folder_ / "few.safetensors";
  schedmp::write_safetensors(path, {{"n.bias", ops::DType::kFloat32, {4}, numbers_of(4, 1)}});
  const auto error = tests::error_of([&] { check_weights(model(), "", {}, path.string()); });
  ASSERT_TRUE(error);
  EXPECT_THAT(error->what(),
              HasSubstr("it lacks 2 of the 3 tensors of net.onnx: a.weight, n.weight"));
}

}  // namespace
}  // namespace kerf::apps
