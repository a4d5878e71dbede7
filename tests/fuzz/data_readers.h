// The readers of data files over bytes in memory: each reads all that there is.
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
void read_rows(const std::string& bytes);  // of an npz: labels, and the last row of the input
void read_gzip(const std::string& bytes);
void read_picture(const std::string& bytes);   // PNG or JPEG, in grey and in colours
void read_idx_file(const std::string& bytes);  // as images, as gzipped images, as labels
void read_bytes_of_text(const std::string& bytes);
void read_words_of_text(const std::string& bytes);
void read_matrix_text(const std::string& bytes);  // Matrix Market, as a matrix or a column
void read_csc(const std::string& bytes);          // of an npz
void read_dense_array(const std::string& bytes);
void read_labelled_rows(const std::string& bytes);  // of LIBSVM
void read_documents_of_words(const std::string& bytes);
void read_classifier(const std::string& bytes);

}  // namespace kerf::tests
