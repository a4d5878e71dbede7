// Every reader of what comes from outside, over bytes in memory: what the fuzz target and the tests
// of seeded mutations call. One row each in readers.cc; the sound bytes that they begin with are in
// seeds.cc.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "runtime/error.h"

namespace kerf::tests {

struct Reader {
  std::string name;
  // Reads all that there is, of "the file". Throws Error for what is no such file.
  void (*read)(const std::string& bytes);
  // What reading may ask operator new for in all: so much, and so much for each byte.
  size_t most_always = 0;
  size_t most_per_byte = 0;
  ErrorCode refusal = ErrorCode::kUsage;
};

const std::vector<Reader>& readers();
// Throws std::out_of_range.
const Reader& find_reader(const std::string& name);

// Whether the reader takes them. Throws std::logic_error where it refuses them otherwise than it
// should: not as its user's fault, at great length or without the file's name.
bool takes(const Reader& reader, const std::string& bytes);

// What the reader takes, by name.
std::map<std::string, std::string> sound_bytes(const std::string& reader);

}  // namespace kerf::tests
