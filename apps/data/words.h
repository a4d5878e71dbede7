// The words of a text file, by number: what the splits of a data set of words have in common.
//
// A word is what lies between white space, or the end of a line. Number 0 is every word that has no
// number; the others are the commonest, 1 the commonest of all, equally common ones in the order of
// their bytes. Thread-safe.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "apps/data/byte_source.h"

namespace kerf::apps {

class Words {
 public:
  // Goes through the file once. Throws Error{kUsage} that names it.
  Words(std::shared_ptr<const ByteSource> file, int64_t vocabulary);

  const ByteSource& file() const { return *file_; }
  int64_t count() const { return count_; }
  // Numbers them, twice through the file, unless that is done; says whether it did it now. Four
  // bytes of memory for each. Throws as the constructor.
  bool number() const;
  // All words of the file; number() comes before.
  std::span<const int32_t> numbers() const { return numbers_; }

 private:
  std::shared_ptr<const ByteSource> file_;
  int64_t vocabulary_;
  int64_t count_ = 0;
  mutable std::once_flag numbered_;
  mutable std::vector<int32_t> numbers_;
};

// Words that are open, so that a file is gone through once for both splits. Thread-safe.
class OpenWords {
 public:
  std::shared_ptr<const Words> open(const std::filesystem::path& path, int64_t vocabulary,
                                    const Working& working);

 private:
  std::mutex mutex_;
  std::map<std::pair<std::filesystem::path, int64_t>, std::weak_ptr<const Words>> words_;
};

}  // namespace kerf::apps
