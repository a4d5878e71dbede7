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
#include <vector>

#include "schedmp/dataset.h"

namespace kerf::apps {

// Rows that count, and whose labels go on counting.
class CountingRows : public schedmp::Dataset {
 public:
  int64_t rows() const final { return rows_; }
  ops::Shape labels() const final { return {ops::kBatch, labels_}; }
  int64_t classes() const final { return vocabulary_; }
  std::string fingerprint() const final;
  void read_labels(std::span<const int64_t> rows, const ops::TensorView& to) const final;

 protected:
  // `kind` and the sizes in its name: the rows first, of which the test split has an eighth, the
  // vocabulary last. Labels are the numbers from `begin` on of what a row counts, `length` of them.
  CountingRows(std::string kind, std::vector<int64_t> sizes, schedmp::Split split, int64_t begin,
               int64_t length);
  // The same of other numbers.
  void count(std::span<const int64_t> rows, int64_t begin, int64_t length,
             const ops::TensorView& to) const;

 private:
  const std::string kind_;
  const std::vector<int64_t> sizes_;
  const schedmp::Split split_;
  const int64_t rows_;
  const int64_t vocabulary_;
  const int64_t begin_;  // of labels
  const int64_t labels_;
};

class Tokens final : public CountingRows {
 public:
  // "ROWSxLENGTHxVOCABULARY". Throws Error{kUsage}.
  Tokens(const std::string& sizes, schedmp::Split split);

  std::optional<ops::ValueSpec> input(std::string_view name) const override;
  bool has_own(std::string_view /*name*/) const override { return false; }
  void read_input(std::string_view name, std::span<const int64_t> rows,
                  const ops::TensorView& to) const override;

 private:
  Tokens(std::vector<int64_t> sizes, schedmp::Split split);

  const int64_t length_;
};

class TokenPairs final : public CountingRows {
 public:
  // "ROWSxSOURCExTARGETxVOCABULARY". Throws Error{kUsage}.
  TokenPairs(const std::string& sizes, schedmp::Split split);

  // Of "source" and "target".
  std::optional<ops::ValueSpec> input(std::string_view name) const override;
  void read_input(std::string_view name, std::span<const int64_t> rows,
                  const ops::TensorView& to) const override;

 private:
  TokenPairs(std::vector<int64_t> sizes, schedmp::Split split);

  const int64_t source_;  // tokens
  const int64_t target_;
};

}  // namespace kerf::apps
