#include "apps/report/table.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "apps/report/terminal.h"
#include "runtime/error.h"

namespace kerf::apps {

namespace {

std::string line_of(const std::vector<std::string>& cells, const std::vector<size_t>& widths) {
  std::string line;
  for (size_t i = 0; i < cells.size(); ++i) {
    const std::string fill(widths[i] - cells[i].size(), ' ');
    if (i > 0) line += "  ";
    line += i == 0 ? cells[i] + fill : fill + cells[i];
  }
  line.erase(line.find_last_not_of(' ') + 1);
  return line;
}

}  // namespace

void Table::add(std::vector<std::string> row) {
  KERF_CHECK(row.size() == header_.size());
  rows_.push_back(std::move(row));
}

std::string Table::text(bool colour) const {
  std::vector<size_t> widths;
  for (size_t i = 0; i < header_.size(); ++i) {
    widths.push_back(header_[i].size());
    for (const auto& row : rows_) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text = painted(line_of(header_, widths), Ink::kBold, colour) + "\n";
  for (const auto& row : rows_) text += line_of(row, widths) + "\n";
  return text;
}

std::string human_percent(double fraction) { return format("{:.1f} %", fraction * 100); }

std::string bytes_text(int64_t count) { return human_bytes(static_cast<double>(count)); }

}  // namespace kerf::apps
