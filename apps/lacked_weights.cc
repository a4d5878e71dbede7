#include "apps/lacked_weights.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <span>

#include "apps/few_names.h"
#include "runtime/error.h"
#include "runtime/format.h"
#include "schedmp/training/stored_weights.h"

namespace kerf::apps {
namespace {

using partitioner::Value;
using schedmp::NamedSpec;

std::string contents_of(const Value& value) {
  std::string bytes(value.spec.bytes(0), '\0');
  value.contents->read(0, std::as_writable_bytes(std::span(bytes)));
  return bytes;
}

// One number, again and again: many tensors begin so.
bool is_uniform(const std::string& bytes, size_t number) {
  return bytes.size() <= number ||
         std::memcmp(bytes.data(), bytes.data() + number, bytes.size() - number) == 0;
}

class Lacked {
 public:
  Lacked(const partitioner::Model& model, const partitioner::onnx::FoldedWeights& folded,
         const std::string& weights)
      : model_(model), folded_(folded), weights_(weights), file_(weights), stored_(weights) {}

  std::vector<std::string> check(const std::vector<NamedSpec>& unread) {
    for (const partitioner::ValueId id : model_.kept_values())
      if (model_.value(id).literal == nullptr) look_for(model_.value(id));
    look_for_parameters();
    const std::vector<std::string> doubtful = names_in_doubt(unread);
    missing_.insert(missing_.end(), doubtful.begin(), doubtful.end());
    if (!missing_.empty()) refuse();
    if (derived_.empty() || !folded_.parameters.empty()) return {};
    std::vector<std::string> names;
    for (const Value* each : derived_) names.push_back(each->name);
    const bool one = names.size() == 1;
    return {format("{} of {} {} not in {}, and {} as {} there", few_of(names), model_.name(),
                   one ? "is" : "are", weights_, one ? "stays" : "stay",
                   one ? "it is" : "they are")};
  }

 private:
  void look_for(const Value& value) {
    ++all_;
    if (value.derived && !stored_.has(value)) {
      derived_.push_back(&value);
      return;
    }
    for (const NamedSpec& wanted : stored_.tensors_of(value)) {
      const ops::ValueSpec* spec = file_.find(wanted.name);
      if (spec == nullptr)
        missing_.push_back(wanted.name);
      else if (!(*spec == wanted.spec))
        throw Error(
            ErrorCode::kUsage,
            format("its {} is {} {}, and that of {} {} {}; give weights of this model, or "
                   "export it with these",
                   wanted.name, to_string(spec->dtype), to_string(spec->shape), model_.name(),
                   to_string(wanted.spec.dtype), to_string(wanted.spec.shape)),
            weights_);
    }
  }

  // Of the program, that what is derived was computed of.
  void look_for_parameters() {
    if (derived_.empty()) return;
    for (const auto& [name, computed] : folded_.computed)
      if (computed.parameter && file_.find(name) == nullptr) missing_.push_back(name);
  }

  // A slice begins where what it is of does, but for those of other places, which stay in doubt.
  bool begins_with(const NamedSpec& tensor, const Value& value, const std::string& numbers) {
    const int64_t count = value.spec.shape.elements();
    return tensor.spec.dtype == value.spec.dtype && tensor.spec.shape.elements() >= count &&
           file_.read_elements(tensor.name, tensor.spec, 0, count) == numbers;
  }

  std::vector<std::string> names_in_doubt(const std::vector<NamedSpec>& unread) {
    if (unread.empty()) return {};
    std::set<std::string> known;  // of `unread`
    std::vector<std::string> doubtful;
    for (const Value* value : derived_) {
      const std::string numbers = contents_of(*value);
      bool found = false;
      if (!is_uniform(numbers, ops::size_of(value->spec.dtype)))
        for (const NamedSpec& tensor : unread)
          if (begins_with(tensor, *value, numbers)) {
            known.insert(tensor.name);
            found = true;
          }
      if (!found) doubtful.push_back(value->name);
    }
    return known.size() == unread.size() ? std::vector<std::string>() : doubtful;
  }

  [[noreturn]] void refuse() const {
    throw Error(ErrorCode::kUsage,
                format("it lacks {} of the {} tensors of {}: {}; give weights of this model, "
                       "as it is: an exporter may have changed names, or folded batch "
                       "normalisations into convolutions",
                       missing_.size(), all_, model_.name(), few_of(missing_)),
                weights_);
  }

  const partitioner::Model& model_;
  const partitioner::onnx::FoldedWeights& folded_;
  const std::string weights_;
  schedmp::SafetensorsReader file_;
  schedmp::StoredWeights stored_;
  size_t all_ = 0;
  std::vector<std::string> missing_;
  std::vector<const Value*> derived_;  // that the file lacks
};

}  // namespace

std::vector<std::string> check_lacked(const partitioner::Model& model,
                                      const partitioner::onnx::FoldedWeights& folded,
                                      const std::vector<NamedSpec>& unread,
                                      const std::string& weights) {
  return Lacked(model, folded, weights).check(unread);
}

}  // namespace kerf::apps
