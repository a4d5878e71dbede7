// The flags that one process of a run gives to the next, which goes on with it by the same command:
// behind those that a person gave, from a mark on. What an earlier process gave counts until it is
// given anew, so that there are no more of them however often a run goes on. Pure functions, but
// for those that hand something over.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "runtime/crew.h"
#include "runtime/open_file.h"

namespace kerf::apps {

inline constexpr const char* kGoesOnFlag = "--goes-on";       // the mark
inline constexpr const char* kReturningFlag = "--returning";  // of the next process alone

// Values by flag; of a flag that has none: empty.
using NextFlags = std::map<std::string, std::string>;

// The words of the next process: the first `given` of this one, and `more`.
struct NextWords {
  int given = 0;
  std::vector<std::string> more = {};
};
// Throws Error{kUsage} where behind the mark there is what no process gives.
NextWords next_words(int argc, const char* const* argv, const NextFlags& flags);

// Who may come back to which place: known only once the crew was let go, when no file should be
// needed any more, and too much for a flag where there are many hosts. So the flag says by which
// descriptor it is handed over (runtime/handed_text.h), and begin_process_again() keeps that open.
// Throws Error{kUnavailable}.
runtime::OpenFile hand_returning(const std::vector<runtime::Returning>& returning);
// Throws Error{kUsage} at the flag.
std::vector<runtime::Returning> take_returning(int number);

}  // namespace kerf::apps
