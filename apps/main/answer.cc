#include "apps/main/answer.h"

#include <unistd.h>

#include <cstdio>

#include "apps/report/encrypted_text.h"
#include "apps/report/terminal.h"
#include "runtime/format.h"
#include "runtime/process.h"

namespace kerf::apps {

void add_json_flag(CLI::App& command, bool& json) {
  command.add_flag("--json", json, "Print JSON");
}

void answer(bool json, const std::function<Json()>& for_programs,
            const std::function<std::string(bool colour)>& for_people) {
  const bool colour = wants_colour(STDOUT_FILENO);
  const std::string text =
      json ? json_text(for_programs(), 2) + "\n" : shown(for_people(colour), colour);
  std::fputs(text.c_str(), stdout);
}

void answer_of_run(bool json, bool data_encrypted, const std::function<Json()>& for_programs,
                   const std::function<std::string(bool colour)>& for_people) {
  answer(
      json,
      [&] {
        Json all = for_programs();
        all["data_encrypted"] = data_encrypted;
        return all;
      },
      [&](bool colour) { return for_people(colour) + encrypted_text(data_encrypted); });
}

void tell_line(const std::string& line) {
  const std::string text = line + "\n";  // at once: lines of several processes meet here
  std::fputs(text.c_str(), stderr);
}

void tell_notes(const std::vector<std::string>& notes) {
  for (const std::string& note : notes)
    tell_line(format("{}: note: {}", runtime::program_name(), printable(note)));
}

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

}  // namespace kerf::apps
