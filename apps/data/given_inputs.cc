#include "apps/data/given_inputs.h"

#include <algorithm>
#include <cstring>
#include <filesystem>

#include "apps/data/exact_json.h"
#include "ops/half.h"

namespace kerf::apps {

namespace {

// Models have float32 for numbers of any such type.
ops::DType read_as(ops::DType dtype) {
  return ops::is_floating(dtype) ? ops::DType::kFloat32 : dtype;
}

template <class From, class Convert>
void widen(std::span<const std::byte> from, std::byte* to, const Convert& one) {
  for (size_t at = 0; at < from.size(); at += sizeof(From), to += sizeof(float)) {
    From value;
    std::memcpy(&value, from.data() + at, sizeof(From));
    const float number = one(value);
    std::memcpy(to, &number, sizeof(number));
  }
}

void to_float32(ops::DType dtype, std::span<const std::byte> from, std::byte* to) {
  if (dtype == ops::DType::kFloat64)
    widen<double>(from, to, [](double value) { return static_cast<float>(value); });
  else if (dtype == ops::DType::kFloat16)
    widen<uint16_t>(from, to, ops::from_float16);
  else
    widen<uint16_t>(from, to, ops::from_bfloat16);
}

}  // namespace

GivenInputs::GivenInputs(const std::string& name, const partitioner::Model* model) {
  if (model != nullptr) needs_ = schedmp::input_needs(*model);
  const Json files = parse_json(name, "--input");
  for (const auto& [input, file] : files.items()) {
    if (!file.is_string()) throw Error(ErrorCode::kUsage, "it must name a file", input);
    NpyArray array(std::filesystem::path(file.get<std::string>()));
    const std::string& origin = array.source().origin();
    const ops::Shape shape = array.header().shape(origin);
    if (shape.rank() == 0 || shape[0] < 1)
      throw Error(ErrorCode::kUsage,
                  format("it has the shape {}, but its first axis must be the rows, one or more",
                         ops::to_string(shape)),
                  origin);
    if (!arrays_.empty() && shape[0] != rows_)
      throw Error(ErrorCode::kUsage,
                  format("it has {} rows, but {} has {}", shape[0],
                         arrays_.begin()->second.source().origin(), rows_),
                  origin);
    rows_ = shape[0];
    arrays_.emplace(input, std::move(array));
  }
}

std::optional<ops::ValueSpec> GivenInputs::input(std::string_view name) const {
  const auto array = arrays_.find(name);
  if (array == arrays_.end()) return std::nullopt;
  const NpyHeader& header = array->second.header();
  ops::Shape shape = header.shape(array->second.source().origin());
  shape[0] = ops::kBatch;
  return ops::ValueSpec{read_as(header.dtype), shape};
}

std::string GivenInputs::fingerprint() const {
  std::string text;
  for (const auto& [name, array] : arrays_)
    text += format("{} {:08x};", name, array.source().checksum());
  return text;
}

void GivenInputs::read_input(std::string_view name, std::span<const int64_t> rows,
                             const ops::TensorView& to) const {
  const NpyArray& array = arrays_.find(name)->second;
  const int64_t per_row = array.header().elements() / rows_;
  const ops::DType dtype = array.header().dtype;
  const auto elements = static_cast<size_t>(per_row);
  const size_t row_bytes = elements * ops::size_of(read_as(dtype));
  std::vector<std::byte> row(read_as(dtype) == dtype ? 0 : elements * ops::size_of(dtype));
  for (size_t i = 0; i < rows.size(); ++i) {
    std::byte* const at = to.data + i * row_bytes;
    array.read(rows[i] * per_row, per_row, row.empty() ? at : row.data());
    if (!row.empty()) to_float32(dtype, row, at);
  }
  if (const auto need = needs_.find(name); need != needs_.end())
    schedmp::check_indices(to, rows, 0, need->second.picks_from, array.source().origin());
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
    if (equals == std::string::npos || equals == 0)
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
