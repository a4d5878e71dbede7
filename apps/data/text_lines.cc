#include "apps/data/text_lines.h"

#include <algorithm>
#include <cstring>

#include "runtime/error.h"

namespace kerf::apps {

namespace {

constexpr size_t kPieceOfLines = size_t{1} << 20;
constexpr size_t kLongestLine = size_t{1} << 28;
constexpr size_t kMostShown = 40;

// A stranger's text, fit for an error.
std::string shown_field(std::string_view field) {
  if (field.empty()) return "the line's end";
  std::string shown(field.substr(0, kMostShown));
  for (char& letter : shown)
    if (letter < ' ' || letter > '~') letter = '?';
  return format("'{}{}'", shown, field.size() > kMostShown ? "..." : "");
}

}  // namespace

std::string_view Fields::word() {
  skip();
  const char* const begin = at_;
  while (at_ != end_ && !blank(*at_)) ++at_;
  return {begin, static_cast<size_t>(at_ - begin)};
}

TextLines::TextLines(const ByteSource& file)
    : file_(file), piece_(std::clamp<size_t>(file.size(), 1, kPieceOfLines)) {}

std::optional<std::string_view> TextLines::next() {
  size_t searched = 0;  // of the bytes from begin_ on
  for (;;) {
    const char* const begin = piece_.data() + begin_;
    const size_t size = end_ - begin_;
    const void* const newline = std::memchr(begin + searched, '\n', size - searched);
    const bool last = newline == nullptr && offset_ == file_.size();
    if (last && size == 0) return std::nullopt;
    if (newline != nullptr || last) {
      const char* const end = newline == nullptr ? begin + size : static_cast<const char*>(newline);
      std::string_view line(begin, static_cast<size_t>(end - begin));
      begin_ += line.size() + (last ? 0 : 1);
      ++number_;
      if (line.ends_with('\r')) line.remove_suffix(1);
      return line;
    }
    searched = size;
    if (!fill()) {
      ++number_;
      refuse(format("a line of more than {} bytes", kLongestLine));
    }
  }
}

// Keeps the begun line; false where it is too long for that.
bool TextLines::fill() {
  std::copy(piece_.begin() + static_cast<std::ptrdiff_t>(begin_),
            piece_.begin() + static_cast<std::ptrdiff_t>(end_), piece_.begin());
  end_ -= begin_;
  begin_ = 0;
  if (end_ >= kLongestLine) return false;
  if (end_ == piece_.size()) piece_.resize(2 * piece_.size());
  const size_t more = std::min(piece_.size() - end_, file_.size() - offset_);
  file_.read(offset_, std::as_writable_bytes(std::span(piece_)).subspan(end_, more));
  offset_ += more;
  end_ += more;
  return true;
}

void TextLines::refuse(const std::string& what) const {
  throw Error(ErrorCode::kUsage, what,
              format("{}:{}", file_.origin(), std::max<int64_t>(number_, 1)));
}

void TextLines::expected(const std::string& what, Fields found) const {
  refuse(format("expected {}, found {}", what, shown_field(found.word())));
}

}  // namespace kerf::apps
