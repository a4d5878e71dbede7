// What may be written where: colours and redrawn lines are for terminals only.
#pragma once

#include <string>

namespace kerf::apps {

bool is_terminal(int descriptor);
// Columns, 80 where unknown.
int terminal_width(int descriptor);
// A terminal, and the environment has no NO_COLOR (no-color.org).
bool wants_colour(int descriptor);

enum class Ink { kBold, kRed, kGreen };
std::string painted(const std::string& text, Ink ink, bool colour);

}  // namespace kerf::apps
