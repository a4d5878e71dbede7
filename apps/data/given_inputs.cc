#include "apps/data/given_inputs.h"

#include <algorithm>
#include <filesystem>

#include "apps/data/exact_json.h"
#include "runtime/error.h"

namespace kerf::apps {

GivenInputs::GivenInputs(const std::string& name, const schedmp::DataRequest& request) {
  if (request.model != nullptr) needs_ = schedmp::input_needs(*request.model);
  const Json files = parse_json(name, "--input");
  for (const auto& [input, file] : files.items()) {
    if (!file.is_string()) throw Error(ErrorCode::kUsage, "it must name a file", input);
    const ArrayColumn column(std::make_shared<FileBytes>(file.get<std::string>(), request.working));
    const std::string& origin = column.source().origin();
    if (column.rows() < 1) throw Error(ErrorCode::kUsage, "it has no rows", origin);
    if (!columns_.empty() && column.rows() != rows_)
      throw Error(ErrorCode::kUsage,
                  format("it has {} rows, but {} has {}", column.rows(),
                         columns_.begin()->second.source().origin(), rows_),
                  origin);
    rows_ = column.rows();
    columns_.emplace(input, column);
  }
}

std::optional<ops::ValueSpec> GivenInputs::input(std::string_view name) const {
  const auto found = columns_.find(name);
  if (found == columns_.end()) return std::nullopt;
  const ArrayColumn& column = found->second;
  return ops::ValueSpec{ops::is_floating(column.stored()) ? ops::DType::kFloat32 : column.stored(),
                        column.shape()};
}

std::string GivenInputs::fingerprint() const {
  std::string text;
  for (const auto& [name, column] : columns_)
    text += format("{} {:08x};", name, column.source().checksum());
  return text;
}

void GivenInputs::read_input(std::string_view name, std::span<const int64_t> rows,
                             const ops::TensorView& to) const {
  const ArrayColumn& column = columns_.find(name)->second;
  column.read(rows, 0, to);
  if (const auto need = needs_.find(name); need != needs_.end())
    schedmp::check_indices(to, rows, 0, need->second.picks_from, column.source().origin());
}

void GivenInputs::read_labels(std::span<const int64_t>, const ops::TensorView&) const {
  throw Error(ErrorCode::kUsage, "they have no labels", "--input");
}

std::string given_inputs_name(const std::vector<std::string>& inputs,
                              const partitioner::Model& model, const std::string& flag) {
  const std::vector<std::string> known = schedmp::input_names(model);
  Json files = Json::object();
  for (const std::string& input : inputs) {
    const size_t equals = input.find('=');
    if (equals == std::string::npos || equals == 0 || equals + 1 == input.size())
      throw Error(ErrorCode::kUsage, format("\"{}\": write it as in image=x.npy", input), flag);
    const std::string name = input.substr(0, equals);
    if (std::ranges::find(known, name) == known.end())
      throw Error(ErrorCode::kUsage,
                  format("{} has no input {}; its inputs are {}", model.name(), name,
                         fmt::join(known, ", ")),
                  flag);
    if (files.contains(name))
      throw Error(ErrorCode::kUsage, format("{} is given twice", name), flag);
    files[name] = std::filesystem::absolute(input.substr(equals + 1)).string();
  }
  for (const std::string& name : known)
    if (!files.contains(name))
      throw Error(ErrorCode::kUsage,
                  format("nothing for {}, an input of {}: give it as {}=FILE.npy", name,
                         model.name(), name),
                  flag);
  return exact_json(files, flag);
}

bool names_given_inputs(const std::string& name) { return name.starts_with('{'); }

}  // namespace kerf::apps
