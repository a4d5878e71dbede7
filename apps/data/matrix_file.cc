#include "apps/data/matrix_file.h"

#include <algorithm>
#include <memory>
#include <string_view>
#include <utility>

#include "apps/data/csc_arrays.h"
#include "apps/data/csv.h"
#include "apps/data/matrix_market.h"
#include "runtime/error.h"

namespace kerf::apps {

namespace {

enum class FileForm { kMarket, kTable, kBinary };

// `binary` is the ending of such files of binary numbers.
FileForm form_of(const std::filesystem::path& path, std::string_view what, const char* binary) {
  const std::vector<std::string> endings = {".mtx", ".csv", binary};  // as FileForm has them
  const auto found = std::find(endings.begin(), endings.end(), path.extension().string());
  if (found == endings.end())
    throw Error(
        ErrorCode::kUsage,
        format("its ending tells no format of a {}; known are {}", what, fmt::join(endings, ", ")),
        path.string());
  return static_cast<FileForm>(found - endings.begin());
}

FileForm form_of_matrix(const std::filesystem::path& path) {
  return form_of(path, "matrix", ".npz");
}

}  // namespace

MatrixSize matrix_size(const std::filesystem::path& path) {
  switch (form_of_matrix(path)) {
    case FileForm::kMarket:
      return read_matrix_market_size(FileBytes(path));
    case FileForm::kTable:
      return read_csv_size(FileBytes(path));
    default:
      return read_csc_size(std::make_shared<FileBytes>(path));
  }
}

SparseColumns read_matrix(const std::filesystem::path& path, ops::Range rows, Working working) {
  switch (form_of_matrix(path)) {
    case FileForm::kMarket:
      return read_matrix_market(FileBytes(path, std::move(working)), rows);
    case FileForm::kTable:
      return read_csv(FileBytes(path, std::move(working)), rows);
    default:
      return read_csc_arrays(std::make_shared<FileBytes>(path, std::move(working)), rows);
  }
}

std::vector<double> read_column(const std::filesystem::path& path, Working working) {
  switch (form_of(path, "column", ".npy")) {
    case FileForm::kMarket:
      return read_dense_column(FileBytes(path, std::move(working)));
    case FileForm::kTable:
      return read_csv_column(FileBytes(path, std::move(working)));
    default:
      return read_column_array(std::make_shared<FileBytes>(path, std::move(working)));
  }
}

}  // namespace kerf::apps
