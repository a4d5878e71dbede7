#include "apps/data/array_rows.h"

#include <algorithm>
#include <array>

#include "apps/data/rows_for_tests.h"
#include "apps/data/zip.h"
#include "runtime/error.h"

namespace kerf::apps {

namespace {

namespace fs = std::filesystem;
using ops::DType;
using schedmp::Split;

constexpr std::string_view kTrainEnding = "_train";
constexpr std::string_view kTestEnding = "_test";
constexpr std::string_view kValidationEnding = "_val";
constexpr std::string_view kNpySuffix = ".npy";
constexpr std::array<std::string_view, 4> kInputNames{"x", "data", "images", "inputs"};
constexpr std::string_view kLabelName = "label";  // of every model
constexpr std::array<std::string_view, 4> kLabelNames{"y", "labels", "target", "targets"};
constexpr int64_t kLabelsOfAScan = int64_t{1} << 20;

std::string_view without(std::string_view name, std::string_view ending) {
  return name.substr(0, name.size() - ending.size());
}

bool is_whole(DType dtype) { return !ops::is_floating(dtype); }

}  // namespace

NamedArrays arrays_of_archive(const fs::path& file, const Working& working) {
  return arrays_of_archive(std::make_shared<FileBytes>(file, working));
}

NamedArrays arrays_of_archive(std::shared_ptr<const ByteSource> file) {
  NamedArrays arrays{file->origin(), {}, {}};
  auto archive = std::make_shared<const ZipArchive>(std::move(file));
  for (const std::string& name : archive->names())
    if (name.ends_with(kNpySuffix))
      arrays.names.push_back(name.substr(0, name.size() - kNpySuffix.size()));
  arrays.open = [archive](const std::string& name) {
    return archive->open(name + std::string(kNpySuffix));
  };
  return arrays;
}

NamedArrays arrays_of_folder(const fs::path& folder, const Working& working) {
  NamedArrays arrays{folder.string(), {}, {}};
  std::error_code fault;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, fault))
    if (entry.path().extension() == kNpySuffix)
      arrays.names.push_back(entry.path().stem().string());
  if (fault) throw Error(ErrorCode::kUsage, "there is no such folder", folder.string());
  std::sort(arrays.names.begin(), arrays.names.end());
  arrays.open = [folder, working](const std::string& name) {
    return std::make_shared<FileBytes>(folder / (name + std::string(kNpySuffix)), working);
  };
  return arrays;
}

ArrayRows::ArrayRows(const NamedArrays& arrays, Split split, const partitioner::Model* model)
    : origin_(arrays.origin) {
  if (model != nullptr) needs_ = schedmp::input_needs(*model);
  const bool train = split == Split::kTrain;
  const auto any = [&](std::string_view ending) {
    return std::ranges::any_of(arrays.names, [&](const std::string& name) {
      return name.ends_with(ending) && is_wanted(without(name, ending));
    });
  };
  const std::string_view tests = any(kTestEnding) ? kTestEnding : kValidationEnding;
  const std::string_view mine = train ? kTrainEnding : tests;
  const std::string_view theirs = train ? tests : kTrainEnding;
  const bool divided = any(mine);
  const bool whole = !divided && !any(theirs);  // both splits in one array
  for (const std::string& name : arrays.names) {
    const bool plain = !name.ends_with(mine) && !name.ends_with(theirs);
    const std::string known_as = plain ? name : std::string(without(name, mine));
    if (!name.ends_with(theirs) && !is_wanted(known_as)) continue;
    if (plain ? divided || !(whole || train) : !name.ends_with(mine)) {
      if (plain) passed_over_.push_back(name);
      continue;
    }
    Column column = column_of(arrays.open(name));
    fingerprint_ += format(" {} {:08x}", name, column.source->checksum());
    columns_.emplace(known_as, std::move(column));
  }
  if (columns_.empty())
    throw Error(
        ErrorCode::kUsage,
        format("it has no arrays for {}{}; name them as x_train, y_train, x_test, y_test; "
               "found: {}",
               train ? "training" : "tests", needs_.empty() ? "" : format(" of {}", model->name()),
               fmt::join(arrays.names, ", ")),
        origin_);
  divide(whole, split);
}

bool ArrayRows::is_wanted(std::string_view name) const {
  const auto is = [&](std::string_view other) { return other == name; };
  return needs_.empty() || needs_.contains(name) || name == kLabelName ||
         std::ranges::any_of(kLabelNames, is) ||
         (needs_.size() == 1 && std::ranges::any_of(kInputNames, is));
}

void ArrayRows::divide(bool whole, Split split) {
  const int64_t rows = leading().rows->rows();
  if (rows < (whole ? 2 : 1))
    throw Error(ErrorCode::kUsage, format("it has {}, which is not enough", plural(rows, "row")),
                leading().source->origin());
  const SomeRows mine = whole ? rows_of_split(rows, split) : SomeRows{0, rows};
  first_ = mine.first;
  rows_ = mine.count;
  fingerprint_ = format("arrays {} from {}{}", rows_, first_, fingerprint_);
}

std::string ArrayRows::offers() const {
  std::vector<std::string_view> names;
  for (const auto& [name, column] : columns_) names.push_back(name);
  std::string text = format("{}", fmt::join(names, ", "));
  if (!passed_over_.empty())
    text += format(" ({}: passed over, as other names end in _train or _test)",
                   fmt::join(passed_over_, ", "));
  return text;
}

ArrayRows::Column ArrayRows::column_of(std::shared_ptr<const ByteSource> source) {
  Column column{source, {}, {}};
  try {
    column.rows.emplace(std::move(source));
  } catch (const Error& error) {
    column.fault = error;
  }
  return column;
}

const ArrayRows::Column& ArrayRows::leading() const {
  if (const Column* labels = find_labels(); labels != nullptr && !labels->fault) return *labels;
  for (const auto& [name, column] : columns_)
    if (!column.fault) return column;
  throw Error(*columns_.begin()->second.fault);
}

const ArrayRows::Column* ArrayRows::one_of(std::span<const std::string_view> names,
                                           std::string_view what) const {
  const Column* one = nullptr;
  std::string_view its_name;
  for (const std::string_view name : names) {
    const auto found = columns_.find(name);
    if (found == columns_.end() || needs_.contains(name)) continue;
    if (one != nullptr)
      throw Error(ErrorCode::kUsage,
                  format("both {} and {} could be its {}; give one of them another name", its_name,
                         name, what),
                  origin_);
    one = &found->second;
    its_name = name;
  }
  return one;
}

const ArrayColumn& ArrayRows::sound(const Column& column) const {
  if (column.fault) throw Error(*column.fault);
  const Column& first = leading();
  if (column.rows->rows() != first.rows->rows())
    throw Error(ErrorCode::kUsage,
                format("it has {} rows, but {} has {}", column.rows->rows(), first.source->origin(),
                       first.rows->rows()),
                column.source->origin());
  return *column.rows;
}

const ArrayColumn* ArrayRows::input_column(std::string_view name) const {
  const auto own = columns_.find(name);
  const Column* found =
      own != columns_.end() ? &own->second : one_of(kInputNames, "input " + std::string(name));
  return found == nullptr ? nullptr : &sound(*found);
}

const ArrayRows::Column* ArrayRows::find_labels() const {
  const auto own = columns_.find(kLabelName);
  return own != columns_.end() && !needs_.contains(kLabelName) ? &own->second
                                                               : one_of(kLabelNames, "labels");
}

const ArrayColumn& ArrayRows::label_column() const {
  const Column* found = find_labels();
  if (found == nullptr)
    throw Error(ErrorCode::kUsage,
                format("it has no labels: an array called {}, {}, and not as an input of the "
                       "model; it has {}",
                       kLabelName, fmt::join(kLabelNames, ", "), offers()),
                origin_);
  return sound(*found);
}

// As the model reads it, where whole numbers can be that; else bytes are pixels.
std::optional<ops::ValueSpec> ArrayRows::input(std::string_view name) const {
  const ArrayColumn* found = input_column(name);
  if (found == nullptr) return std::nullopt;
  const DType stored = found->stored();
  if (!is_whole(stored)) return ops::ValueSpec{DType::kFloat32, found->shape()};
  const auto need = needs_.find(name);
  if (need != needs_.end() &&
      (need->second.spec.dtype == DType::kFloat32 || need->second.spec.dtype == DType::kInt64))
    return ops::ValueSpec{need->second.spec.dtype, found->shape()};
  return ops::ValueSpec{ops::size_of(stored) == 1 ? DType::kFloat32 : DType::kInt64,
                        found->shape()};
}

ops::Shape ArrayRows::labels() const { return label_column().shape(); }

int64_t ArrayRows::classes() const {
  std::call_once(classes_once_, [this] {
    const ArrayColumn& of = label_column();
    if (!is_whole(of.stored()))
      throw Error(ErrorCode::kUsage,
                  format("labels are whole numbers where they are classes, these are {}; a --loss "
                         "of numbers takes them",
                         ops::to_string(of.stored())),
                  of.source().origin());
    std::vector<int64_t> labels;
    std::vector<int64_t> rows;
    const int64_t at_once = std::max<int64_t>(1, kLabelsOfAScan / of.elements());
    for (int64_t row = 0; row < rows_; row += at_once) {
      rows.clear();
      for (int64_t i = row; i < std::min(rows_, row + at_once); ++i) rows.push_back(i);
      labels.resize(rows.size() * static_cast<size_t>(of.elements()));
      of.read(rows, first_,
              {DType::kInt64, {std::ssize(labels)}, reinterpret_cast<std::byte*>(labels.data())});
      const auto [least, most] = std::minmax_element(labels.begin(), labels.end());
      const auto odd = *least < 0 ? least : most;
      if (*least < 0 || *most == INT64_MAX)
        throw Error(ErrorCode::kUsage,
                    format("label {} of row {} is no class", *odd,
                           first_ + row + (odd - labels.begin()) / of.elements()),
                    of.source().origin());
      classes_ = std::max(classes_, *most + 1);
    }
  });
  return classes_;
}

void ArrayRows::read_input(std::string_view name, std::span<const int64_t> rows,
                           const ops::TensorView& to) const {
  const ArrayColumn* found = input_column(name);
  KERF_CHECK(found != nullptr, "no array for {}", name);
  found->read(rows, first_, to);
  if (const auto need = needs_.find(name); need != needs_.end())
    schedmp::check_indices(to, rows, first_, need->second.picks_from, found->source().origin());
}

void ArrayRows::read_labels(std::span<const int64_t> rows, const ops::TensorView& to) const {
  label_column().read(rows, first_, to);
}

void ArrayRows::prepare(std::span<const std::string> inputs) const {
  for (const std::string& name : inputs)
    if (const ArrayColumn* column = input_column(name)) column->source().prepare();
}

int64_t ArrayRows::held_bytes() const {
  int64_t held = 0;
  for (const auto& [name, column] : columns_) held += column.source->held_bytes();
  return held;
}

}  // namespace kerf::apps
