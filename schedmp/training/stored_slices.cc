#include "schedmp/training/stored_slices.h"

#include <algorithm>
#include <utility>

#include "ops/pack.h"
#include "runtime/error.h"
#include "schedmp/training/weight_slices.h"

namespace kerf::schedmp {

namespace {

[[noreturn]] void refuse_slice(const std::string& why, const std::string& where) {
  throw Error(ErrorCode::kUsage, why, where);
}

// Takes what `has` has out of boxes that are disjoint, and stay so; whether that was anything.
bool take_out(std::vector<ops::Box>& boxes, const ops::Box& has, const ops::Shape& shape) {
  std::vector<ops::Box> rest;
  bool any = false;
  for (ops::Box& box : boxes) {
    const ops::Box taken = ops::normalized(ops::intersect(box, has), shape);
    any = any || !taken.empty();
    for (size_t axis = 0; axis < box.axes.size() && !taken.empty(); ++axis) {
      ops::Box beside = box;
      beside.axes[axis] =
          ops::subtract(box.axes[axis], taken.axes[axis], shape[static_cast<int>(axis)]);
      if (!beside.empty()) rest.push_back(std::move(beside));
      box.axes[axis] = taken.axes[axis];
    }
    if (taken.empty()) rest.push_back(std::move(box));
  }
  boxes = std::move(rest);
  return any;
}

}  // namespace

std::string state_kind(int state) { return kerf::format("state-{}", state); }

StoredSlices::StoredSlices(runtime::Store& store, const std::vector<PlacedPart>& parts, Alive alive)
    : store_(store), alive_(std::move(alive)) {
  for (const PlacedPart& part : parts) {
    files_.push_back({part, std::make_unique<SafetensorsReader>(store_.open(part.file))});
    list(files_.size() - 1);
    files_.back().reader->close();
  }
}

void StoredSlices::list(size_t file) {
  const SafetensorsReader& reader = *files_[file].reader;
  const auto told = reader.metadata().find(kSlicesKey);
  if (told == reader.metadata().end())
    refuse_slice("it does not say what its tensors are", reader.origin());
  const Json json = parse_json(told->second, reader.origin());
  std::map<std::string, const Json*> slices;  // a Json looks at its names in turn
  for (const auto& [name, slice] : json.items()) slices[name] = &slice;
  for (const NamedSpec& tensor : reader.tensors()) {
    const std::string where = kerf::format("{}: {}", reader.origin(), tensor.name);
    const auto found = slices.find(tensor.name);
    if (found == slices.end()) refuse_slice("it does not say what it is", where);
    const Json& of = *found->second;
    Entry entry = entry_of(of, where);
    if (ops::local_shape(entry.box, entry.shape) != tensor.spec.shape)
      refuse_slice("its box and its shape do not fit", where);
    entry.file = file;
    entry.name = tensor.name;
    entries_[json_string(of, "kind", where)][json_string(of, "tensor", where)].push_back(
        std::move(entry));
  }
}

StoredSlices::Entry StoredSlices::entry_of(const Json& json, const std::string& where) const {
  std::vector<int64_t> extents;
  for (const Json& extent : json_array(json, "shape", where)) {
    if (!extent.is_number_integer() || extent.get<int64_t>() < 0 ||
        extents.size() == ops::Shape::kMaxRank)
      refuse_slice("its shape is none", where);
    extents.push_back(extent.get<int64_t>());
  }
  const Json& axes = json_array(json, "box", where);
  if (axes.size() != extents.size()) refuse_slice("its box has another number of axes", where);
  Entry entry;
  entry.shape = ops::Shape(std::span<const int64_t>(extents));
  for (size_t axis = 0; axis < axes.size(); ++axis) {
    if (!axes[axis].is_string()) refuse_slice("its box is none", where);
    const ops::IndexSet set = ops::parse_index_set(axes[axis].get<std::string>(), where);
    if (!set.is_all() && ops::clip(set, extents[axis]) != set)
      refuse_slice("its box is not within its tensor", where);
    entry.box.axes.push_back(set.normalized(extents[axis]));
  }
  return entry;
}

bool StoredSlices::has(const std::string& kind) const { return entries_.contains(kind); }

bool StoredSlices::has(const std::string& kind, const std::string& tensor) const {
  const auto found = entries_.find(kind);
  return found != entries_.end() && found->second.contains(tensor);
}

std::string StoredSlices::file_of(const std::string& kind, const std::string& tensor) const {
  if (has(kind, tensor))
    if (const auto& some = entries_.at(kind).at(tensor); !some.empty())
      return files_[some.front().file].placed.file;
  return files_.empty() ? std::string("a checkpoint") : files_.front().placed.file;
}

SafetensorsReader& StoredSlices::checked(size_t file) {
  File& wanted = files_[file];
  if (open_ != file) {
    if (open_) files_[*open_].reader->close();
    open_.reset();
    if (!std::exchange(wanted.checked, true)) check_part(store_, wanted.placed, alive_);
    wanted.reader->open_again(store_.open(wanted.placed.file));
    open_ = file;
  }
  if (alive_) alive_();
  return *wanted.reader;
}

std::string StoredSlices::read(const std::string& kind, const std::string& tensor,
                               const ops::ValueSpec& spec, const ops::Box& wanted,
                               const RowRange& rows, int axis) {
  const ops::Box slice = slice_of_rows(spec.shape, rows, axis);
  std::string bytes(ops::Selection(slice, slice, spec).bytes(1), '\0');
  std::vector<ops::Box> missing{ops::normalized(ops::intersect(slice, wanted), spec.shape)};
  if (missing.front().empty() || bytes.empty()) missing.clear();
  for (const Entry& entry : entries_[kind][tensor]) {
    if (missing.empty()) break;
    if (entry.shape != spec.shape)
      refuse_slice(kerf::format("'{}' has the shape {}, expected {}", tensor,
                                to_string(entry.shape), to_string(spec.shape)),
                   files_[entry.file].placed.file);
    if (!take_out(missing, entry.box, spec.shape)) continue;
    const ops::Box piece = ops::normalized(ops::intersect(slice, entry.box), spec.shape);
    const ops::ValueSpec local{spec.dtype, ops::local_shape(entry.box, spec.shape)};
    const std::string found =
        checked(entry.file)
            .read(entry.name, local, rows_of(piece, entry.box, spec.shape, axis), axis);
    ops::Selection(slice, piece, spec)
        .unpack(reinterpret_cast<const std::byte*>(found.data()),
                reinterpret_cast<std::byte*>(bytes.data()), 1);
  }
  if (!missing.empty())
    refuse_slice(
        kerf::format("there is no {} of {} of '{}'", kind, ops::to_string(missing.front()), tensor),
        file_of(kind, tensor));
  return bytes;
}

}  // namespace kerf::schedmp
