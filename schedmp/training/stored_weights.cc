#include "schedmp/training/stored_weights.h"

#include <algorithm>
#include <span>
#include <utility>

#include "runtime/error.h"
#include "schedmp/training/weight_slices.h"

namespace kerf::schedmp {

using partitioner::StoredForm;
using partitioner::StoredRows;
using partitioner::Value;

namespace {

// Each slice of a turned weight is a little of every row of the shares, which are gone through
// again and again: the fewer the better.
constexpr size_t kTurnedBytes = 16 * kSliceBytes;

int64_t first_extent(const ops::Shape& shape) { return shape.rank() == 0 ? 1 : shape[0]; }

RowRange rows_in(const ops::Box& slice, const ops::Shape& shape) {
  return rows_of(slice, ops::Box::whole(shape.rank()), shape);
}

// The shape with some indices of one axis only.
ops::Shape cut_down(ops::Shape shape, int axis, int64_t count) {
  shape[axis] = count;
  return shape;
}

std::string read_turned(SafetensorsReader& file, const Value& value, const StoredForm& form,
                        const RowRange& rows) {
  const auto& [name, shape] = form.tensors[0];
  const int axis = form.axes[0];
  const std::string bytes = file.read(name, {value.spec.dtype, shape}, rows, axis);
  return partitioner::turned(bytes, ops::size_of(value.spec.dtype),
                             cut_down(shape, axis, rows.count), form.axes);
}

std::string read_rows(SafetensorsReader& file, const Value& value, const StoredForm& form,
                      const RowRange& rows) {
  if (value.spec.shape.elements() == 0) return {};
  const int64_t columns = value.spec.shape.elements() / form.row_count();
  const int64_t per_index = form.row_count() / first_extent(value.spec.shape);
  const int64_t begin = rows.first * per_index;
  const int64_t end = begin + rows.count * per_index;
  std::string bytes;
  int64_t at = 0;  // row of the value
  for (const StoredRows& block : form.rows) {
    const int64_t first = std::max(begin, at);
    const int64_t last = std::min(end, at + block.count);
    const auto& [name, shape] = form.tensors[block.tensor];
    if (first < last)
      bytes += file.read_elements(name, {value.spec.dtype, shape},
                                  (block.first + first - at) * columns, (last - first) * columns);
    at += block.count;
  }
  return bytes;
}

std::string read_contents(const Value& value, const RowRange& rows) {
  const size_t bytes_of_row =
      value.spec.bytes(0) / static_cast<size_t>(first_extent(value.spec.shape));
  std::string bytes(static_cast<size_t>(rows.count) * bytes_of_row, '\0');
  value.contents->read(static_cast<size_t>(rows.first) * bytes_of_row,
                       std::as_writable_bytes(std::span(bytes)));
  return bytes;
}

// Null: the value as it is.
std::vector<NamedSpec> tensors_of_form(const Value& value, const StoredForm* form) {
  if (form == nullptr) return {{value.name, value.spec}};
  std::vector<NamedSpec> tensors;
  for (const auto& [name, shape] : form->tensors)
    tensors.push_back({name, {value.spec.dtype, shape}});
  return tensors;
}

void write_turned(const Value& value, const SliceOf& slice_of, SafetensorsWriter& file) {
  const StoredForm& form = *value.stored;
  const ops::ValueSpec spec{value.spec.dtype, form.tensors[0].shape};
  std::vector<int> back(form.axes.size());  // axis of the value, by the file's
  for (size_t i = 0; i < back.size(); ++i)
    back[static_cast<size_t>(form.axes[i])] = static_cast<int>(i);
  for (const ops::Box& slice : slices_of(spec, kTurnedBytes)) {
    const RowRange rows = rows_in(slice, spec.shape);
    file.write(partitioner::turned(slice_of(rows, back[0]), ops::size_of(spec.dtype),
                                   cut_down(value.spec.shape, back[0], rows.count), back));
  }
}

void write_rows(const Value& value, const SliceOf& slice_of, SafetensorsWriter& file) {
  const StoredForm& form = *value.stored;
  const std::string all = slice_of({0, first_extent(value.spec.shape)}, 0);
  if (all.empty()) return;
  const size_t row = all.size() / static_cast<size_t>(form.row_count());
  for (size_t tensor = 0; tensor < form.tensors.size(); ++tensor) {
    std::string bytes(ops::ValueSpec{value.spec.dtype, form.tensors[tensor].shape}.bytes(0), '\0');
    size_t at = 0;
    for (const StoredRows& block : form.rows) {
      const size_t size = static_cast<size_t>(block.count) * row;
      if (block.tensor == tensor)
        bytes.replace(static_cast<size_t>(block.first) * row, size, all, at, size);
      at += size;
    }
    file.write(bytes);
  }
}

}  // namespace

std::vector<NamedSpec> stored_tensors(const Value& value) {
  return tensors_of_form(value, value.stored.get());
}

// Null: the file has the value as it is.
const StoredForm* StoredWeights::form_of(const Value& value) {
  const std::string& name = value.stored == nullptr ? value.name : value.stored->tensors[0].name;
  if (file_.find(name) != nullptr) return value.stored.get();
  if (const auto known = found_.find(value.name); known != found_.end()) return &known->second;
  auto said = names_.form_of(value);
  if (!said) return value.stored.get();
  return &found_.emplace(value.name, std::move(*said)).first->second;
}

bool StoredWeights::has(const Value& value) const {
  const std::string& name = value.stored == nullptr ? value.name : value.stored->tensors[0].name;
  return file_.find(name) != nullptr || names_.form_of(value).has_value();
}

std::vector<NamedSpec> StoredWeights::tensors_of(const Value& value) {
  return tensors_of_form(value, form_of(value));
}

std::string StoredWeights::read(const Value& value, const RowRange& rows) {
  if (value.derived && !has(value)) return read_contents(value, rows);
  const StoredForm* form = form_of(value);
  if (form == nullptr) return file_.read(value.name, value.spec, rows);
  if (!form->axes.empty()) return read_turned(file_, value, *form, rows);
  return read_rows(file_, value, *form, rows);
}

std::string StoredWeights::read(const Value& value) {
  return read(value, {0, first_extent(value.spec.shape)});
}

void write_stored(const Value& value, const SliceOf& slice_of, SafetensorsWriter& file) {
  if (value.stored != nullptr)
    return value.stored->axes.empty() ? write_rows(value, slice_of, file)
                                      : write_turned(value, slice_of, file);
  for (const ops::Box& slice : slices_of(value.spec))
    file.write(slice_of(rows_in(slice, value.spec.shape), 0));
}

}  // namespace kerf::schedmp
