// A factorised matrix of ratings: a mean, and a row for each user and each item. As a folder:
//
//   model.txt    "kerf mf: ..." which says what it is, then a line each: mean M, rank K, users N,
//                items N, lambda L
//   users.mtx    Matrix Market array, a row for each user and K columns
//   items.mtx    likewise of items
//
// A plain value; pure functions.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "apps/data/sparse_columns.h"

namespace kerf::apps {

struct MfModel {
  double mean = 0;
  int64_t rank = 0;
  double lambda = 0;
  // Row by row, `rank` numbers each.
  std::vector<double> users, items;

  int64_t user_count() const { return std::ssize(users) / rank; }
  int64_t item_count() const { return std::ssize(items) / rank; }
  double rating(int64_t user, int64_t item) const;
};

// The folder must exist. Throws Error{kUnavailable} where the system refuses.
void write_mf_model(const std::filesystem::path& folder, const MfModel& model);
// Throws Error{kUsage} at the file for what is no such folder.
MfModel read_mf_model(const std::filesystem::path& folder);

// What the model says where the ratings, users x items, have an entry.
SparseColumns rated_by(const MfModel& model, SparseColumns ratings);

}  // namespace kerf::apps
