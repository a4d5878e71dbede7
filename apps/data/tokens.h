// A data set of token sequences that a model with a memory can learn: for benchmarks and tests,
// needs no files.
//
// A counting language: a row counts from a random token by 1, 2 or 3, wrapping around at the end of
// the vocabulary, as in 7 9 11 13 ...; the label of each position is the token that follows. Who
// sees only one token can at best guess among three (loss ln 3); who remembers the one before knows
// the step. Every row is a function of (split, row), so all workers see the same. Immutable;
// thread-safe.
//
// And pairs of such sequences, for models that read one and write another: the target goes on
// counting where the source ends. What a model reads of it comes one token late, behind a 0, so
// that only the source tells the first.
#pragma once

#include <string>

#include "schedmp/dataset.h"

namespace kerf::apps {

class Tokens : public schedmp::Dataset {
 public:
  // "ROWSxLENGTHxVOCABULARY"; the test split has an eighth of the rows. Throws Error{kUsage}.
  Tokens(const std::string& sizes, schedmp::Split split);

  int64_t rows() const override { return rows_; }
  std::optional<ops::ValueSpec> input(std::string_view name) const override;
  bool named(std::string_view /*name*/) const override { return false; }
  ops::Shape labels() const override { return {ops::kBatch, length_}; }
  int64_t classes() const override { return vocabulary_; }
  std::string fingerprint() const override;
  void read_input(std::string_view name, std::span<const int64_t> rows,
                  const ops::TensorView& to) const override;
  void read_labels(std::span<const int64_t> rows, const ops::TensorView& to) const override;

 private:
  // Tokens `shift` to `shift` + length of each row.
  void read(std::span<const int64_t> rows, int64_t shift, const ops::TensorView& to) const;

  schedmp::Split split_;
  int64_t rows_ = 0;
  int64_t length_ = 0;
  int64_t vocabulary_ = 0;
};

class TokenPairs : public schedmp::Dataset {
 public:
  // "ROWSxSOURCExTARGETxVOCABULARY"; the test split has an eighth of the rows. Throws
  // Error{kUsage}.
  TokenPairs(const std::string& sizes, schedmp::Split split);

  int64_t rows() const override { return rows_; }
  // Of "source" and "target".
  std::optional<ops::ValueSpec> input(std::string_view name) const override;
  ops::Shape labels() const override { return {ops::kBatch, target_}; }
  int64_t classes() const override { return vocabulary_; }
  std::string fingerprint() const override;
  void read_input(std::string_view name, std::span<const int64_t> rows,
                  const ops::TensorView& to) const override;
  void read_labels(std::span<const int64_t> rows, const ops::TensorView& to) const override;

 private:
  schedmp::Split split_;
  int64_t rows_ = 0;
  int64_t source_ = 0;  // tokens
  int64_t target_ = 0;
  int64_t vocabulary_ = 0;
};

}  // namespace kerf::apps
