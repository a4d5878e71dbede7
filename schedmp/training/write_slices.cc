// The writing half of stored_slices.h: which rows of which slice go into which file.
#include <algorithm>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include "runtime/error.h"
#include "runtime/json.h"
#include "schedmp/training/stored_slices.h"
#include "schedmp/training/weight_slices.h"

namespace kerf::schedmp {

namespace {

Json json_of(const StoredSlice& slice, const ops::Box& rows) {
  Json box = Json::array();
  for (const ops::IndexSet& axis : rows.axes) box.push_back(ops::to_string(axis));
  const ops::Shape& shape = slice.whole.shape;
  return {{"kind", slice.kind},
          {"tensor", slice.tensor},
          {"shape", std::vector<int64_t>(shape.begin(), shape.end())},
          {"box", std::move(box)}};
}

// Consecutive rows of a slice that go into one file.
struct Cut {
  size_t slice = 0;
  ops::Box box = {};
  int64_t bytes = 0;
};

ops::Box rows_of_box(const ops::Box& box, const ops::Shape& shape, ops::Range rows) {
  ops::Box some = box;
  if (!some.axes.empty()) some.axes[0] = indices_of(box.axes[0], shape[0], rows);
  return some;
}

// By file, in the order of the slices; `most` bytes a file, or one row.
std::vector<std::vector<Cut>> pieces_of(const std::vector<StoredSlice>& slices, int64_t most) {
  std::vector<std::vector<Cut>> pieces(1);
  int64_t room = most;
  for (size_t slice = 0; slice < slices.size(); ++slice) {
    const auto& [kind, tensor, whole, box, write] = slices[slice];
    const ops::ValueSpec local{whole.dtype, ops::local_shape(box, whole.shape)};
    const int64_t rows = local.shape.rank() == 0 ? 1 : local.shape[0];
    const int64_t row_bytes = static_cast<int64_t>(local.bytes(0)) / std::max<int64_t>(rows, 1);
    int64_t first = 0;
    do {
      int64_t fit = row_bytes == 0 ? rows - first : std::min(rows - first, room / row_bytes);
      if (fit == 0 && row_bytes > 0) {
        if (room < most) {
          pieces.emplace_back();
          room = most;
          continue;
        }
        fit = 1;
      }
      pieces.back().push_back(
          {slice, rows_of_box(box, whole.shape, {first, first + fit}), fit * row_bytes});
      room = std::max<int64_t>(room - fit * row_bytes, 0);
      first += fit;
    } while (first < rows);
  }
  return pieces;
}

// The bytes of slices, one behind the other, into the files into which they are cut.
class CutStream {
 public:
  CutStream(const std::vector<StoredSlice>& slices, PieceWriter& to)
      : slices_(slices), to_(to), pieces_(pieces_of(slices, to.most_bytes())) {
    begin_piece();
  }
  CutStream(const CutStream&) = delete;
  CutStream& operator=(const CutStream&) = delete;

  void write(std::string_view bytes) {
    while (!bytes.empty()) {
      while (left_ == 0) next_cut();
      const std::string_view some = bytes.substr(0, left_);
      stream_->write(some);
      left_ -= some.size();
      bytes.remove_prefix(some.size());
    }
  }

  // All were written.
  void finish() {
    KERF_CHECK(piece_ == pieces_.size(), "{} files were never written", pieces_.size() - piece_);
    stream_->finish();
  }

 private:
  void next_cut() {
    if (cut_ == pieces_[piece_ - 1].size()) {
      stream_->finish();
      begin_piece();
    }
    left_ = static_cast<size_t>(pieces_[piece_ - 1].at(cut_++).bytes);
  }

  void begin_piece() {
    std::vector<NamedSpec> specs;
    std::map<std::string, Json> told;
    for (const auto& [number, box, bytes] : pieces_.at(piece_)) {
      const StoredSlice& slice = slices_[number];
      const std::string name = kerf::format("{}/{}/{}", slice.kind, number, slice.tensor);
      specs.push_back({name, {slice.whole.dtype, ops::local_shape(box, slice.whole.shape)}});
      told[name] = json_of(slice, box);
    }
    to_.begin();
    stream_.emplace([this](std::string_view some) { to_.write(some); }, specs,
                    std::map<std::string, std::string>{{kSlicesKey, json_text(Json(told))}});
    ++piece_;
    cut_ = 0;
  }

  const std::vector<StoredSlice>& slices_;
  PieceWriter& to_;
  const std::vector<std::vector<Cut>> pieces_;
  size_t piece_ = 0;  // as many have begun
  size_t cut_ = 0;    // likewise, of the last piece
  size_t left_ = 0;   // bytes, of the last cut
  std::optional<SafetensorsStream> stream_;
};

}  // namespace

void write_slices(const std::vector<StoredSlice>& slices, PieceWriter& to) {
  CutStream stream(slices, to);
  for (const StoredSlice& slice : slices) {
    if (to.failed()) return;
    size_t left =
        ops::ValueSpec{slice.whole.dtype, ops::local_shape(slice.box, slice.whole.shape)}.bytes(0);
    slice.write([&](std::string_view bytes) {
      KERF_CHECK(bytes.size() <= left, "{} has {} bytes more", slice.tensor, bytes.size() - left);
      stream.write(bytes);
      left -= bytes.size();
    });
    KERF_CHECK(left == 0, "{} has {} bytes less", slice.tensor, left);
  }
  stream.finish();
}

}  // namespace kerf::schedmp
