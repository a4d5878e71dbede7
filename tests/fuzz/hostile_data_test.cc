// What a data file claims costs nothing before it is there.
#include <gtest/gtest.h>

#include <random>

#include "apps/data/inflated_bytes.h"
#include "runtime/error.h"
#include "runtime/file.h"
#include "tests/apps/gzip.h"
#include "tests/fuzz/data_readers.h"
#include "tests/support/allocation_meter.h"
#include "tests/support/temporary_folder.h"

namespace kerf::tests {
namespace {

// The last four bytes of a gzip file say how much there is.
TEST(HostileData, WhatAGzipFileClaimsCostsNothing) {
  const TemporaryFolder folder;
  std::mt19937_64 random(3);
  std::string noise(60'000, '\0');
  for (char& byte : noise) byte = static_cast<char>(random());
  write_gzip(folder / "a.gz", noise);
  std::string bytes = runtime::read_file(folder / "a.gz");
  const uint32_t claim = 60'000'000;
  for (size_t i = 0; i < 4; ++i)
    bytes[bytes.size() - 4 + i] = static_cast<char>(claim >> 8 * i & 0xff);
  const auto contents = apps::open_gzip(bytes_in_memory(bytes));
  const size_t before = allocated_bytes();
  EXPECT_THROW(contents->prepare(), Error);
  EXPECT_LT(allocated_bytes() - before, size_t{4} << 20);
}

}  // namespace
}  // namespace kerf::tests
