#include "apps/report/table.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>

#include "apps/report/terminal.h"
#include "runtime/error.h"

namespace kerf::apps {

namespace {

struct Column {
  size_t width = 0;
  bool left = false;
};

bool begins_with_letter(const std::string& cell) {
  return !cell.empty() && std::isalpha(static_cast<unsigned char>(cell[0])) != 0;
}

std::string line_of(const std::vector<std::string>& cells, const std::vector<Column>& columns) {
  std::string line;
  for (size_t i = 0; i < cells.size(); ++i) {
    const std::string fill(columns[i].width - cells[i].size(), ' ');
    if (i > 0) line += "  ";
    line += columns[i].left ? cells[i] + fill : fill + cells[i];
  }
  line.erase(line.find_last_not_of(' ') + 1);
  return line;
}

}  // namespace

void Table::add(std::vector<std::string> row) {
  KERF_CHECK(row.size() == header_.size());
  for (std::string& cell : row) cell = in_line(cell);
  rows_.push_back(std::move(row));
}

std::string Table::text(bool colour) const {
  std::vector<Column> columns;
  for (size_t i = 0; i < header_.size(); ++i) {
    Column column{header_[i].size(), i == 0};
    for (const auto& row : rows_) {
      column.width = std::max(column.width, row[i].size());
      column.left = column.left || begins_with_letter(row[i]);
    }
    columns.push_back(column);
  }
  std::string text = painted(line_of(header_, columns), Ink::kBold, colour) + "\n";
  for (const auto& row : rows_) text += line_of(row, columns) + "\n";
  return text;
}

std::vector<size_t> told_places(size_t points, size_t most_rows) {
  const size_t rows = std::min(points, most_rows);
  if (rows == 1) return {points - 1};
  std::vector<size_t> places;
  for (size_t row = 0; row < rows; ++row) places.push_back(row * (points - 1) / (rows - 1));
  return places;
}

std::string human_percent(double fraction) { return format("{:.1f} %", fraction * 100); }

std::string bytes_text(int64_t count) { return human_bytes(static_cast<double>(count)); }

}  // namespace kerf::apps
