// Weights that nobody has: tensors of files that are holes or the same, tables without end, names
// told apart. What is known of them takes little memory and little time.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <span>

#include "partitioner/onnx/read.h"
#include "partitioner/onnx/tied_tables.h"
#include "partitioner/onnx/told_apart.h"
#include "partitioner/onnx/weight_file.h"
#include "runtime/format.h"
#include "tests/partitioner/onnx/made_files.h"
#include "tests/partitioner/onnx/made_graphs.h"
#include "tests/support/allocation_meter.h"
#include "tests/support/errors.h"
#include "tests/support/temporary_folder.h"

namespace kerf::partitioner::onnx {
namespace {

using testing::HasSubstr;
using tests::error_of;

constexpr size_t kMostTaken = size_t{1} << 30;  // bytes

// Products with one wide matrix, of each of which a bias of zeros was left out.
TEST(HostileWeights, ZerosThatAreLeftOutOften) {
  constexpr int64_t kOften = 300;
  for (const int64_t units : {int64_t{1} << 20, int64_t{1} << 62}) {
    Graph graph = graph_of({1}, {}, {});
    const auto nothing = contents_of("", ops::DType::kFloat32);
    graph.initializers["w"] = {
        "w", {ops::DType::kFloat32, {0, units}}, ops::DType::kFloat32, nothing};
    graph.torch = {{"w", true}};
    for (size_t i = 1; i <= kOften; ++i) {
      graph.torch.push_back({format("b{}", i), true});
      graph.nodes.push_back(node_of("Gemm", {"x", "w"}, format("y{}", i)));
      graph.nodes.back().call = format("linear_{}", i);
      graph.nodes.back().call_reads = {0, i};
    }
    const size_t before = tests::allocated_bytes();
    std::vector<std::string> notes;
    tell_apart(graph, notes);
    EXPECT_LE(tests::allocated_bytes() - before, kMostTaken / 2);
    EXPECT_TRUE(graph.lost.contains("b99")) << "the last one";
    EXPECT_EQ(graph.initializers.contains("b1"), units == int64_t{1} << 20);
  }
}

// A call that has many tensors and reads another, computed of one again and again, as often.
TEST(HostileWeights, ASumThatReadsOneTensorOften) {
  constexpr size_t kOften = 10000;
  Graph graph = graph_of({4}, {node_of("Sum", std::vector<std::string>(kOften, "v"), "y")},
                         {stored("v", {1, 4}, {1, 2, 3, 4})});
  graph.torch = {{"a", true}};
  graph.computed["v"] = {std::vector<size_t>(kOften, 0), true};
  graph.nodes[0].call = "sum";
  for (size_t i = 1; i <= kOften; ++i) {
    graph.torch.push_back({format("b{}", i), true});
    graph.nodes[0].call_reads.push_back(i);
  }
  const auto begin = std::chrono::steady_clock::now();
  std::vector<std::string> notes;
  tell_apart(graph, notes);
  EXPECT_LE(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
  EXPECT_EQ(graph.initializers.size(), kOften) << "all are told apart";
}

// A few hundred bytes for each of many tensors, all of which are the same hole of a file.
TEST(HostileWeights, WhatTensorsShareCountsOnce) {
  constexpr uint64_t kFloats = uint64_t{4} << 20;
  constexpr int kOften = 200;
  const tests::TemporaryFolder folder;
  std::vector<std::string> nodes;
  std::vector<std::string> negated;
  std::vector<ExternalTensor> weights;
  for (int i = 0; i < kOften; ++i) {
    weights.push_back({format("w{}", i), {kFloats / 2, 2}, i % 2 == 0 ? "d" : "link", 0});
    negated.push_back(format("n{}", i));
    nodes.push_back(node_message("Neg", {weights.back().name}, negated.back()));
  }
  nodes.push_back(node_message("Sum", negated, "sum"));
  nodes.push_back(node_message("Gather", {"sum", "row"}, "g"));
  nodes.push_back(node_message("Add", {"x", "g"}, "y"));
  weights.push_back({"row", {1}, "d", 0});
  std::ofstream(folder / "m.onnx", std::ios::binary) << model_message(nodes, weights);
  std::ofstream(folder / "d").close();
  std::filesystem::resize_file(folder / "d", kFloats * sizeof(float));
  std::filesystem::create_hard_link(folder / "d", folder / "link");
  const Graph graph = read_graph(folder / "m.onnx");
  EXPECT_EQ(graph.stored_bytes, 0U) << "holes have no bytes";
  const size_t before = tests::allocated_bytes();
  const auto error = error_of([&] { import_graph(graph); });
  EXPECT_LE(tests::allocated_bytes() - before, kMostTaken);
  ASSERT_TRUE(error);
  EXPECT_THAT(error->what(), HasSubstr("it would compute with constants of"));
}

TEST(HostileWeights, BytesOfAFileCountOnce) {
  const tests::TemporaryFolder folder;
  const std::string bytes(1 << 16, 'x');
  std::ofstream(folder / "d", std::ios::binary) << bytes;
  std::filesystem::create_hard_link(folder / "d", folder / "link");
  const std::vector<ExternalTensor> weights{
      {"a", {4096}, "d", 0}, {"b", {4096}, "d", 4}, {"c", {16384}, "link", 0}};
  std::ofstream(folder / "m.onnx", std::ios::binary)
      << model_message({node_message("Neg", {"x"}, "y")}, weights);
  EXPECT_EQ(read_graph(folder / "m.onnx").stored_bytes, bytes.size());
}

// Numbers that nobody has anywhere: as many as are asked for, which are counted.
class Endless : public Contents {
 public:
  // `last`: the number behind all others, which are `begin`, 0, 0, ...
  Endless(int64_t count, float begin, float last) : count_(count), begin_(begin), last_(last) {}

  void read(size_t first, std::span<std::byte> to) const override {
    read_ += to.size();
    std::fill(to.begin(), to.end(), std::byte{0});
    const auto put = [&](size_t at, float number) {
      if (at >= first && at + sizeof(float) <= first + to.size())
        std::memcpy(&to[at - first], &number, sizeof number);
    };
    put(0, begin_);
    put(static_cast<size_t>(count_ - 1) * sizeof(float), last_);
  }
  std::string identity() const override { return "endless"; }
  size_t bytes_read() const { return read_; }

 private:
  const int64_t count_;
  const float begin_;
  const float last_;
  mutable std::atomic<size_t> read_ = 0;
};

// Rows of many tables are picked, and there are as many products. All bytes that were read.
size_t bytes_read_for(int64_t rows, int64_t columns, float begin, float last, int count,
                      std::optional<Error>* refused = nullptr) {
  std::vector<std::shared_ptr<Endless>> all;
  Graph graph = graph_of({1}, {}, {});
  graph.stored_bytes = 0;
  const auto add = [&](const std::string& name, const ops::Shape& shape, float end) {
    all.push_back(std::make_shared<Endless>(shape.elements(), begin, end));
    graph.initializers[name] = {
        name, {ops::DType::kFloat32, shape}, ops::DType::kFloat32, all.back(), {}};
  };
  for (int i = 0; i < count; ++i) {
    add(format("table{}", i), {rows, columns}, last);
    add(format("val_{}", i), {columns, rows}, last + 1);
    graph.nodes.push_back(node_of("Gather", {format("table{}", i), "x"}, format("g{}", i)));
    graph.nodes.push_back(node_of("MatMul", {"x", format("val_{}", i)}, format("m{}", i)));
  }
  Budget budget(stored_bytes(graph));
  std::vector<std::string> notes;
  auto error = error_of([&] { tie_tables(graph, budget, notes); });
  EXPECT_TRUE(notes.empty());
  if (refused != nullptr)
    *refused = std::move(error);
  else
    EXPECT_FALSE(error);
  size_t bytes = 0;
  for (const auto& each : all) bytes += each->bytes_read();
  return bytes;
}

TEST(HostileWeights, ManyTablesOfZerosAreReadOnce) {
  constexpr int kMany = 40;
  constexpr size_t kTable = size_t{512} * 512 * sizeof(float);
  EXPECT_LE(bytes_read_for(512, 512, 0, 0, kMany), kMany * (kTable + 1024));
}

TEST(HostileWeights, ManyTablesThatDifferInTheirLastNumberAreNotComparedForEver) {
  std::optional<Error> refused;
  const size_t bytes = bytes_read_for(512, 512, 1, 0, 200, &refused);
  EXPECT_LE(bytes, size_t{600} << 20);
  ASSERT_TRUE(refused);
  EXPECT_THAT(refused->what(), HasSubstr("many times as large as its files"));
}

TEST(HostileWeights, AWideTableIsComparedInPieces) {
  const size_t before = tests::allocated_bytes();
  // Which is other than its product in the first number.
  std::optional<Error> refused;
  bytes_read_for(4, int64_t{1} << 28, 1, 1, 1, &refused);
  EXPECT_LE(tests::allocated_bytes() - before, kMostTaken);
}

// Each of them might be a mask, which is of zeros and ones.
TEST(HostileWeights, ManyWeightsOfZerosAreNotReadForEver) {
  constexpr int64_t kNumbers = int64_t{1} << 22;
  std::vector<GraphNode> nodes{node_of("MatMul", {"x", "m"}, "h0")};
  std::vector<Stored> weights{stored_random("m", {1, 1})};
  auto zeros = std::make_shared<Endless>(kNumbers, 0, 0);
  for (int i = 0; i < 100; ++i) {
    const std::string name = format("p.w{}", i);
    weights.push_back(
        {name, {ops::DType::kFloat32, {1, kNumbers}}, ops::DType::kFloat32, zeros, {}});
    nodes.push_back(node_of("Add", {format("h{}", i), name}, format("h{}", i + 1)));
  }
  nodes.push_back(node_of("Neg", {"h100"}, "y"));
  Graph graph = graph_of({1}, nodes, weights);
  graph.stored_bytes = 0;
  const auto error = error_of([&] { import_graph(graph); });
  ASSERT_TRUE(error);
  EXPECT_THAT(error->what(), HasSubstr("many times as large as its files"));
  EXPECT_LE(zeros->bytes_read(), size_t{600} << 20);
}

}  // namespace
}  // namespace kerf::partitioner::onnx
