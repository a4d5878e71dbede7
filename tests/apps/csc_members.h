// A sparse matrix as the arrays of NumPy that scipy.sparse.save_npz makes of it.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "apps/data/npy.h"
#include "apps/data/sparse_columns.h"

namespace kerf::tests {

template <class Element>
std::string npy_bytes_of(ops::DType dtype, const std::vector<int64_t>& extents,
                         const std::vector<Element>& elements) {
  return apps::npy_header(dtype, extents) +
         std::string(reinterpret_cast<const char*>(elements.data()),
                     elements.size() * sizeof(Element));
}

inline std::string npy_bytes_of(const std::vector<int64_t>& numbers) {
  return npy_bytes_of(ops::DType::kInt64, {std::ssize(numbers)}, numbers);
}

// A text of NumPy: b'csc' is of type |S3.
inline std::string npy_text(const std::string& text) {
  std::string bytes = apps::npy_header(ops::DType::kBool, {});
  bytes.replace(bytes.find("|b1"), 3, format("|S{}", text.size()));
  return bytes + text;
}

// `wide`: of 8 bytes an element.
inline std::map<std::string, std::string> csc_members(const apps::SparseColumns& matrix,
                                                      bool wide) {
  using ops::DType;
  const std::vector<int64_t> of_columns{matrix.columns + 1};
  const std::vector<int64_t> of_entries{matrix.entries()};
  if (wide)
    return {{"data.npy", npy_bytes_of(DType::kFloat64, of_entries, matrix.values)},
            {"indices.npy", npy_bytes_of({matrix.row.begin(), matrix.row.end()})},
            {"indptr.npy", npy_bytes_of(matrix.begins)},
            {"shape.npy", npy_bytes_of({matrix.rows, matrix.columns})}};
  const std::vector<float> values(matrix.values.begin(), matrix.values.end());
  const std::vector<int32_t> narrow(matrix.begins.begin(), matrix.begins.end());
  return {{"data.npy", npy_bytes_of(DType::kFloat32, of_entries, values)},
          {"indices.npy", npy_bytes_of(DType::kInt32, of_entries, matrix.row)},
          {"indptr.npy", npy_bytes_of(DType::kInt32, of_columns, narrow)},
          {"shape.npy", npy_bytes_of({matrix.rows, matrix.columns})},
          {"format.npy", npy_text("csc")}};
}

}  // namespace kerf::tests
