// A table of the report's page (page.h): cells are texts, and are escaped. Plain value.
#pragma once

#include <string>
#include <vector>

#include "partitioner/svg.h"

namespace kerf::apps {

class PageTable {
 public:
  explicit PageTable(const std::vector<std::string>& header) : html_("<table>\n") {
    row(header, "th");
  }
  void add(const std::vector<std::string>& cells) { row(cells, "td"); }
  std::string html() const { return "<div class=\"wide\">\n" + html_ + "</table>\n</div>\n"; }

 private:
  void row(const std::vector<std::string>& cells, const std::string& tag) {
    html_ += "<tr>";
    for (const std::string& cell : cells)
      html_ += "<" + tag + ">" + partitioner::escape_xml(cell) + "</" + tag + ">";
    html_ += "</tr>\n";
  }

  std::string html_;
};

}  // namespace kerf::apps
