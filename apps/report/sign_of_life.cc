#include "apps/report/sign_of_life.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <utility>

#include "apps/report/terminal.h"
#include "runtime/error.h"

namespace kerf::apps {

namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr const char* kStartOfEmptyLine = "\r\033[K";

}  // namespace

SignOfLife::SignOfLife(Options options) : options_(std::move(options)), begun_(now()) {}

SignOfLife::~SignOfLife() {
  if (line_) options_.write(kStartOfEmptyLine);
}

void SignOfLife::tell(const std::string& doing, const std::string& what) {
  const Time time = now();
  if (!options_.terminal || time - begun_ < seconds(2)) return;
  if (line_ && time - drawn_ < milliseconds(100)) return;
  drawn_ = time;
  line_ = true;
  std::string line = format("{}, {} s: {}", doing,
                            std::chrono::duration_cast<seconds>(time - begun_).count(), what);
  const int width = options_.width ? options_.width() : 80;
  line.resize(std::min(line.size(), static_cast<size_t>(std::max(width - 1, 0))));
  options_.write(kStartOfEmptyLine + line);
}

SignOfLife::Options life_on_stderr() {
  return {.terminal = takes_escapes(STDERR_FILENO),
          .width = [] { return terminal_width(STDERR_FILENO); },
          .now = {},
          .write =
              [](const std::string& text) {
                std::fputs(text.c_str(), stderr);
                std::fflush(stderr);
              }};
}

}  // namespace kerf::apps
