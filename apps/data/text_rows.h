// Data sets of text for language models, out of one file:
//
//   text:FILE    a token is a byte: 256 of them
//   words:FILE   a token is a word by its number (words.h)
//
// A row is LENGTH tokens, one behind the other; the label of each is the token that follows. The
// last tenth of the rows is for tests. Bytes are read in pieces; of words the file's numbers are
// kept in memory once an input is read. Thread-safe.
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "apps/data/byte_source.h"
#include "apps/data/words.h"
#include "schedmp/dataset.h"

namespace kerf::apps {

enum class TokensOf : uint8_t { kBytes, kWords };

class TextRows : public schedmp::Dataset {
 public:
  // Of bytes, the file; of words, as many tokens as they are numbers for. Throw Error{kUsage} that
  // names the file.
  TextRows(std::shared_ptr<const ByteSource> bytes, int64_t length, schedmp::Split split);
  TextRows(std::shared_ptr<const Words> words, int64_t length, int64_t vocabulary,
           schedmp::Split split);

  int64_t rows() const override { return rows_; }
  std::optional<ops::ValueSpec> input(std::string_view name) const override;
  bool has_own(std::string_view /*name*/) const override { return false; }
  ops::Shape labels() const override { return {ops::kBatch, length_}; }
  int64_t classes() const override { return vocabulary_; }
  schedmp::Numbering numbering() const override;
  std::string fingerprint() const override;
  void read_input(std::string_view name, std::span<const int64_t> rows,
                  const ops::TensorView& to) const override;
  void read_labels(std::span<const int64_t> rows, const ops::TensorView& to) const override;
  void prepare(std::span<const std::string> inputs) const override;
  // Of words, of the split that was prepared first.
  int64_t held_bytes() const override { return held_; }
  bool loads_ahead() const override { return words_ == nullptr; }

 private:
  void read(std::span<const int64_t> rows, int64_t shift, const ops::TensorView& to) const;
  // Takes the rows of its split out of so many tokens.
  void divide(int64_t tokens, schedmp::Split split);
  const ByteSource& file() const { return words_ == nullptr ? *bytes_ : words_->file(); }

  int64_t length_ = 0;
  int64_t vocabulary_ = 0;
  std::shared_ptr<const ByteSource> bytes_;  // one of the two
  std::shared_ptr<const Words> words_;
  int64_t rows_ = 0;
  int64_t first_ = 0;  // row of the file
  mutable std::atomic<int64_t> held_ = 0;
};

// "LENGTH:FILE" of bytes, "LENGTHxVOCABULARY:FILE" of words. Throws Error{kUsage} that names the
// file.
std::shared_ptr<const TextRows> open_text(TokensOf tokens, const std::string& sizes_and_file,
                                          schedmp::Split split,
                                          const schedmp::DataRequest& request = {},
                                          OpenWords* open = nullptr);

}  // namespace kerf::apps
