// A text that a process hands to the one that it becomes (begin_process_again): in memory, so that
// no disk is asked and no length is too much. Functions; the descriptor has one owner.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "runtime/open_file.h"

namespace kerf::runtime {

// Nobody can change it any more. Throws Error{kUnavailable}.
OpenFile hand_text(std::string_view text);
// What was handed over by that number, which is closed then. Throws Error{kUsage} where it is no
// such text, or larger than `max_bytes`; what it is else stays open.
std::string take_handed_text(int number, size_t max_bytes);

}  // namespace kerf::runtime
