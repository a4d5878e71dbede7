// Makes files that look like data sets, sound or not.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace kerf::tests {

// Writes `contents` compressed.
void write_gzip(const std::filesystem::path& path, const std::string& contents);
// A zip archive of these members as they are.
std::string stored_zip(const std::map<std::string, std::string>& members);
// An IDX header of unsigned bytes with this magic number and these extents.
std::string idx_header(uint32_t magic, const std::vector<uint32_t>& extents);
// A folder with `rows` training and test images of `side` x `side` pixels; pixel values and labels
// count up.
void write_fashion_mnist(const std::filesystem::path& folder, int rows, int side = 28);

}  // namespace kerf::tests
