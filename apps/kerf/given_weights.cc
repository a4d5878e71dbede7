#include "apps/kerf/given_weights.h"

#include <algorithm>
#include <set>
#include <span>
#include <string_view>
#include <vector>

#include "apps/models.h"
#include "runtime/error.h"
#include "runtime/format.h"
#include "schedmp/safetensors.h"
#include "schedmp/training/stored_names.h"
#include "schedmp/training/stored_weights.h"

namespace kerf::apps {
namespace {

constexpr std::string_view kStatistics = ".running_var";
constexpr size_t kFewNames = 4;

// The first of them, and how many others there are.
std::string few_of(const std::vector<std::string>& names) {
  const size_t told = std::min(kFewNames, names.size());
  const std::string first = fmt::format("{}", fmt::join(names.begin(), names.begin() + told, ", "));
  return told == names.size() ? first : format("{} and {} others", first, names.size() - told);
}

class GivenWeights {
 public:
  GivenWeights(const partitioner::Model& model, const partitioner::onnx::FoldedWeights& folded,
               const std::string& weights)
      : model_(model), folded_(folded), where_(weights), file_(weights) {
    const schedmp::StoredNames names(file_);
    for (const partitioner::ValueId id : model.kept_values()) {
      const partitioner::Value& value = model.value(id);
      for (const schedmp::NamedSpec& each : schedmp::stored_tensors(value)) read_.insert(each.name);
      if (const auto form = names.form_of(value))
        for (const auto& each : form->tensors) read_.insert(each.name);
    }
    of_its_run_ = is_of_its_run();
  }

  void check() {
    for (const schedmp::NamedSpec& tensor : file_.tensors()) check_as_the_model(tensor);
    if (of_its_run_) return;
    for (const schedmp::NamedSpec& tensor : file_.tensors()) check_nothing_is_left(tensor);
    for (const schedmp::NamedSpec& tensor : file_.tensors())
      if (ops::is_floating(tensor.spec.dtype) && !read_.contains(tensor.name) &&
          !folded_.weights.contains(tensor.name))
        unread_.push_back(tensor);
    for (const schedmp::NamedSpec& tensor : unread_) check_is_nothing(tensor);
    tell_unread();
  }

 private:
  [[noreturn]] void refuse(const std::string& why) const {
    throw Error(ErrorCode::kUsage, why + ": export the model with these weights", where_);
  }

  // What a run of the model wrote has the names that the model has, whatever these are of. Another
  // loss or other images make another model, which reads the same.
  bool is_of_its_run() const {
    const auto of = file_.metadata().find(schedmp::kFingerprintKey);
    if (of == file_.metadata().end()) return false;
    return of->second == model_.fingerprint() ||
           std::all_of(file_.tensors().begin(), file_.tensors().end(),
                       [&](const auto& each) { return read_.contains(each.name); });
  }

  // What no weight of the model is has to be what it was when the model was written.
  void check_as_the_model(const schedmp::NamedSpec& tensor) {
    const auto found = folded_.weights.find(tensor.name);
    if (found == folded_.weights.end()) return;
    const auto& [spec, contents, doubtful] = found->second;
    if (doubtful && of_its_run_) return;
    if (is_as_before(tensor, spec, *contents)) return;
    refuse(format("its {} is not that of {}, which has it {}", tensor.name, model_.name(),
                  doubtful ? "put together with others"
                           : "in constants that are computed when the file is read"));
  }

  bool is_as_before(const schedmp::NamedSpec& tensor, const ops::ValueSpec& spec,
                    const partitioner::Contents& contents) {
    std::string bytes(spec.bytes(0), '\0');
    contents.read(0, std::as_writable_bytes(std::span(bytes)));
    return tensor.spec == spec && file_.read(tensor.name, spec) == bytes;
  }

  // Of the numbers that it had when the model was written.
  void check_nothing_is_left(const schedmp::NamedSpec& tensor) {
    const auto computed = folded_.computed.find(tensor.name);
    if (computed == folded_.computed.end()) return;
    const auto& [made, before] = computed->second;
    if (before.contents == nullptr || !is_as_before(tensor, before.spec, *before.contents))
      refuse(format("its {} is not that of {}, which has {} that was computed of it", tensor.name,
                    model_.name(), made));
  }

  // That the model has it under no other name, or as a part of something else.
  void check_is_nothing(const schedmp::NamedSpec& tensor) {
    const std::string& name = tensor.name;
    if (folded_.lost.contains(name))
      refuse(format("its {} is nothing that {} has by itself any more", name, model_.name()));
    if (name.ends_with(kStatistics) && has_read_beside(name))
      refuse(
          format("its batch normalisation {} is nothing that {} has: it is folded into what was "
                 "before it there",
                 name.substr(0, name.size() - kStatistics.size()), model_.name()));
    for (const std::string& shared : folded_.shared)
      if (is_another(tensor, shared))
        refuse(
            format("{} and {} differ there, but {} has no {}, and one {} in several places: "
                   "they may have been equal when it was written",
                   shared, name, model_.name(), name, shared));
  }

  // Whether some of the module that the normalisation is in are weights of the model.
  bool has_read_beside(const std::string& name) const {
    const std::string own = name.substr(0, name.size() - kStatistics.size());
    const size_t dot = own.rfind('.');
    const std::string around = dot == std::string::npos ? "" : own.substr(0, dot + 1);
    return std::any_of(file_.tensors().begin(), file_.tensors().end(), [&](const auto& each) {
      return each.name.starts_with(around) && read_.contains(each.name);
    });
  }

  bool is_another(const schedmp::NamedSpec& tensor, const std::string& shared) {
    const auto found =
        std::find_if(file_.tensors().begin(), file_.tensors().end(),
                     [&](const schedmp::NamedSpec& each) { return each.name == shared; });
    return found != file_.tensors().end() && found->spec == tensor.spec &&
           file_.read(shared, found->spec) != file_.read(tensor.name, tensor.spec);
  }

  // What an exporter lost the name of stays as the model's file has it, whatever is in the file of
  // weights.
  void tell_unread() const {
    std::vector<std::string> names;
    for (const schedmp::NamedSpec& each : unread_) names.push_back(each.name);
    if (names.empty()) return;
    const bool one = names.size() == 1;
    tell_notes({format("{} of {} {} nothing that {} has by {}, and {} not read", few_of(names),
                       where_, one ? "is" : "are", model_.name(), one ? "that name" : "those names",
                       one ? "is" : "are")});
  }

  const partitioner::Model& model_;
  const partitioner::onnx::FoldedWeights& folded_;
  const std::string where_;
  schedmp::SafetensorsReader file_;
  std::set<std::string> read_;  // names of the model's weights in files
  bool of_its_run_ = false;
  std::vector<schedmp::NamedSpec> unread_;
};

}  // namespace

void check_complete(const partitioner::Model& model, const std::string& weights) {
  const schedmp::SafetensorsReader file(weights);
  const schedmp::StoredNames names(file);
  std::vector<std::string> missing;
  size_t all = 0;
  for (const partitioner::ValueId id : model.kept_values()) {
    const partitioner::Value& value = model.value(id);
    if (value.literal != nullptr) continue;
    ++all;
    const std::string& name = value.stored ? value.stored->tensors[0].name : value.name;
    if (file.find(name) == nullptr && !names.form_of(value)) missing.push_back(name);
  }
  if (missing.empty()) return;
  throw Error(ErrorCode::kUsage,
              format("it lacks {} of the {} tensors of {}: {}; give weights of this model, "
                     "as it is: an exporter may have changed names, or folded batch "
                     "normalisations into convolutions",
                     missing.size(), all, model.name(), few_of(missing)),
              weights);
}

void check_weights(const partitioner::Model& model, const std::string& source,
                   const partitioner::onnx::FoldedWeights& folded, const std::string& weights) {
  if (weights.empty()) return;
  // First, for it says why.
  if (source.starts_with('{')) GivenWeights(model, folded, weights).check();
  check_complete(model, weights);
}

}  // namespace kerf::apps
