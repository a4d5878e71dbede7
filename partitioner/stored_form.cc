#include "partitioner/stored_form.h"

#include <algorithm>
#include <cstring>

#include "runtime/error.h"

namespace kerf::partitioner {
namespace {

std::string cell_tensor(const std::string& module, const std::string& what, int64_t layer,
                        int64_t direction) {
  return format("{}{}{}_l{}{}", module, module.empty() ? "" : ".", what, layer,
                direction == 0 ? "" : "_reverse");
}

}  // namespace

int64_t StoredForm::row_count() const {
  int64_t count = 0;
  for (const StoredRows& each : rows) count += each.count;
  return count;
}

StoredForm stored_as(const std::string& name, const ops::Shape& shape) {
  return {{{name, shape}}, {}, {{0, 0, shape.elements()}}};
}

StoredForm stored_turned(const std::string& name, const ops::Shape& shape,
                         const std::vector<int>& axes) {
  ops::Shape in_file = shape;
  for (int i = 0; i < shape.rank(); ++i) in_file[axes[static_cast<size_t>(i)]] = shape[i];
  return {{{name, in_file}}, axes, {}};
}

StoredForm stored_cell_weight(const std::string& module, const std::string& weight, int64_t layer,
                              const ops::Shape& shape, std::span<const int64_t> gates) {
  StoredForm form;
  const int64_t hidden = shape[1] / std::ssize(gates);
  for (int64_t d = 0; d < shape[0]; ++d) {
    form.tensors.push_back({cell_tensor(module, weight, layer, d), {shape[1], shape[2]}});
    for (const int64_t gate : gates)
      form.rows.push_back({static_cast<size_t>(d), gate * hidden, hidden});
  }
  return form;
}

StoredForm stored_cell_bias(const std::string& module, int64_t layer, const ops::Shape& shape,
                            std::span<const int64_t> gates) {
  StoredForm form;
  const int64_t half = shape[1] / 2;
  const int64_t hidden = half / std::ssize(gates);
  for (int64_t d = 0; d < shape[0]; ++d)
    for (const char* product : {"bias_ih", "bias_hh"}) {
      for (const int64_t gate : gates)
        form.rows.push_back({form.tensors.size(), gate * hidden, hidden});
      form.tensors.push_back({cell_tensor(module, product, layer, d), {half}});
    }
  return form;
}

std::string turned(const std::string& bytes, size_t size, const ops::Shape& shape,
                   const std::vector<int>& axes) {
  const auto rank = axes.size();
  std::vector<int64_t> stride(rank, 1);  // of `shape`, in elements
  for (size_t i = rank; i-- > 1;) stride[i - 1] = stride[i] * shape[static_cast<int>(i)];
  std::vector<int64_t> extents;
  std::vector<int64_t> steps;
  for (const int axis : axes) {
    extents.push_back(shape[axis]);
    steps.push_back(stride[static_cast<size_t>(axis)]);
  }
  std::string result(bytes.size(), '\0');
  std::vector<int64_t> at(rank, 0);
  int64_t from = 0;
  for (size_t to = 0; to < bytes.size(); to += size) {
    std::memcpy(result.data() + to, bytes.data() + static_cast<size_t>(from) * size, size);
    for (size_t i = rank; i-- > 0;) {
      from += steps[i];
      if (++at[i] < extents[i]) break;
      from -= steps[i] * extents[i];
      at[i] = 0;
    }
  }
  return result;
}

}  // namespace kerf::partitioner
