#include "partitioner/fitted_text.h"

#include <sstream>

namespace kerf::partitioner {

namespace {

constexpr size_t kBeginning = 3;  // that stays of what is elided

// Whether a character begins: UTF-8 has others behind it that continue it.
bool begins(const std::string& text, size_t at) {
  return (static_cast<unsigned char>(text[at]) & 0xC0) != 0x80;
}

}  // namespace

std::string elided(const std::string& text, size_t most) {
  if (text.size() <= most) return text;
  size_t first = kBeginning;
  while (first > 0 && !begins(text, first)) --first;
  size_t last = text.size() - (most - kBeginning - 2);
  while (last < text.size() && !begins(text, last)) ++last;
  return text.substr(0, first) + ".." + text.substr(last);
}

std::vector<std::string> wrapped(const std::string& text, size_t most) {
  std::vector<std::string> lines;
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    if (lines.empty() || lines.back().size() + 1 + word.size() > most)
      lines.push_back(word);
    else
      lines.back() += " " + word;
  }
  return lines;
}

}  // namespace kerf::partitioner
