// Text files of numbers, a line at a time, and the fields of a line, which blanks divide. Pieces of
// the file are read, and of the text no more is kept than a piece or the longest line.
//
// One owner each.
#pragma once

#include <charconv>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "apps/data/byte_source.h"

namespace kerf::apps {

// Walks along a line, which must outlive it.
class Fields {
 public:
  explicit Fields(std::string_view line) : at_(line.data()), end_(line.data() + line.size()) {}

  // Whether nothing but blanks is left.
  bool done() {
    skip();
    return at_ == end_;
  }
  // The next field, empty behind the last.
  std::string_view word();
  // The next field if it is a number as a whole: where it is none, or one that Number cannot hold,
  // this stays before it. A '+' is taken, as what writes "%+d" has it.
  template <class Number>
  bool take(Number& number) {
    const char* const next = parsed(number);
    if (next == nullptr || (next != end_ && !blank(*next))) return false;
    at_ = next;
    return true;
  }
  // The same of the number before a ':', which something follows at once.
  template <class Number>
  bool take_key(Number& number) {
    const char* const colon = parsed(number);
    if (colon == nullptr || end_ - colon < 2 || *colon != ':' || blank(colon[1])) return false;
    at_ = colon + 1;
    return true;
  }

 private:
  static bool blank(char symbol) { return symbol == ' ' || symbol == '\t'; }
  void skip() {
    while (at_ != end_ && blank(*at_)) ++at_;
  }
  // Where the number ends, null where there is none.
  template <class Number>
  const char* parsed(Number& number) {
    skip();
    const char* begin = at_;
    if (end_ - begin > 1 && *begin == '+' && begin[1] != '-') ++begin;
    const auto [next, fault] = std::from_chars(begin, end_, number);
    return fault == std::errc() ? next : nullptr;
  }

  const char* at_;
  const char* end_;
};

class TextLines {
 public:
  explicit TextLines(const ByteSource& file);

  // Without its end, "\n" or "\r\n"; nothing behind the last. Valid until the next call. Throws
  // Error{kUsage} where the file cannot be read, or a line is enormous.
  std::optional<std::string_view> next();
  int64_t number() const { return number_; }  // of the line that next() gave, from 1
  const ByteSource& file() const { return file_; }

  // Throw Error{kUsage} at "FILE:LINE"; the second names what stands in the line instead.
  [[noreturn]] void refuse(const std::string& what) const;
  [[noreturn]] void expected(const std::string& what, Fields found) const;

 private:
  bool fill();

  const ByteSource& file_;
  std::vector<char> piece_;
  size_t begin_ = 0;  // what is left of the piece
  size_t end_ = 0;
  size_t offset_ = 0;  // in the file, where the next piece begins
  int64_t number_ = 0;
};

}  // namespace kerf::apps
