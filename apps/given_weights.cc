#include "apps/given_weights.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "apps/lacked_weights.h"
#include "apps/report/few_names.h"
#include "runtime/error.h"
#include "runtime/fingerprint.h"
#include "runtime/format.h"
#include "schedmp/safetensors.h"
#include "schedmp/training/stored_names.h"
#include "schedmp/training/stored_weights.h"

namespace kerf::apps {
namespace {

constexpr std::string_view kStatistics = ".running_var";

class GivenWeights {
 public:
  GivenWeights(const partitioner::Model& model, const partitioner::onnx::FoldedWeights& folded,
               const std::string& weights)
      : model_(model), folded_(folded), where_(weights), file_(weights) {
    const schedmp::StoredNames names(file_);
    for (const partitioner::ValueId id : model.kept_values()) {
      const partitioner::Value& value = model.value(id);
      if (value.literal != nullptr) continue;  // which no file of weights has
      for (const schedmp::NamedSpec& each : schedmp::stored_tensors(value)) read_.insert(each.name);
      if (const auto form = names.form_of(value))
        for (const auto& each : form->tensors) read_.insert(each.name);
    }
    of_its_run_ = is_of_its_run();
  }

  // What to tell of it.
  std::vector<std::string> check() {
    for (const schedmp::NamedSpec& tensor : file_.tensors()) check_as_the_model(tensor);
    for (const auto& [name, why] : file_.unreadable()) check_is_not_needed(name, why);
    if (of_its_run_) return {};
    for (const schedmp::NamedSpec& tensor : file_.tensors()) check_nothing_is_left(tensor);
    for (const schedmp::NamedSpec& tensor : file_.tensors())
      if (ops::is_floating(tensor.spec.dtype) && !read_.contains(tensor.name) &&
          !folded_.weights.contains(tensor.name) && !folded_.computed.contains(tensor.name))
        unread_.push_back(tensor);
    group_shared();
    for (const schedmp::NamedSpec& tensor : unread_) check_is_nothing(tensor);
    std::vector<std::string> notes;
    if (!unread_.empty() || !file_.unreadable().empty()) notes.push_back(note_of_unread());
    if (!buffers_.empty()) notes.push_back(note_of_buffers());
    return notes;
  }

  // What may be a weight of the program that the model has in another form: nothing that was
  // checked.
  std::vector<schedmp::NamedSpec> unread() const {
    std::vector<schedmp::NamedSpec> found;
    std::copy_if(unread_.begin(), unread_.end(), std::back_inserter(found), [&](const auto& each) {
      return folded_.parameters.empty() || folded_.parameters.contains(each.name);
    });
    return found;
  }

 private:
  using Spec = std::pair<ops::DType, std::vector<int64_t>>;

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
                           : "in its constants, which no file of weights changes"));
  }

  // What a check would need, but cannot read.
  void check_is_not_needed(const std::string& name, const std::string& why) const {
    const auto computed = folded_.computed.find(name);
    if (folded_.weights.contains(name) ||
        (computed != folded_.computed.end() && computed->second.parameter))
      throw Error(ErrorCode::kUsage, format("its {}: {}", name, why), where_);
  }

  bool is_as_before(const schedmp::NamedSpec& tensor, const ops::ValueSpec& spec,
                    const partitioner::Contents& contents) {
    return schedmp::reads_as(tensor.spec, spec) &&
           has_numbers_of(file_, tensor, spec, contents, spec.shape.elements());
  }

  // Of the numbers that it had when the model was written. A buffer that the file has no more may
  // be cut to what is read of it, by the same program: nobody trains it.
  void check_nothing_is_left(const schedmp::NamedSpec& tensor) {
    const auto found = folded_.computed.find(tensor.name);
    if (found == folded_.computed.end()) return;
    const auto& [made, before, parameter] = found->second;
    if (before.contents != nullptr && is_as_before(tensor, before.spec, *before.contents)) return;
    if (before.contents != nullptr)
      refuse(format("its {} is not that of {}, which has {} that was computed of it", tensor.name,
                    model_.name(), made));
    if (parameter)
      refuse(
          format("its {} cannot be compared with that of {}, which has only {} that was "
                 "computed of it",
                 tensor.name, model_.name(), made));
    buffers_.push_back(tensor.name);
  }

  // That the model has it under no other name, or as a part of something else.
  void check_is_nothing(const schedmp::NamedSpec& tensor) {
    const std::string& name = tensor.name;
    if (folded_.lost.contains(name))
      refuse(format("its {} is nothing that {} has by itself any more", name, model_.name()));
    if (name.ends_with(kStatistics) && may_be_folded(tensor))
      refuse(
          format("its batch normalisation {} is nothing that {} has: it is folded into what was "
                 "before it there",
                 name.substr(0, name.size() - kStatistics.size()), model_.name()));
    const auto group = shared_.find(spec_of(tensor));
    if (group == shared_.end() || others_.contains(owner_of(name))) return;
    if (group->second.contains(digest_of(tensor))) return;
    const std::string& shared = group->second.begin()->second;
    refuse(
        format("{} and {} differ there, but {} has no {}, and one {} in several places: "
               "they may have been equal when it was written",
               shared, name, model_.name(), name, shared));
  }

  // Whether a weight of the module that the normalisation is in makes as many channels as it has:
  // one that it may have been folded into.
  bool may_be_folded(const schedmp::NamedSpec& variance) const {
    if (variance.spec.shape.rank() != 1) return false;
    if (!folded_.parameters.empty() && !folded_.buffers.contains(variance.name)) return false;
    const std::string around = owner_of(owner_of(variance.name));
    return std::any_of(file_.tensors().begin(), file_.tensors().end(), [&](const auto& each) {
      const ops::Shape& shape = each.spec.shape;
      return shape.rank() > 1 && read_.contains(each.name) &&
             (around.empty() || each.name.starts_with(around + ".")) &&
             (shape[0] == variance.spec.shape[0] || shape[1] == variance.spec.shape[0]);
    });
  }

  // Those that were equal when the model was written are now one of each group, or more; a module
  // of which something else is unread is nothing of the model's.
  void group_shared() {
    for (const schedmp::NamedSpec& each : file_.tensors())
      if (folded_.shared.contains(each.name))
        shared_[spec_of(each)].emplace(digest_of(each), each.name);
    if (shared_.empty()) return;
    for (const schedmp::NamedSpec& each : unread_)
      if (!shared_.contains(spec_of(each))) others_.insert(owner_of(each.name));
  }

  static Spec spec_of(const schedmp::NamedSpec& tensor) {
    return {tensor.spec.dtype, {tensor.spec.shape.begin(), tensor.spec.shape.end()}};
  }

  std::string digest_of(const schedmp::NamedSpec& tensor) {
    runtime::Fingerprint digest;
    const int64_t count = tensor.spec.shape.elements();
    for (int64_t first = 0; first < count; first += kNumbersAtOnce)
      digest.add(file_.read_elements(tensor.name, tensor.spec, first,
                                     std::min(kNumbersAtOnce, count - first)));
    return digest.hex();
  }

  // "a.b" of "a.b.weight"; empty of the outermost.
  static std::string owner_of(const std::string& name) {
    const size_t dot = name.rfind('.');
    return dot == std::string::npos ? "" : name.substr(0, dot);
  }

  // What an exporter lost the name of stays as the model's file has it, whatever is in the file of
  // weights.
  std::string note_of_unread() const {
    std::vector<std::string> names;
    for (const schedmp::NamedSpec& each : unread_) names.push_back(each.name);
    for (const auto& [name, why] : file_.unreadable()) names.push_back(name);
    const bool one = names.size() == 1;
    return format("{} of {} {} nothing that {} has by {}, and {} not read", few_of(names), where_,
                  one ? "is" : "are", model_.name(), one ? "that name" : "those names",
                  one ? "is" : "are");
  }
  std::string note_of_buffers() const {
    return format(
        "{} of {} {}, of which {} has only what was computed when it was written, and "
        "that stays",
        few_of(buffers_), where_, buffers_.size() == 1 ? "is a buffer" : "are buffers",
        model_.name());
  }

  const partitioner::Model& model_;
  const partitioner::onnx::FoldedWeights& folded_;
  const std::string where_;
  schedmp::SafetensorsReader file_;
  std::set<std::string> read_;  // names of the model's weights in files
  bool of_its_run_ = false;
  std::vector<schedmp::NamedSpec> unread_;  // that no check knows
  std::vector<std::string> buffers_;        // computed, as the program had them
  // By what it is of, and by its contents: one of the tensors that are read in several places.
  std::map<Spec, std::map<std::string, std::string>> shared_;
  std::set<std::string> others_;  // modules
};

}  // namespace

std::vector<std::string> check_weights(const partitioner::Model& model, const std::string& source,
                                       const partitioner::onnx::FoldedWeights& folded,
                                       const std::string& weights) {
  if (weights.empty()) return {};
  if (!source.starts_with('{')) return check_lacked(model, folded, {}, weights);
  GivenWeights given(model, folded, weights);
  std::vector<std::string> notes = given.check();  // first, for it says why
  for (std::string& note : check_lacked(model, folded, given.unread(), weights))
    notes.push_back(std::move(note));
  return notes;
}

}  // namespace kerf::apps
