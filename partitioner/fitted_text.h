// Texts made to fit a width, of pictures and tables. Pure functions.
#pragma once

#include <string>
#include <vector>

namespace kerf::partitioner {

inline constexpr size_t kLettersTold = 80;  // of a text of anybody's that an error tells

// At most `most` characters (of 8 at least): a longer text loses its middle, mostly of its
// beginning, for names of operators differ at their ends: "features.denseblock1.denselayer2.conv1"
// -> "fea..denselayer2.conv1".
std::string elided(const std::string& text, size_t most);

// Lines of at most `most` characters, broken at blanks; a longer word has a line of its own.
std::vector<std::string> wrapped(const std::string& text, size_t most);

}  // namespace kerf::partitioner
