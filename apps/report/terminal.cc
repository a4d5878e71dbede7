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

// The length of a control character; 0: there is none. Those behind 0x7f are two bytes of UTF-8.
size_t control_at(std::string_view text, size_t at) {
  const auto byte = static_cast<unsigned char>(text[at]);
  if (byte < ' ' || byte == 0x7f) return 1;
  const auto next = at + 1 < text.size() ? static_cast<unsigned char>(text[at + 1]) : 0;
  return byte == 0xc2 && next >= 0x80 && next < 0xa0 ? 2 : 0;
}

// Control characters as \x1b, but for as many bytes as `stays` says that begin at one.
template <class Stays>
std::string with_escapes(std::string_view text, const Stays& stays) {
  std::string shown;
  for (size_t at = 0; at < text.size();) {
    const size_t control = control_at(text, at);
    const size_t kept = control == 0 ? 1 : stays(at);
    if (kept > 0) {
      shown += text.substr(at, kept);
      at += kept;
      continue;
    }
    for (const char byte : text.substr(at, control))
      shown += format("\\x{:02x}", static_cast<unsigned char>(byte));
    at += control;
  }
  return shown;
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
  return with_escapes(text, [&](size_t at) -> size_t {
    return text[at] == '\n' ? 1 : colour ? ours_at(text, at) : 0;
  });
}

std::string in_line(const std::string& name) {
  return with_escapes(name, [](size_t) -> size_t { return 0; });
}

std::string printable(const std::string& message) {
  return with_escapes(message, [&](size_t at) -> size_t {
    return message[at] == '\n' && message.compare(at + 1, 2, "  ") == 0 ? 1 : 0;
  });
}

std::string readable(const std::string& message) {
  constexpr size_t kMost = 16384;
  constexpr size_t kEnd = 1024;
  if (message.size() <= kMost) return message;
  const size_t left_out = message.size() - kMost;
  return format("{} [{} characters left out] {}", message.substr(0, kMost - kEnd), left_out,
                message.substr(message.size() - kEnd));
}

}  // namespace kerf::apps
