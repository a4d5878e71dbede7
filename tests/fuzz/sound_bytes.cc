#include <filesystem>
#include <set>
#include <utility>

#include "apps/classifier/linear_model.h"
#include "apps/profile_file.h"
#include "runtime/activity.h"
#include "runtime/channel.h"
#include "runtime/file.h"
#include "runtime/store_messages.h"
#include "runtime/trace.h"
#include "runtime/wire.h"
#include "schedmp/action_costs.h"
#include "schedmp/memory_journal.h"
#include "schedmp/numbering.h"
#include "schedmp/safetensors.h"
#include "schedmp/schedules.h"
#include "tests/apps/csc_members.h"
#include "tests/apps/gzip.h"
#include "tests/fuzz/readers.h"
#include "tests/partitioner/sample_models.h"
#include "tests/runtime/wire_sample.h"
#include "tests/support/sample_run_record.h"
#include "tests/support/temporary_folder.h"

namespace kerf::tests {

namespace {

namespace fs = std::filesystem;
using Sound = std::map<std::string, std::string>;

// Files of the folder that end so.
Sound files(const fs::path& folder, const std::set<std::string>& endings) {
  Sound sound;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder))
    if (endings.contains(entry.path().extension().string()))
      sound.emplace(entry.path().filename().string(), runtime::read_file(entry.path()));
  return sound;
}

// What `write` puts into a file.
template <class Write>
std::string written(const Write& write) {
  const TemporaryFolder folder;
  write(folder / "file");
  return runtime::read_file(folder / "file");
}

std::string gzipped(const std::string& text) {
  return written([&](const fs::path& path) { write_gzip(path, text); });
}

std::string repetitive_text() {
  std::string text;
  for (int i = 0; i < 600; ++i) text += i % 7 == 0 ? "some text" : "aaaaaaaaaa";
  return text;
}

Sound idx() {
  return {{"labels", idx_header(0x00000801, {4}) + std::string("\0\1\2\3", 4)},
          {"images", idx_header(0x00000803, {4, 6, 6}) + std::string(144, 'p')},
          {"gzipped", gzipped(idx_header(0x00000803, {4, 28, 28}) + std::string(3136, 'p'))}};
}

Sound safetensors() {
  return {{"two", written([](const fs::path& path) {
             schedmp::write_safetensors(path,
                                        {{"a", ops::DType::kFloat32, {2, 2}, std::string(16, 'a')},
                                         {"b.c", ops::DType::kInt64, {}, std::string(8, 'b')}},
                                        {{"format", "pt"}});
           })}};
}

Sound names() {
  const std::string map = R"({"fc1.weight": {"tensors": ["w"], "axes": [1, 0]},
      "fc1.bias": {"tensors": ["b", "c"], "rows": [[0, 0, 4], [1, 0, 8], [0, 4, 4]]}})";
  using ops::DType;
  return {{"mlp", written([&](const fs::path& path) {
             schedmp::write_safetensors(path,
                                        {{"w", DType::kFloat32, {20, 16}, std::string(1280, 'w')},
                                         {"b", DType::kFloat32, {8}, std::string(32, 'b')},
                                         {"c", DType::kFloat32, {8}, std::string(32, 'c')}},
                                        {{"names", map}});
           })}};
}

Sound numberings() {
  return {{"words",
           schedmp::write_numbering({"words", {"the", "\n", "caf\xe9", "\xc3\xa9t\xc3\xa9", ""}})},
          {"classes", schedmp::write_numbering({"classes", {"cat", "dog", "\xff"}})}};
}

Sound model_texts() {
  return {{"images", "squeezenet width=0.125 classes=10 image=64"},
          {"sizes", "mlp 20-16-12-10 loss=mse"},
          {"layers", "gpt 2-16-2-8-32"}};
}

// Messages of ONNX: extents, a type, raw data or typed ones, a name.
Sound tensors() {
  return {{"raw", "\x08\x02\x08\x02\x10\x01\x42\x01t\x4a\x10" + std::string(16, 'a')},
          {"empty", std::string("\x08\x00\x10\x01", 4)},
          {"typed", "\x08\x03\x10\x07\x3a\x03\x01\x02\x03"}};
}

const std::string kShares = R"({"kerf_shares": 1, "shares": {
    "fc1": {"0": {"inputs": "0-9,19"}, "1": {"inputs": "10-18"}},
    "relu1": {"0": {"samples": "0,2,4-5"}, "1": {"samples": "1,3,6-7"}},
    "fc3": {"0": {"outputs": "0-3,9", "inputs": "0-11"}, "1": "4-8"},
    "loss": {"0": {"samples": "0-6"}, "1": {"samples": "7"}}}})";

const std::string kDevices = R"({"kerf_devices": 1,
 "workers": {"0": {"speed": 1, "memory": 8589934592}, "1": {"speed": 2.5}, "2": {"speed": 4e-1}},
 "links": [{"between": [0, 2], "bytes_per_second": 1e9, "seconds": 5e-5}, {"between": [1, 0]}]})";

Sound plans() {
  using partitioner::testing::plan_of;
  using partitioner::testing::request_of;
  const partitioner::Model model = partitioner::testing::small_mlp();
  const partitioner::Plan layers = plan_of(model, request_of(partitioner::Cut::kLayer, 3));
  partitioner::PlanRequest free = request_of(partitioner::Cut::kFree, 2);
  free.shares = kShares;
  const partitioner::Plan divided = plan_of(model, free);
  const partitioner::Plan hybrid = plan_of(model, request_of(partitioner::Cut::kHybrid, 3));
  partitioner::PlanRequest steered = request_of(partitioner::Cut::kLayer, 3);
  steered.speed.capacities = partitioner::read_devices(kDevices, "devices.json", 3);
  steered.steering.places = {{"fc1", 1}, {"relu*", 2}};
  steered.steering.together = {{"fc3", "loss"}};
  steered.steering.apart = {{"fc1", "fc2", "fc3"}};
  partitioner::PlanRequest ways = request_of(partitioner::Cut::kFree, 2);
  ways.shares.clear();
  ways.steering.ways = {{"fc*", "feature"}, {"fc2", "batch"}, {"loss", "whole:1"}};
  return {{"layers", write_plan(model, layers)},
          {"steered", write_plan(model, plan_of(model, steered))},
          {"ways", write_plan(model, plan_of(model, ways))},
          {"divided", write_plan(model, divided)},
          {"hybrid_decisions", write_plan(model, hybrid, partitioner::PlanText::kDecisions)},
          {"divided_decisions", write_plan(model, divided, partitioner::PlanText::kDecisions)}};
}

Sound schedules() {
  return {{"gpipe", write_schedule(schedmp::gpipe(partitioner::chain_of({{0}, {1}}), 4))},
          {"one_f_one_b",
           write_schedule(schedmp::one_f_one_b(partitioner::chain_of({{0}, {1, 2}}), 3))}};
}

Sound placements() {
  return {{"small", R"({"maxSizePerFPGA": 100.0, "maxFPGAs": 2, "maxCPUs": 1, "nodes": [
 {"name": "a", "id": 7, "supportedOnFpga": 1, "cpuLatency": 9, "fpgaLatency": 2,
  "isBackwardNode": 0, "colorClass": 1, "size": 10},
 {"name": "b", "id": 8, "supportedOnFpga": true, "cpuLatency": 9, "fpgaLatency": 4.5,
  "isBackwardNode": false, "size": 20},
 {"name": "c", "id": 9, "supportedOnFpga": 1, "cpuLatency": 9, "fpgaLatency": 1,
  "isBackwardNode": 1, "colorClass": 1, "size": 0}],
 "edges": [{"sourceId": 7, "destId": 8, "cost": 0.5, "size": 64},
 {"sourceId": 8, "destId": 9, "cost": 1, "size": 16}]})"}};
}

Sound action_costs() {
  schedmp::ActionCosts costs{{{1, 2, 3}, {0.5, 0.25, 0.125}}, 0.1};
  const std::string small = schedmp::write_costs(costs);
  costs.bytes = {{1024, 0, 64, 4096}, {0, 512, 0, 1e15}};
  return {{"small", small}, {"bytes", schedmp::write_costs(costs)}};
}

Sound cost_graphs() {
  return {{"small", R"({"name": "g", "unit": "ms", "nodes": [
 {"name": "a", "forward": [1, 2], "backward": [2, 3], "colour": 1},
 {"name": "b", "forward": [3, 4], "backward": [4, 5]},
 {"name": "a'", "forward": [0, 0], "backward": [1, 1], "colour": 1, "gradient": true}],
 "values": [{"producer": 0, "readers": [1, 2], "bytes": 16, "forward_bytes": 8, "enter": 0.5,
  "leave": 0.25, "returned_bytes": 8, "returning": 0.25, "returns": [1, 2]}],
 "held": [{"nodes": [0, 1], "fixed": 10, "per_micro_batch": 2}], "close": [[0, 1]]})"}};
}

Sound profiles() {
  return {{"small",
           "node1 -- Input0 -- forward_compute_time=0.000, backward_compute_time=0.000, "
           "activation_size=0.0, parameter_size=0.000\n"
           "node4 -- LSTM(2048, 1024) -- forward_compute_time=3.5, backward_compute_time=5.25, "
           "activation_size=[6291456.0; 131072.0], parameter_size=50364416.000 -- stage_id=2\n"
           "\tnode1 -- node4\n"}};
}

Sound measured_times() {
  const partitioner::Model model = partitioner::testing::small_mlp();
  const partitioner::Plan plan = partitioner::testing::plan_of(
      model, partitioner::testing::request_of(partitioner::Cut::kLayer, 1));
  const std::vector<apps::OperatorTimes> times{{"fc1", {1e-3, 0, 2e-3}, {2e-3, 0, 1e-3}},
                                               {"loss", {1e-5, 1e-5, 0}, {1e-6, 2e-6, 0}}};
  return {{"small", json_text(apps::profile_file(model, plan, "cpu", times))}};
}

Sound records() {
  apps::RunRecord record = sample_run_record();
  record.losses = {0.5, std::nullopt, 0.25};
  apps::TracedStep& traced = record.traced.emplace();
  traced.predicted_seconds = traced.measured_seconds = 0.5;
  traced.workers = {{0, {.fill = 0.25}, {.drain = 0.25}, {{"0F0", true, {0, 0.25, 0.25}, {}}}}};
  return {{"small", write_run_record(record)}};
}

Sound messages() {
  runtime::SampleMaker maker(5);
  Sound sound;
  for (const char* name : {"one", "two", "three"}) sound[name] = runtime::encode(maker.make());
  runtime::Wiring wiring;
  for (int32_t i = 0; i < 4; ++i) {
    wiring.addresses[i] = "tcp://somewhere";
    wiring.transports[i] = static_cast<runtime::TransportKind>(i);
    wiring.send[i].resize(2);
    wiring.receive[i].resize(1);
  }
  sound["wiring"] = runtime::encode(wiring);
  sound["activity"] = runtime::encode(runtime::ActivityReport{"a", "b", "c", 1, 2, 3});
  sound["span"] = runtime::encode(runtime::Span{"a", runtime::Span::Kind::kSend, 2, 5, 9, 100});
  sound["store"] =
      runtime::encode(runtime::StoreRequest{runtime::StoreWord::kWrite, 1, 2, 3, "/a/b", "bytes"});
  sound["stored"] = runtime::encode(runtime::StoreAnswer{1, 2, 3, "bytes", "no", "there"});
  sound["frame"] = runtime::make_frame({1, 2, 3}, "payload");
  return sound;
}

Sound matrix_texts() {
  const std::string head = "%%MatrixMarket matrix ";
  return {{"real", head + "coordinate real general\n% one\n3 2 3\n1 1 0.5\n3 1 -2e3\n2 2 1\n"},
          {"mirrored", head + "coordinate integer symmetric\n3 3 3\n3 1 2\n1 1 5\n2 1 7\n"},
          {"pattern", head + "coordinate pattern general\n4 1 2\n4 1\n1 1\n"},
          {"array", head + "array real skew-symmetric\n3 3\n1\n2\n\n-3.25\n"}};
}

Sound classifiers() {
  const auto text = [](apps::LinearLoss loss, double bias, std::vector<double> weights) {
    const apps::LinearModel model{loss, {-1, 1}, 0.5, bias, 3, std::move(weights)};
    return written([&](const fs::path& path) { apps::write_linear_model(path, model); });
  };
  return {{"logistic", text(apps::LinearLoss::kLogistic, 2, {0, 0.5, 0, -1e-3})},
          {"svm", text(apps::LinearLoss::kSquaredHinge, 0, {1, 0, -0.25})}};
}

Sound csc_archives() {
  const apps::SparseColumns matrix{3, 2, {0, 2, 3}, {0, 2, 1}, {1, -2, 3}};
  return {{"narrow", stored_zip(csc_members(matrix, false))},
          {"wide", stored_zip(csc_members(matrix, true))}};
}

}  // namespace

std::map<std::string, std::string> sound_bytes(const std::string& reader) {
  const fs::path tests = KERF_TESTS;
  const fs::path data = tests / "apps" / "files";
  if (reader == "npy") return files(data, {".npy"});
  if (reader == "npz" || reader == "rows") return files(data, {".npz"});
  if (reader == "picture") return files(data, {".png", ".jpg"});
  if (reader == "gzip")
    return {{"text", gzipped(repetitive_text())},
            {"members", gzipped("some text") + gzipped(repetitive_text())}};
  if (reader == "idx") return idx();
  if (reader == "text") return {{"letters", "twenty-five letters or so"}};
  if (reader == "words") return {{"lines", "the cat sat\non the mat"}};
  if (reader == "matrix") return matrix_texts();
  if (reader == "libsvm") return {{"rows", "+1 1:0.5 7:-2 # one\n-1\n0.5 2:1e-3 3:4\n"}};
  if (reader == "corpus") return {{"documents", "0:2 17:1 3:1\n\n4:12 0:1\n"}};
  if (reader == "classifier") return classifiers();
  if (reader == "csc") return csc_archives();
  if (reader == "column")
    return {{"wide", npy_bytes_of(ops::DType::kFloat64, {3}, std::vector<double>{1, -2, 3})},
            {"narrow", npy_bytes_of(ops::DType::kFloat32, {2, 1}, std::vector<float>{1, 2})}};
  if (reader == "onnx") return files(tests / "partitioner" / "onnx" / "models", {".onnx"});
  if (reader == "tensor") return tensors();
  if (reader == "safetensors") return safetensors();
  if (reader == "names") return names();
  if (reader == "numbering") return numberings();
  if (reader == "plan") return plans();
  if (reader == "model") return model_texts();
  if (reader == "profile") return measured_times();
  if (reader == "shares") return {{"divided", kShares}};
  if (reader == "devices") return {{"three", kDevices}};
  if (reader == "places")
    return {{"two", "# who has what\nencoder*  0\n\ndecoder* 1  # the rest\n"}};
  if (reader == "hosts")
    return {{"three", "# mine\nnode1\nada@node2 device=cuda:0 kerf=/k\nnode2 keys=a  # again\n"}};
  if (reader == "nodes") return {{"ranges", "n[0-2,05,007-009],login,gpu[1-2]-a[3,4]"}};
  if (reader == "journal")
    return {{"one", schedmp::write_memory_journal({"/dev/shm/kerf-kept-0123456789abcdef", "b"})}};
  if (reader == "schedule") return schedules();
  if (reader == "placement") return placements();
  if (reader == "pipedream") return profiles();
  if (reader == "costs") return cost_graphs();
  if (reader == "stages")
    return {{"map", R"({"a": 0, "b": 1})"},
            {"plan", R"({"gap": 0, "assignment": {"a": 1, "b": 0}})"}};
  if (reader == "actions") return action_costs();
  if (reader == "record") return records();
  if (reader == "messages") return messages();
  return {};
}

}  // namespace kerf::tests
