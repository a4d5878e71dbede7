#include "schedmp/training/stored_names.h"

#include <algorithm>
#include <numeric>

#include "runtime/error.h"

namespace kerf::schedmp {

using partitioner::StoredForm;
using partitioner::StoredRows;
using partitioner::Value;

namespace {

Json json_of_form(const StoredForm& form) {
  Json json{{"tensors", Json::array()}};
  for (const auto& tensor : form.tensors) json["tensors"].push_back(tensor.name);
  if (!form.axes.empty()) {
    json["axes"] = form.axes;
    return json;
  }
  json["rows"] = Json::array();
  for (const StoredRows& rows : form.rows)
    json["rows"].push_back({rows.tensor, rows.first, rows.count});
  return json;
}

[[noreturn]] void refuse_form(const std::string& why, const std::string& where) {
  throw Error(ErrorCode::kUsage, why, where);
}

std::vector<int64_t> integers_in(const Json& list, const std::string& where) {
  std::vector<int64_t> integers;
  if (!list.is_array()) refuse_form("it has no lists of integers", where);
  for (const Json& one : list) {
    if (!one.is_number_integer()) refuse_form("it has no lists of integers", where);
    integers.push_back(one.get<int64_t>());
  }
  return integers;
}

void read_axes(const Json& list, const ops::Shape& shape, const std::string& where,
               StoredForm& form) {
  const std::vector<int64_t> axes = integers_in(list, where);
  std::vector<int64_t> sorted = axes;
  std::sort(sorted.begin(), sorted.end());
  std::vector<int64_t> all(static_cast<size_t>(shape.rank()));
  std::iota(all.begin(), all.end(), 0);
  if (form.tensors.size() != 1 || sorted != all)
    refuse_form(format("its axes are not those of {}, each once", to_string(shape)), where);
  form.axes.assign(axes.begin(), axes.end());
  if (!(partitioner::stored_turned("", shape, form.axes).tensors[0].shape == form.tensors[0].shape))
    refuse_form(format("{} {} is not {} turned over", form.tensors[0].name,
                       to_string(form.tensors[0].shape), to_string(shape)),
                where);
}

// Rows of the tensors, all of as many columns, each of them once.
void read_form_rows(const Json& list, const ops::Shape& shape, const std::string& where,
                    StoredForm& form) {
  std::vector<std::vector<StoredRows>> of(form.tensors.size());
  int64_t count = 0;
  for (const Json& one : list) {
    const std::vector<int64_t> rows = integers_in(one, where);
    if (rows.size() != 3 || rows[0] < 0 || rows[0] >= std::ssize(form.tensors) || rows[1] < 0 ||
        rows[2] < 1 || __builtin_add_overflow(count, rows[2], &count))
      refuse_form("its rows are not [tensor, first, count]", where);
    form.rows.push_back({static_cast<size_t>(rows[0]), rows[1], rows[2]});
    of[form.rows.back().tensor].push_back(form.rows.back());
  }
  if (count == 0 || shape.elements() % count != 0)
    refuse_form(format("{} rows are not those of {}", count, to_string(shape)), where);
  for (size_t tensor = 0; tensor < of.size(); ++tensor) {
    std::sort(of[tensor].begin(), of[tensor].end(),
              [](const StoredRows& a, const StoredRows& b) { return a.first < b.first; });
    int64_t next = 0;
    for (const StoredRows& rows : of[tensor]) {
      if (rows.first != next) refuse_form("its rows overlap, or leave some out", where);
      next += rows.count;
    }
    if (next * (shape.elements() / count) != form.tensors[tensor].shape.elements())
      refuse_form(format("{} has other rows", form.tensors[tensor].name), where);
  }
}

}  // namespace

std::string stored_names(const partitioner::Model& model) {
  Json names = Json::object();
  for (const partitioner::ValueId id : model.kept_values()) {
    const Value& value = model.value(id);
    if (value.stored != nullptr) names[value.name] = json_of_form(*value.stored);
  }
  return names.empty() ? std::string() : json_text(names);
}

StoredNames::StoredNames(const SafetensorsReader& file) : file_(file) {
  const auto text = file.metadata().find(kNamesKey);
  if (text == file.metadata().end()) return;
  names_ = parse_json(text->second, format("{}: its map of names", file.origin()));
  if (!names_.is_object()) refuse_form("its map of names is no JSON object", file.origin());
}

std::optional<StoredForm> StoredNames::form_of(const Value& value) const {
  const auto entry = names_.find(value.name);
  if (entry == names_.end()) return std::nullopt;
  const std::string where = format("{}: its map of names: {}", file_.origin(), value.name);
  StoredForm form;
  for (const Json& name : json_array(*entry, "tensors", where)) {
    const ops::ValueSpec* spec = name.is_string() ? file_.find(name.get<std::string>()) : nullptr;
    if (spec == nullptr) refuse_form("it names no tensor of the file", where);
    if (!reads_as(*spec, {value.spec.dtype, spec->shape}))
      refuse_form(format("{} is {}, not {}", json_text(name), to_string(spec->dtype),
                         to_string(value.spec.dtype)),
                  where);
    form.tensors.push_back({name.get<std::string>(), spec->shape});
  }
  if (entry->contains("axes"))
    read_axes((*entry)["axes"], value.spec.shape, where, form);
  else
    read_form_rows(json_array(*entry, "rows", where), value.spec.shape, where, form);
  return form;
}

}  // namespace kerf::schedmp
