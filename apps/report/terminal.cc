#include "apps/report/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>
#include <string_view>

#include "runtime/format.h"

namespace kerf::apps {

bool takes_escapes(int descriptor) {
  const char* kind = std::getenv("TERM");
  return ::isatty(descriptor) == 1 && kind != nullptr && *kind != '\0' &&
         std::string_view(kind) != "dumb";
}

int terminal_width(int descriptor) {
  winsize size{};
  if (::ioctl(descriptor, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return 80;
  return size.ws_col;
}

bool wants_colour(int descriptor) {
  const char* no = std::getenv("NO_COLOR");
  return takes_escapes(descriptor) && (no == nullptr || *no == '\0');
}

std::string painted(const std::string& text, Ink ink, bool colour) {
  if (!colour) return text;
  const char* code = ink == Ink::kBold ? "1" : ink == Ink::kRed ? "31" : "32";
  return format("\x1b[{}m{}\x1b[0m", code, text);
}

std::string printable(const std::string& message) {
  std::string text;
  for (size_t i = 0; i < message.size(); ++i) {
    const auto byte = static_cast<unsigned char>(message[i]);
    const bool report = byte == '\n' && message.compare(i + 1, 2, "  ") == 0;
    if ((byte < ' ' && !report) || byte == 0x7f)
      text += format("\\x{:02x}", byte);
    else
      text += message[i];
  }
  return text;
}

}  // namespace kerf::apps
