// Tables for people: columns aligned, the first and words to the left, numbers to the right.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace kerf::apps {

class Table {
 public:
  explicit Table(std::vector<std::string> header) : header_(std::move(header)) {}

  // As many cells as the header has.
  void add(std::vector<std::string> row);
  // Every line ends with a line feed.
  std::string text(bool colour = false) const;

 private:
  std::vector<std::string> header_;
  std::vector<std::vector<std::string>> rows_;
};

// Of so many points, at least one, the places of those that a table of at most so many rows has:
// the first and the last, and others as far apart as can be.
std::vector<size_t> told_places(size_t points, size_t most_rows);

// 0.1234 -> "12.3 %".
std::string human_percent(double fraction);

// A cell: 1536 -> "1.5 KiB".
std::string bytes_text(int64_t count);

}  // namespace kerf::apps
