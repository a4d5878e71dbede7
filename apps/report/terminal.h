// What may be written where: colours and redrawn lines are for terminals that obey them.
#pragma once

#include <string>

namespace kerf::apps {

// Columns, 80 where unknown.
int terminal_width(int descriptor);
// A terminal that obeys escape sequences: TERM names one, and not "dumb".
bool takes_escapes(int descriptor);
// It does, and the environment has no NO_COLOR (no-color.org).
bool wants_colour(int descriptor);

enum class Ink { kBold, kRed, kGreen };
std::string painted(const std::string& text, Ink ink, bool colour);

// Control characters of a message, which may come from arguments and files, as \x1b. A line break
// stays where an indented line follows: a report of several lines.
std::string printable(const std::string& message);
// A message that can be read: a longer one, as a name of megabytes in a file makes it, loses its
// middle.
std::string readable(const std::string& message);

// Of a text for people that is written in one: all but line breaks, and the colours that painted()
// gave it.
std::string shown(const std::string& text, bool colour);
// Of a name that stands within a line: line breaks, too.
std::string in_line(const std::string& name);

}  // namespace kerf::apps
