#include "apps/data/csc_arrays.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <string>
#include <utility>

#include "apps/data/npy.h"
#include "apps/data/sparse_entries.h"
#include "apps/data/zip.h"
#include "runtime/error.h"

namespace kerf::apps {

namespace {

using ops::DType;

constexpr int64_t kPieceOfArray = int64_t{1} << 16;  // elements
constexpr size_t kMostFormat = 4096;                 // bytes of its member

[[noreturn]] void refuse_array(const NpyArray& array, const std::string& what) {
  throw Error(ErrorCode::kUsage, what, array.source().origin());
}

// Numbers of one of two types, read as the wider one.
template <class Narrow, class Wide>
class Numbers {
 public:
  Numbers(std::shared_ptr<const ByteSource> source, DType narrow, DType wide)
      : array_(std::move(source)), wide_(array_.header().dtype == wide) {
    if (!wide_ && array_.header().dtype != narrow)
      refuse_array(array_, format("its elements are of {}; expected {} or {}",
                                  ops::to_string(array_.header().dtype), ops::to_string(narrow),
                                  ops::to_string(wide)));
  }

  const NpyArray& array() const { return array_; }
  int64_t elements() const { return array_.header().elements(); }
  // Those from `first` on, as many as there is room for.
  void read(int64_t first, std::span<Wide> to) {
    const auto count = std::ssize(to);
    if (wide_) return array_.read(first, count, std::as_writable_bytes(to).data());
    piece_.resize(std::min(to.size(), static_cast<size_t>(kPieceOfArray)));
    while (!to.empty()) {
      const auto part = std::span(piece_).first(std::min(piece_.size(), to.size()));
      array_.read(first, std::ssize(part), std::as_writable_bytes(part).data());
      std::copy(part.begin(), part.end(), to.begin());
      first += std::ssize(part);
      to = to.subspan(part.size());
    }
  }

 private:
  NpyArray array_;
  bool wide_;
  std::vector<Narrow> piece_;
};

class Integers : public Numbers<int32_t, int64_t> {
 public:
  explicit Integers(std::shared_ptr<const ByteSource> source)
      : Numbers(std::move(source), DType::kInt32, DType::kInt64) {}
};
class Reals : public Numbers<float, double> {
 public:
  explicit Reals(std::shared_ptr<const ByteSource> source)
      : Numbers(std::move(source), DType::kFloat32, DType::kFloat64) {}
};

// Throws unless it is a list, of so many elements.
void expect_list(const NpyArray& array, int64_t elements, std::string_view why) {
  if (array.header().extents != std::vector<int64_t>{elements})
    refuse_array(array, format("its shape is ({}); expected ({}), {}",
                               fmt::join(array.header().extents, ", "), elements, why));
}

// The archive, whose format is CSC where it says one. NumPy's bytes and texts have no type of ours,
// so this looks at what is behind the header's line.
const ZipArchive& of_columns(const ZipArchive& archive) {
  if (!archive.contains("format.npy")) return archive;
  const auto source = archive.open("format.npy");
  const std::string text = read_text(*source, 0, std::min(source->size(), kMostFormat));
  std::string name = text.substr(std::min(text.find('\n'), text.size() - 1) + 1);
  std::erase(name, '\0');
  if (name != "csc")
    throw Error(ErrorCode::kUsage, "expected b'csc'; save .tocsc() of the matrix",
                source->origin());
  return archive;
}

class CscArchive {
 public:
  explicit CscArchive(const std::shared_ptr<const ByteSource>& file)
      : origin_(file->origin()),
        archive_(file),
        begins_(of_columns(archive_).open("indptr.npy")),
        rows_(archive_.open("indices.npy")),
        values_(archive_.open("data.npy")) {
    Integers shape(archive_.open("shape.npy"));
    expect_list(shape.array(), 2, "rows and columns");
    std::array<int64_t, 2> extents{};
    shape.read(0, extents);
    for (const int64_t extent : extents)
      if (extent < 0 || extent > kMostIndices)
        refuse_array(shape.array(),
                     format("expected extents from 0 to {}, found {}", kMostIndices, extent));
    size_ = {extents[0], extents[1], values_.elements()};
    expect_list(begins_.array(), size_.columns + 1, "one more than columns");
    expect_list(values_.array(), size_.entries, "one axis");
    expect_list(rows_.array(), size_.entries, "as data has");
  }

  const MatrixSize& size() const { return size_; }

  SparseColumns read(ops::Range kept) {
    expect_rows(kept, size_, origin_);
    SparseColumns matrix{kept.size(), size_.columns, read_begins(), {}, {}};
    const auto likely = likely_entries(size_.entries, kept, size_.rows);
    matrix.row.reserve(likely);
    matrix.values.reserve(likely);
    int64_t entry = 0;
    for (int64_t j = 0; j < size_.columns; ++j) {
      int64_t& end = matrix.begins[static_cast<size_t>(j) + 1];
      int64_t before = -1;
      for (; entry < end; ++entry) {
        const auto [row, value] = at(entry);
        if (row <= before || row >= size_.rows) [[unlikely]]
          refuse_row(entry, j, before, row);
        before = row;
        if (row < kept.begin || row >= kept.end) continue;
        matrix.row.push_back(static_cast<int32_t>(row - kept.begin));
        matrix.values.push_back(value);
      }
      end = matrix.entries();
    }
    return matrix;
  }

 private:
  std::vector<int64_t> read_begins() {
    std::vector<int64_t> begins(static_cast<size_t>(begins_.elements()));
    begins_.read(0, begins);
    if (begins.front() != 0)
      refuse_array(begins_.array(), format("it begins with {}; expected 0", begins.front()));
    const auto fall = std::is_sorted_until(begins.begin(), begins.end());
    if (fall != begins.end())
      refuse_array(begins_.array(), format("element {} is {}, less than the one before",
                                           fall - begins.begin(), *fall));
    if (begins.back() != size_.entries)
      refuse_array(begins_.array(), format("it ends with {}; expected {}, as many as data has",
                                           begins.back(), size_.entries));
    return begins;
  }

  struct Entry {
    int64_t row;
    double value;
  };
  // Entries are asked for in order.
  Entry at(int64_t entry) {
    const auto i = static_cast<size_t>(entry % kPieceOfArray);
    if (i == 0) {
      const auto count = static_cast<size_t>(std::min(kPieceOfArray, size_.entries - entry));
      row_piece_.resize(count);
      value_piece_.resize(count);
      rows_.read(entry, row_piece_);
      values_.read(entry, value_piece_);
    }
    if (!std::isfinite(value_piece_[i])) [[unlikely]]
      refuse_array(values_.array(), format("element {}: expected a finite number, found {}", entry,
                                           value_piece_[i]));
    return {row_piece_[i], value_piece_[i]};
  }

  [[noreturn]] void refuse_row(int64_t entry, int64_t column, int64_t before, int64_t row) const {
    if (row < 0 || row >= size_.rows)
      refuse_array(rows_.array(),
                   format("element {}: expected a row below {}, found {}", entry, size_.rows, row));
    refuse_array(
        rows_.array(),
        format("element {}: row {} of column {} comes behind row {}; save the matrix after "
               ".sum_duplicates()",
               entry, row, column, before));
  }

  std::string origin_;
  ZipArchive archive_;
  Integers begins_;
  Integers rows_;
  Reals values_;
  MatrixSize size_;
  std::vector<int64_t> row_piece_;
  std::vector<double> value_piece_;
};

}  // namespace

MatrixSize read_csc_size(const std::shared_ptr<const ByteSource>& archive) {
  return CscArchive(archive).size();
}

SparseColumns read_csc_arrays(const std::shared_ptr<const ByteSource>& archive, ops::Range rows) {
  return CscArchive(archive).read(rows);
}

std::vector<double> read_column_array(const std::shared_ptr<const ByteSource>& file) {
  Reals numbers(file);
  const std::vector<int64_t>& extents = numbers.array().header().extents;
  const bool one = extents.size() == 1 || (extents.size() == 2 && extents[1] == 1);
  if (!one)
    refuse_array(numbers.array(),
                 format("its shape is ({}); expected (N) or (N, 1)", fmt::join(extents, ", ")));
  std::vector<double> column(static_cast<size_t>(numbers.elements()));
  numbers.read(0, column);
  const auto found = std::find_if(column.begin(), column.end(),
                                  [](double number) { return !std::isfinite(number); });
  if (found != column.end())
    refuse_array(numbers.array(), format("element {}: expected a finite number, found {}",
                                         found - column.begin(), *found));
  return column;
}

}  // namespace kerf::apps
