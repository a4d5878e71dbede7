// The words of a text file, by number: what the splits of a data set of words have in common.
//
// A word is what lies between white space, or the end of a line. Number 0 is every word that has no
// number; the others are the commonest, 1 the commonest of all, equally common ones in the order of
// their bytes. Or they are numbered as in another file, by which weights were trained. Thread-safe.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "apps/data/byte_source.h"
#include "schedmp/dataset.h"

namespace kerf::apps {

class Words {
 public:
  // Goes through the file once. `given`: the words by number, from 1; empty: as common as they are.
  // Throws Error{kUsage} that names the file.
  Words(std::shared_ptr<const ByteSource> file, int64_t vocabulary,
        std::vector<std::string> given = {});

  const ByteSource& file() const { return *file_; }
  int64_t count() const { return count_; }
  // Which word is which number; where none were given, goes once through the file the first time.
  schedmp::Numbering numbering() const;
  // Of the words that were given, for fingerprints; empty where none were.
  std::string given_text() const;
  // Numbers them, twice through the file, unless that is done; says whether it did it now. Four
  // bytes of memory for each. Throws as the constructor.
  bool number_all() const;
  // All words of the file; number_all() comes before.
  std::span<const int32_t> numbers() const { return numbers_; }

 private:
  const std::vector<std::string>& names() const;

  std::shared_ptr<const ByteSource> file_;
  int64_t vocabulary_;
  int64_t count_ = 0;
  const std::vector<std::string> given_;
  mutable std::once_flag named_;
  mutable std::vector<std::string> names_;
  mutable std::once_flag numbered_;
  mutable std::vector<int32_t> numbers_;
};

// Words that are open, so that a file is gone through once for both splits. Thread-safe.
class OpenWords {
 public:
  std::shared_ptr<const Words> open(const std::filesystem::path& path, int64_t vocabulary,
                                    const schedmp::DataRequest& request);

 private:
  std::mutex mutex_;
  // By file, vocabulary and the words that were given.
  std::map<std::tuple<std::filesystem::path, int64_t, std::vector<std::string>>,
           std::weak_ptr<const Words>>
      words_;
};

}  // namespace kerf::apps
