#include "tests/fuzz/readers.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <optional>
#include <stdexcept>
#include <tuple>

#include "apps/main/host_list.h"
#include "apps/main/node_list.h"
#include "apps/profile_file.h"
#include "apps/report/page.h"
#include "apps/report/run_record.h"
#include "partitioner/given_stages.h"
#include "partitioner/graph_formats.h"
#include "partitioner/onnx/import.h"
#include "partitioner/onnx/read.h"
#include "partitioner/plan.h"
#include "partitioner/zoo.h"
#include "runtime/activity.h"
#include "runtime/channel.h"
#include "runtime/store_messages.h"
#include "runtime/trace.h"
#include "runtime/wire.h"
#include "schedmp/action_costs.h"
#include "schedmp/memory_journal.h"
#include "schedmp/numbering.h"
#include "schedmp/safetensors.h"
#include "schedmp/schedule.h"
#include "schedmp/training/stored_names.h"
#include "tests/fuzz/data_readers.h"
#include "tests/partitioner/sample_models.h"
#include "tests/runtime/wire_sample.h"
#include "tests/support/temporary_folder.h"

namespace kerf::tests {

namespace {

const std::string kOrigin = "the file";
constexpr size_t kLongestRefusal = 4000;  // beside names out of the file

// The bytes as a file, for readers that take a path; the next ones take its place. Beside it lies
// the data that external.onnx has there.
std::filesystem::path as_file(const std::string& bytes) {
  static const TemporaryFolder folder;
  static const bool beside = std::filesystem::copy_file(
      KERF_TESTS "/partitioner/onnx/models/external.bin", folder / "external.bin");
  KERF_CHECK(beside);
  std::filesystem::path path = folder / kOrigin;
  std::filesystem::remove(path);  // to write over it, file systems wait for the disk
  std::ofstream(path, std::ios::binary) << bytes;
  return path;
}

constexpr const char* kCostGraph = R"({"name": "g", "unit": "s", "nodes": [
 {"name": "a", "forward": [1], "backward": [2]}, {"name": "b", "forward": [3], "backward": [4]}],
 "values": [{"producer": 0, "readers": [1], "bytes": 8}]})";

// As it is, for training with a loss, with a new head, with batch normalisations that train; as
// answers with inputs that are whole, as ONNX's own tests have them; for answers.
void read_onnx(const std::string& bytes) {
  using partitioner::onnx::ImportOptions;
  const partitioner::onnx::Graph graph = partitioner::onnx::read_graph(as_file(bytes));
  std::optional<Error> refused;
  bool taken = false;
  for (const ImportOptions& options : {ImportOptions{}, ImportOptions{.whole_inputs = true}}) {
    try {
      import_graph(graph, options);
      taken = true;
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kUsage) throw;
      if (!refused) refused = error;
    }
  }
  if (!taken) throw Error(*refused);
  for (const ImportOptions& options :
       {ImportOptions{.answers = true}, ImportOptions{.loss = "mse"},
        ImportOptions{.train = {"*"}, .freeze = {"*a*"}, .loss = "cross-entropy", .head = 1},
        ImportOptions{.loss = "bce-with-logits", .train_batch_norms = true}}) {
    try {
      import_graph(graph, options);
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kUsage) throw;
    }
  }
}

void read_tensor_message(const std::string& bytes) {
  partitioner::onnx::read_tensor(as_file(bytes));
}

void read_safetensors_file(const std::string& bytes) { schedmp::read_safetensors(as_file(bytes)); }

// What was read is written as a text that is read as the same.
void read_schedule(const std::string& bytes) {
  const schedmp::Schedule schedule = schedmp::parse_schedule(bytes, kOrigin);
  KERF_CHECK(schedmp::parse_schedule(write_schedule(schedule), kOrigin) == schedule);
}

const partitioner::Model& planned_model() {
  static const partitioner::Model model = partitioner::testing::small_mlp();
  return model;
}

// Of the model's values, as the file's map of names says how it has them.
void read_names(const std::string& bytes) {
  const schedmp::SafetensorsReader file(as_file(bytes));
  const schedmp::StoredNames names(file);
  for (const partitioner::ValueId value : planned_model().kept_values())
    names.form_of(planned_model().value(value));
}

// What was read is written as a text that is read as the same.
void read_numbering_text(const std::string& bytes) {
  const schedmp::Numbering numbering = schedmp::read_numbering(bytes, kOrigin);
  KERF_CHECK(schedmp::read_numbering(write_numbering(numbering), kOrigin) == numbering);
}

// Nothing but what is written is taken.
void read_journal_of_memory(const std::string& bytes) {
  KERF_CHECK(write_memory_journal(schedmp::parse_memory_journal(bytes, kOrigin)) == bytes);
}

void read_plan_text(const std::string& bytes) {
  partitioner::read_plan(planned_model(), bytes, kOrigin);
}

// Of a plan, which says what model it is of; the plan's file is named as `kerf train --plan` does.
void read_model_text(const std::string& bytes) {
  try {
    partitioner::make_zoo_model_of(bytes);
  } catch (const Error& error) {
    throw Error(error.code(), error.what(), kOrigin);
  }
}

void read_shares(const std::string& bytes) {
  if (bytes.empty()) throw Error(ErrorCode::kUsage, "it is empty", kOrigin);  // as the command does
  partitioner::PlanRequest request = partitioner::testing::request_of(partitioner::Cut::kFree, 2);
  request.shares = bytes;
  request.shares_origin = kOrigin;
  make_plan(model_for(planned_model(), request), request, *partitioner::hold_everything());
}

// What was read is written as a text that is read as the same.
void read_devices_of_workers(const std::string& bytes) {
  const auto devices = partitioner::read_devices(bytes, kOrigin, std::nullopt);
  KERF_CHECK(partitioner::read_capacities(capacities_json(devices), kOrigin) == devices,
             "it is written otherwise");
}

void read_places_of_nodes(const std::string& bytes) {
  partitioner::Steering steering;
  steering.places = partitioner::read_places(bytes, kOrigin);
  KERF_CHECK(partitioner::read_steering(steering_json(steering), kOrigin) == steering,
             "it is written otherwise");
}

void read_hosts_of_workers(const std::string& bytes) {
  for (const apps::RemoteHost& host : apps::parse_hosts(bytes, kOrigin))
    KERF_CHECK(!host.host.empty() && host.host[0] != '-', "ssh would take it for a flag");
}

// A list has at most so many hosts as a job of the largest clusters, whatever it says.
void read_list_of_nodes(const std::string& bytes) {
  for (const std::string& node : apps::parse_nodes(bytes, kOrigin))
    KERF_CHECK(!node.empty(), "a node without a name");
}

void read_measured_times(const std::string& bytes) {
  const auto profile = apps::read_profile_text(bytes, kOrigin, partitioner::testing::small_mlp());
  KERF_CHECK(partitioner::read_profile(profile_json(profile), kOrigin) == profile,
             "it is written otherwise");
}

void read_placement_graph(const std::string& bytes) { partitioner::read_placement(bytes, kOrigin); }
void read_pipedream_graph(const std::string& bytes) { partitioner::read_pipedream(bytes, kOrigin); }
void read_cost_graph(const std::string& bytes) {
  const std::string text = write_costs(partitioner::read_costs(bytes, kOrigin).graph);
  KERF_CHECK(write_costs(partitioner::read_costs(text, kOrigin).graph) == text,
             "it is written otherwise");
}
void read_stages_of_nodes(const std::string& bytes) {
  const partitioner::CostGraph graph = partitioner::read_costs(kCostGraph, "the cost graph").graph;
  std::ignore = stages_of_names(graph, partitioner::read_stages(bytes, kOrigin));
}

// And told, as `kerf report` does.
void read_record(const std::string& bytes) {
  const apps::RunRecord record = apps::read_run_record(bytes, kOrigin);
  run_text(record, false);
  report_page(record);
}

// Of actions: what is written of them reads back.
void read_action_costs(const std::string& bytes) {
  const schedmp::ActionCosts costs = schedmp::read_costs(bytes, kOrigin);
  const schedmp::ActionCosts again = schedmp::read_costs(write_costs(costs), kOrigin);
  KERF_CHECK(again.stages == costs.stages && again.transfer == costs.transfer &&
             again.bytes == costs.bytes);
}

// What was taken says again what arrived.
template <class T>
bool decodes(const std::string& bytes) {
  try {
    const T value = runtime::decode<T>(bytes);
    KERF_CHECK(runtime::encode(value) == bytes, "the value has other bytes");
    return true;
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kProtocol) throw;
    return false;
  }
}

void read_messages(const std::string& bytes) {
  runtime::FrameFault fault{};
  const std::array taken{runtime::parse_frame(bytes, fault).has_value(),
                         decodes<runtime::Sample>(bytes),
                         decodes<runtime::ActivityReport>(bytes),
                         decodes<runtime::Span>(bytes),
                         decodes<runtime::Wiring>(bytes),
                         decodes<runtime::StoreRequest>(bytes),
                         decodes<runtime::StoreAnswer>(bytes)};
  if (std::ranges::find(taken, true) == taken.end())
    throw Error(ErrorCode::kProtocol, "it is no message", kOrigin);
}

constexpr size_t kMiB = size_t{1} << 20;
// A byte of deflate makes at most 1032, which a picture has as four of eight bits, converted once.
constexpr size_t kInflated = 4 * 8 * 1032;

}  // namespace

const std::vector<Reader>& readers() {
  static const std::vector<Reader> all{
      {"npy", read_npy, 8 * kMiB, kInflated},
      {"npz", read_npz, 8 * kMiB, kInflated},
      {"rows", read_rows, 8 * kMiB, kInflated},
      {"gzip", read_gzip, 8 * kMiB, kInflated},
      {"picture", read_picture, 8 * kMiB, kInflated},
      {"idx", read_idx_file, 8 * kMiB, kInflated},
      {"text", read_bytes_of_text, kMiB, 64},
      {"words", read_words_of_text, kMiB, 64},
      // A million columns are free, and sixteen for each byte, each of two numbers.
      {"matrix", read_matrix_text, 32 * kMiB, 512},
      {"libsvm", read_labelled_rows, 32 * kMiB, 512},
      {"corpus", read_documents_of_words, 64 * kMiB, 1024},
      {"classifier", read_classifier, 16 * kMiB, 256},
      {"csc", read_csc, 8 * kMiB, kInflated},
      {"column", read_dense_array, kMiB, 64},
      // Constants that are computed are the most of it, each bounded.
      {"onnx", read_onnx, 3072 * kMiB, 0},
      {"tensor", read_tensor_message, kMiB, 64},
      {"safetensors", read_safetensors_file, kMiB, 256},
      {"names", read_names, kMiB, 1024},
      {"numbering", read_numbering_text, kMiB, 1024},
      {"journal", read_journal_of_memory, kMiB, 1024},
      {"plan", read_plan_text, 16 * kMiB, 4096},
      // As many layers as there may be, of any model.
      {"model", read_model_text, 1024 * kMiB, 0},
      {"profile", read_measured_times, 16 * kMiB, 1024},
      {"shares", read_shares, 16 * kMiB, 4096},
      {"devices", read_devices_of_workers, kMiB, 1024},
      {"places", read_places_of_nodes, kMiB, 1024},
      {"hosts", read_hosts_of_workers, kMiB, 1024},
      {"nodes", read_list_of_nodes, 16 * kMiB, 1024},
      {"schedule", read_schedule, kMiB, 1024},
      {"placement", read_placement_graph, kMiB, 1024},
      {"pipedream", read_pipedream_graph, kMiB, 1024},
      {"costs", read_cost_graph, kMiB, 1024},
      {"stages", read_stages_of_nodes, kMiB, 1024},
      {"actions", read_action_costs, kMiB, 1024},
      {"record", read_record, kMiB, 1024},
      // An element takes up to 360 bytes in memory for at least 62, a growing vector three times
      // that; of four types.
      {"messages", read_messages, 65536, 128, ErrorCode::kProtocol},
  };
  return all;
}

const Reader& find_reader(const std::string& name) {
  const auto found = std::ranges::find(readers(), name, &Reader::name);
  if (found == readers().end()) throw std::out_of_range("no reader is named " + name);
  return *found;
}

bool takes(const Reader& reader, const std::string& bytes) {
  try {
    reader.read(bytes);
    return true;
  } catch (const Error& error) {
    const std::string what = error.what();
    if (error.code() != reader.refusal) throw std::logic_error("of another kind: " + what);
    if (what.find(kOrigin) == std::string::npos) throw std::logic_error("names no file: " + what);
    if (what.size() > kLongestRefusal + 4 * bytes.size())
      throw std::logic_error("is long: " + what.substr(0, kLongestRefusal));
    return false;
  }
}

}  // namespace kerf::tests
