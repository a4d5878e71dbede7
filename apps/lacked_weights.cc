#include "apps/lacked_weights.h"

#include <algorithm>
#include <map>
#include <set>
#include <span>
#include <string_view>

#include "apps/report/few_names.h"
#include "runtime/error.h"
#include "runtime/format.h"
#include "schedmp/training/stored_weights.h"

namespace kerf::apps {
namespace {

using partitioner::Value;
using schedmp::NamedSpec;

constexpr int64_t kFirstNumbers = 16;  // of a tensor, that say which others it may be like

// Of `contents`, from the element `first` on.
std::string elements_of(const partitioner::Contents& contents, ops::DType dtype, int64_t first,
                        int64_t count) {
  const size_t size = ops::size_of(dtype);
  std::string bytes(static_cast<size_t>(count) * size, '\0');
  contents.read(static_cast<size_t>(first) * size, std::as_writable_bytes(std::span(bytes)));
  return bytes;
}

// One number, again and again: many tensors begin so.
bool is_uniform(const Value& value) {
  const ops::DType dtype = value.spec.dtype;
  const int64_t count = value.spec.shape.elements();
  const std::string one = elements_of(*value.contents, dtype, 0, std::min<int64_t>(1, count));
  for (int64_t first = 0; first < count; first += kNumbersAtOnce) {
    const std::string piece =
        elements_of(*value.contents, dtype, first, std::min(kNumbersAtOnce, count - first));
    for (size_t at = 0; at < piece.size(); at += one.size())
      if (piece.compare(at, one.size(), one) != 0) return false;
  }
  return true;
}

}  // namespace

bool has_numbers_of(schedmp::SafetensorsReader& file, const NamedSpec& tensor,
                    const ops::ValueSpec& spec, const partitioner::Contents& contents,
                    int64_t count) {
  const ops::ValueSpec wanted{spec.dtype, tensor.spec.shape};
  for (int64_t first = 0; first < count; first += kNumbersAtOnce) {
    const int64_t some = std::min(kNumbersAtOnce, count - first);
    if (file.read_elements(tensor.name, wanted, first, some) !=
        elements_of(contents, spec.dtype, first, some))
      return false;
  }
  return true;
}

namespace {

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
    std::vector<std::string> notes;
    if (!narrow_.empty()) notes.push_back(note_of_narrow());
    if (!derived_.empty() && folded_.parameters.empty()) notes.push_back(note_of_derived());
    return notes;
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
      const auto why = file_.unreadable().find(wanted.name);
      if (why != file_.unreadable().end())
        throw Error(ErrorCode::kUsage, format("its {}: {}", wanted.name, why->second), weights_);
      if (spec == nullptr)
        missing_.push_back(wanted.name);
      else if (!schedmp::reads_as(*spec, wanted.spec))
        refuse_kind(wanted, *spec);
      else if (spec->dtype != wanted.spec.dtype)
        ++narrow_[spec->dtype];
    }
  }

  [[noreturn]] void refuse_kind(const NamedSpec& wanted, const ops::ValueSpec& spec) const {
    throw Error(ErrorCode::kUsage,
                format("its {} is {} {}, and that of {} {} {}; {}", wanted.name,
                       to_string(spec.dtype), to_string(spec.shape), model_.name(),
                       to_string(wanted.spec.dtype), to_string(wanted.spec.shape),
                       spec.shape == wanted.spec.shape
                           ? format("save it as {}", to_string(wanted.spec.dtype))
                           : "give weights of this model, or export it with these"),
                weights_);
  }

  std::string note_of_narrow() const {
    size_t count = 0;
    std::vector<std::string_view> types;
    for (const auto& [dtype, tensors] : narrow_) {
      count += tensors;
      types.push_back(to_string(dtype));
    }
    return format("{} of {} {} {}, and read as float32", plural(count, "tensor"), weights_,
                  count == 1 ? "is" : "are", fmt::join(types, " or "));
  }

  std::string note_of_derived() const {
    std::vector<std::string> names;
    for (const Value* each : derived_) names.push_back(each->name);
    const bool one = names.size() == 1;
    return format("{} of {} {} not in {}, and {} as {} there", few_of(names), model_.name(),
                  one ? "is" : "are", weights_, one ? "stays" : "stay", one ? "it is" : "they are");
  }

  // Of the program, that what is derived was computed of.
  void look_for_parameters() {
    if (derived_.empty()) return;
    for (const auto& [name, computed] : folded_.computed)
      if (computed.parameter && file_.find(name) == nullptr) missing_.push_back(name);
  }

  // A slice begins where what it is of does, but for those of other places, which stay in doubt.
  bool begins_with(const NamedSpec& tensor, const std::string& first_numbers, const Value& value) {
    const int64_t count = value.spec.shape.elements();
    if (tensor.spec.shape.elements() < count) return false;
    const std::string first =
        elements_of(*value.contents, value.spec.dtype, 0, std::min(kFirstNumbers, count));
    return first_numbers.starts_with(first) &&
           has_numbers_of(file_, tensor, value.spec, *value.contents, count);
  }

  // As a value of this type has them; empty: it cannot be read as one.
  std::string first_numbers_of(const NamedSpec& tensor, ops::DType dtype) {
    const ops::ValueSpec wanted{dtype, tensor.spec.shape};
    if (!schedmp::reads_as(tensor.spec, wanted)) return {};
    return file_.read_elements(tensor.name, wanted, 0,
                               std::min(kFirstNumbers, tensor.spec.shape.elements()));
  }

  std::vector<std::string> names_in_doubt(const std::vector<NamedSpec>& unread) {
    if (unread.empty()) return {};
    std::vector<std::string> first_numbers;
    for (const NamedSpec& tensor : unread)
      first_numbers.push_back(first_numbers_of(tensor, ops::DType::kFloat32));
    std::set<std::string> known;  // of `unread`
    std::vector<std::string> doubtful;
    for (const Value* value : derived_) {
      bool found = false;
      const bool compared = value->spec.dtype == ops::DType::kFloat32 && !is_uniform(*value);
      for (size_t i = 0; compared && i < unread.size(); ++i)
        if (!first_numbers[i].empty() && begins_with(unread[i], first_numbers[i], *value)) {
          known.insert(unread[i].name);
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
  std::vector<const Value*> derived_;    // that the file lacks
  std::map<ops::DType, size_t> narrow_;  // tensors that are read as float32
};

}  // namespace

std::vector<std::string> check_lacked(const partitioner::Model& model,
                                      const partitioner::onnx::FoldedWeights& folded,
                                      const std::vector<NamedSpec>& unread,
                                      const std::string& weights) {
  return Lacked(model, folded, weights).check(unread);
}

}  // namespace kerf::apps
