#include "schedmp/piece_writer.h"

#include <algorithm>
#include <utility>

#include "runtime/error.h"

namespace kerf::schedmp {

std::filesystem::path piece_file(const std::filesystem::path& first, size_t piece) {
  std::filesystem::path file = first;
  if (piece > 0) file += kerf::format(".{}", piece);
  return file;
}

PieceWriter::PieceWriter(runtime::Store& store, std::filesystem::path first, int64_t most_bytes,
                         Alive alive)
    : store_(store), first_(std::move(first)), most_bytes_(most_bytes), alive_(std::move(alive)) {
  KERF_CHECK(most_bytes_ > 0, "pieces of {} bytes", most_bytes_);
}

void PieceWriter::begin() {
  end();
  if (failed()) return;
  piece_.emplace(store_, piece_file(first_, saved_.pieces.size()), alive_);
}

void PieceWriter::end() {
  if (!piece_) return;
  SavedPart saved = piece_->finish();
  piece_.reset();
  saved_.pieces.push_back(saved.part);
  saved_.failure = std::move(saved.failure);
}

void PieceWriter::write(std::string_view bytes) {
  KERF_CHECK(piece_ || failed(), "no piece was begun");
  if (piece_) piece_->write(bytes);
}

bool PieceWriter::failed() const { return !saved_.failure.empty() || (piece_ && piece_->failed()); }

SavedPieces PieceWriter::finish() {
  end();
  KERF_CHECK(!saved_.pieces.empty(), "nothing was written");
  return std::move(saved_);
}

void write_pieces(std::string_view bytes, PieceWriter& to) {
  const auto most = static_cast<size_t>(to.most_bytes());
  do {
    const std::string_view piece = bytes.substr(0, most);
    bytes.remove_prefix(piece.size());
    to.begin();
    to.write(piece);
  } while (!bytes.empty() && !to.failed());
}

}  // namespace kerf::schedmp
