#include "apps/report/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>
#include <string_view>

#include "runtime/format.h"

namespace kerf::apps {

namespace {

constexpr std::string_view kPlain = "\x1b[0m";

// The length of an escape that painted() writes; 0: there is none.
size_t ours_at(std::string_view text, size_t at) {
  for (const std::string_view escape : {kPlain, std::string_view("\x1b[1m"),
                                        std::string_view("\x1b[31m"), std::string_view("\x1b[32m")})
    if (text.substr(at, escape.size()) == escape) return escape.size();
  return 0;
}

}  // namespace

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
  return format("\x1b[{}m{}{}", code, text, kPlain);
}

std::string shown(const std::string& text, bool colour) {
  std::string shown;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const size_t ours = colour ? ours_at(text, i) : 0;
    if (ours > 0)
      shown += text.substr(i, ours);
    else if ((byte < ' ' && byte != '\n') || byte == 0x7f)
      shown += format("\\x{:02x}", byte);
    else
      shown += text[i];
    i += ours > 0 ? ours - 1 : 0;
  }
  return shown;
}

std::string in_line(const std::string& name) {
  std::string line;
  for (const char c : name) {
    const auto byte = static_cast<unsigned char>(c);
    line += byte < ' ' || byte == 0x7f ? format("\\x{:02x}", byte) : std::string(1, c);
  }
  return line;
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
