// Rows of two classes in files: LIBSVM's text (data/libsvm.h), or a matrix (data/matrix_file.h)
// with a column of labels beside it. Plain values; pure functions, which throw Error{kUsage} that
// names the file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "apps/data/libsvm.h"

namespace kerf::apps {

struct LabelledFile {
  std::string data;
  std::string labels;  // of a matrix; empty: `data` has them

  template <class Archive>
  void serialize(Archive& archive) {
    archive(data, labels);
  }
};

// Whether the ending is one of a matrix: without labels.
bool is_matrix_file(const std::filesystem::path& path);

// The two numbers that classes are called by.
struct Labels {
  double negative = 0;
  double positive = 0;  // the larger

  template <class Archive>
  void serialize(Archive& archive) {
    archive(negative, positive);
  }
};

// What one knows of all without their entries.
struct LabelledSize {
  int64_t rows = 0;
  int64_t columns = 0;
  Labels labels;
  int64_t positives = 0;  // rows
};
// Throws as well unless there are two labels, no more and no less.
LabelledSize size_of_labelled(const LabelledFile& file);

// The given rows, which it must have, of so many columns. What takes long says `working`.
LabelledRows read_labelled(const LabelledFile& file, ops::Range rows, int64_t columns,
                           const Working& working = {});

}  // namespace kerf::apps
