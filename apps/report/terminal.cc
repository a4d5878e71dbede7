#include "apps/report/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>

#include "runtime/format.h"

namespace kerf::apps {

bool is_terminal(int descriptor) { return ::isatty(descriptor) == 1; }

int terminal_width(int descriptor) {
  winsize size{};
  if (::ioctl(descriptor, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return 80;
  return size.ws_col;
}

bool wants_colour(int descriptor) {
  const char* no = std::getenv("NO_COLOR");
  return is_terminal(descriptor) && (no == nullptr || *no == '\0');
}

std::string painted(const std::string& text, Ink ink, bool colour) {
  if (!colour) return text;
  const char* code = ink == Ink::kBold ? "1" : ink == Ink::kRed ? "31" : "32";
  return format("\x1b[{}m{}\x1b[0m", code, text);
}

}  // namespace kerf::apps
