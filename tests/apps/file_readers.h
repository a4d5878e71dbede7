// The readers of data files over bytes in memory, as tests of hostile files call them: each reads
// all that there is.
#pragma once

#include <memory>
#include <string>

#include "apps/data/byte_source.h"

namespace kerf::tests {

// What errors name "the file".
std::shared_ptr<const apps::ByteSource> bytes_in_memory(std::string bytes);

// Throw Error{kUsage} for what is no such file.
void read_npy(const std::string& bytes);
void read_npz(const std::string& bytes);
void read_gzip(const std::string& bytes);
// As PNG or JPEG, in grey and in colours.
void read_picture(const std::string& bytes);
void read_idx(const std::string& images, const std::string& labels);

}  // namespace kerf::tests
