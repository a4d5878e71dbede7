// Data sets of text for language models, out of one file:
//
//   text:FILE    a token is a byte: 256 of them
//   words:FILE   a token is a word between white space, or the end of a line. Token 0 is every word
//                that has no number; the others are the commonest, 1 the commonest of all, equally
//                common ones in the order of their bytes
//
// A row is LENGTH tokens, one behind the other; the label of each is the token that follows. The
// last tenth of the rows is for tests. Bytes are read in pieces; of words the file's tokens are
// kept in memory, four bytes each, once an input is read. Thread-safe.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "apps/data/byte_source.h"
#include "schedmp/dataset.h"

namespace kerf::apps {

enum class TokensOf : uint8_t { kBytes, kWords };

class TextRows : public schedmp::Dataset {
 public:
  // "LENGTHxVOCABULARY:FILE". Throws Error{kUsage} that names the file.
  TextRows(TokensOf tokens, const std::string& sizes_and_file, schedmp::Split split);

  int64_t rows() const override { return rows_; }
  std::optional<ops::ValueSpec> input(std::string_view name) const override;
  ops::Shape labels() const override { return {ops::kBatch, length_}; }
  int64_t classes() const override;
  std::string fingerprint() const override;
  void read_input(std::string_view name, std::span<const int64_t> rows,
                  const ops::TensorView& to) const override;
  void read_labels(std::span<const int64_t> rows, const ops::TensorView& to) const override;
  int64_t held_bytes() const override { return held_; }
  bool loads_ahead() const override { return tokens_ == TokensOf::kBytes; }

 private:
  void read(std::span<const int64_t> rows, int64_t shift, const ops::TensorView& to) const;
  // Of words: how many the file has; and all of them by number.
  int64_t count_words() const;
  void number_words() const;

  TokensOf tokens_;
  int64_t length_ = 0;
  int64_t vocabulary_ = 0;
  std::unique_ptr<FileBytes> file_;
  int64_t rows_ = 0;
  int64_t first_ = 0;  // row of the file
  mutable std::once_flag numbered_;
  mutable std::vector<int32_t> numbers_;
  mutable std::atomic<int64_t> held_ = 0;
};

}  // namespace kerf::apps
