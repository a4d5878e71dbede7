#include "apps/data/matrix_file.h"

#include <memory>
#include <string_view>
#include <utility>

#include "apps/data/csc_arrays.h"
#include "apps/data/matrix_market.h"
#include "runtime/error.h"

namespace kerf::apps {

namespace {

constexpr std::string_view kMarketEnding = ".mtx";
constexpr std::string_view kArchiveEnding = ".npz";
constexpr std::string_view kArrayEnding = ".npy";

// Whether the file is text, or else of the other ending.
bool is_text(const std::filesystem::path& path, std::string_view what, std::string_view other) {
  const std::filesystem::path ending = path.extension();
  if (ending == kMarketEnding) return true;
  if (ending == other) return false;
  throw Error(
      ErrorCode::kUsage,
      format("its ending tells no format of a {}; known are {} and {}", what, kMarketEnding, other),
      path.string());
}

}  // namespace

MatrixSize matrix_size(const std::filesystem::path& path) {
  if (is_text(path, "matrix", kArchiveEnding)) return read_matrix_market_size(FileBytes(path));
  return read_csc_size(std::make_shared<FileBytes>(path));
}

SparseColumns read_matrix(const std::filesystem::path& path, ops::Range rows, Working working) {
  if (is_text(path, "matrix", kArchiveEnding))
    return read_matrix_market(FileBytes(path, std::move(working)), rows);
  return read_csc_arrays(std::make_shared<FileBytes>(path, std::move(working)), rows);
}

std::vector<double> read_column(const std::filesystem::path& path, Working working) {
  if (is_text(path, "column", kArrayEnding))
    return read_dense_column(FileBytes(path, std::move(working)));
  return read_column_array(std::make_shared<FileBytes>(path, std::move(working)));
}

}  // namespace kerf::apps
