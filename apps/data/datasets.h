// Data sets by name, KIND or KIND:WHAT. The kinds stand in one table.
//
// Functions are thread-safe.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "apps/data/words.h"
#include "partitioner/model.h"
#include "schedmp/dataset.h"

namespace kerf::apps {

// How a data set is opened: `open`, where not null, has the words that both splits have in common.
struct Opening {
  schedmp::Split split;
  const schedmp::DataRequest& request;
  OpenWords* words;
};

struct DataKind {
  std::string_view name;
  // For people, in Markdown: as --data takes it, what a row is, what becomes of its numbers, and
  // which rows are for tests.
  std::string_view form;
  std::string_view row;
  std::string_view normalised;
  std::string_view tests;
  bool takes_nothing;  // whether KIND alone is a name
  std::shared_ptr<const schedmp::Dataset> (*open)(const std::string& what, const Opening& how);
  // The whole name, with everything spelled out that follows from the model and the batch, and an
  // absolute path: as workers get it.
  std::string (*complete)(const DataKind& kind, const std::string& what,
                          const partitioner::Model& model, int64_t batch);
};
std::span<const DataKind> data_kinds();

// "idx:FOLDER, ...": all forms, for people.
std::string dataset_forms();
// `open`: where words are that both splits have in common. Throws Error{kUsage} that lists the
// names, or names the file at fault.
std::shared_ptr<const schedmp::Dataset> make_dataset(const std::string& name, schedmp::Split split,
                                                     const schedmp::DataRequest& request = {},
                                                     OpenWords* open = nullptr);

// Of data made up, without sizes: enough for a few steps, little enough for every worker's memory,
// and a batch at least.
inline constexpr int64_t kSyntheticRows = 8192;
inline constexpr int64_t kSyntheticValues = int64_t{1} << 26;

// As DataKind::complete; FILE.npz is one of its kind.
std::string complete_dataset_name(const std::string& name, const partitioner::Model& model,
                                  int64_t batch);

}  // namespace kerf::apps
