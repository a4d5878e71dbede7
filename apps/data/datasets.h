// Data sets by name:
//
//   fashion-mnist[:FOLDER]                    IDX files; the Debian package's folder by default
//   synthetic[:ROWSxFEATURESxCLASSES]         random numbers; the sizes follow the model, and
//                                             one that reads tokens gets the next, or pairs
//   tokens[:ROWSxLENGTHxVOCABULARY]           sequences of a counting language; likewise
//   pairs[:ROWSxSOURCExTARGETxVOCABULARY]     pairs of them: the target goes on; likewise
//   idx:FOLDER                                files of MNIST's names (idx_folder.h)
//   images:FOLDER                             pictures in a folder for each class (image_folder.h)
//   npz:FILE, npy:FOLDER                      arrays of NumPy (array_rows.h); FILE.npz alone too
//   text:FILE, words:FILE                     a language model's text (text_rows.h)
//
// Those of files get what of the model they need to know between their kind and their path:
// "images:3x224x224:/data/pictures".
//
// Functions are thread-safe.
#pragma once

#include <memory>
#include <string>

#include "apps/data/words.h"
#include "partitioner/model.h"
#include "schedmp/dataset.h"

namespace kerf::apps {

// "fashion-mnist[:FOLDER], ...": all of them, for people.
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

// The name with everything spelled out that follows from the model and the batch, as workers get
// it.
std::string complete_dataset_name(const std::string& name, const partitioner::Model& model,
                                  int64_t batch);

}  // namespace kerf::apps
