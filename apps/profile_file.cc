#include "apps/profile_file.h"

#include <algorithm>
#include <functional>
#include <set>
#include <string_view>
#include <vector>

#include "partitioner/plan_members.h"
#include "runtime/error.h"
#include "runtime/file.h"
#include "runtime/fingerprint.h"
#include "runtime/format.h"

namespace kerf::apps {

namespace {

constexpr int kProfileVersion = 1;
constexpr size_t kMostProfile = size_t{64} << 20;

// Of the operators that answer, none of which reads a label: a profile is of a model with a loss as
// well as without.
std::string fingerprint_of_operators(const partitioner::Model& model) {
  runtime::Fingerprint hash;
  std::vector<bool> of_loss(static_cast<size_t>(model.values()));  // value
  for (partitioner::NodeId id = 0; id < model.nodes(); ++id) {
    const partitioner::Node& node = model.node(id);
    const bool is_loss =
        std::any_of(node.inputs.begin(), node.inputs.end(), [&](partitioner::ValueId input) {
          return input >= 0 && (of_loss[static_cast<size_t>(input)] ||
                                model.value(input).role == ops::Role::kLabel);
        });
    if (!is_loss) hash.add(format("node {} {}", node.name, node.op));
    for (const partitioner::ValueId output : node.outputs) {
      of_loss[static_cast<size_t>(output)] = is_loss;
      if (!is_loss) hash.add(ops::to_string(model.value(output).spec.shape));
    }
  }
  return hash.hex();
}

Json seconds_json(const OperatorSeconds& seconds) {
  return {{"forward", seconds.forward},
          {"input_gradient", seconds.input_gradient},
          {"weight_gradient", seconds.weight_gradient}};
}

}  // namespace

Json profile_file(const partitioner::Model& model, const partitioner::Plan& plan,
                  const std::string& device, std::span<const OperatorTimes> times) {
  Json seconds = Json::object();
  for (const OperatorTimes& each : times)
    seconds[each.name] = {{"measured", seconds_json(each.measured)},
                          {"predicted", seconds_json(each.predicted)}};
  return {{"kerf_profile", kProfileVersion},
          {"model", model.name()},
          {"fingerprint", fingerprint_of_operators(model.as_read())},
          {"device", device},
          {"rows", plan.largest_micro_batch()},
          {"micro_batches", plan.micro_batches},
          {"profile", partitioner::profile_json(profile_of(times))},
          {"seconds", std::move(seconds)}};
}

namespace {

// What a rewrite makes of an operator has its name, a point and more. A model without its loss does
// not know the names of that.
void check_names(const partitioner::Profile& profile, const partitioner::Model& model,
                 const std::string& origin) {
  if (model.loss() < 0) return;
  std::set<std::string, std::less<>> names;
  for (partitioner::NodeId node = 0; node < model.nodes(); ++node)
    names.insert(model.node(node).name);
  const auto is_known = [&](std::string_view name) {
    while (!names.contains(name)) {
      const size_t point = name.rfind('.');
      if (point == std::string_view::npos) return false;
      name = name.substr(0, point);
    }
    return true;
  };
  for (const auto& [name, factors] : profile.operators)
    if (!is_known(name))
      throw Error(ErrorCode::kUsage,
                  format("profile.operators: {} has no operator \"{}\"", model.name(), name),
                  origin);
}

}  // namespace

partitioner::Profile read_profile_text(const std::string& text, const std::string& origin,
                                       const partitioner::Model& model) {
  const Json json = parse_json(text, origin);
  partitioner::check_members(json,
                             {"kerf_profile", "model", "fingerprint", "device", "rows",
                              "micro_batches", "profile", "seconds"},
                             origin);
  if (const int64_t version = json_int(json, "kerf_profile", origin); version != kProfileVersion)
    throw Error(ErrorCode::kUsage,
                format("this Kerf reads profiles of version {}, not {}", kProfileVersion, version),
                origin);
  const std::string name = json_string(json, "model", origin);
  const std::string fingerprint = json_string(json, "fingerprint", origin);
  const std::string own = fingerprint_of_operators(model.as_read());
  // Files of earlier versions have that of the whole model.
  if (fingerprint != own && fingerprint != model.as_read().fingerprint())
    throw Error(ErrorCode::kUsage,
                format("this profile is of another model: {} with fingerprint {}, not {} with {}; "
                       "make one with kerf profile",
                       name, fingerprint, model.name(), own),
                origin);
  for (const char* const count : {"rows", "micro_batches"})
    if (const int64_t told = json.contains(count) ? json_int(json, count, origin) : 1; told < 1)
      throw Error(ErrorCode::kUsage, format("\"{}\" is {}, which is less than 1", count, told),
                  origin);
  auto profile = partitioner::read_profile(json_at(json, "profile", origin), origin + ": profile");
  check_names(profile, model.as_read(), origin);
  return profile;
}

partitioner::Profile read_profile_file(const std::string& file_or_folder,
                                       const partitioner::Model& model) {
  std::error_code absent;
  const std::string file = std::filesystem::is_directory(file_or_folder, absent)
                               ? (std::filesystem::path(file_or_folder) / kProfileFile).string()
                               : file_or_folder;
  return read_profile_text(runtime::read_file(file, kMostProfile), file, model);
}

}  // namespace kerf::apps
