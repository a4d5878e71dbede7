// The map of names in a file of weights: which of its tensors hold which of a model's values, where
// they are called otherwise or lie otherwise there (partitioner/stored_form.h).
//
// It is the text "names" of the file's metadata: a JSON object, by a value's name, of
//
//   {"tensors": ["fc.weight"], "axes": [1, 0]}                          turned over
//   {"tensors": ["rnn.weight_ih_l0"], "rows": [[0, 0, 8], [0, 24, 8]]}  [tensor, first, count] ...
//
// so that who has the model under other names, as after an export, still finds its weights.
#pragma once

#include <optional>
#include <string>

#include "partitioner/model.h"
#include "runtime/json.h"
#include "schedmp/safetensors.h"

namespace kerf::schedmp {

inline constexpr const char* kNamesKey = "names";
inline constexpr const char* kFingerprintKey = "fingerprint";  // of the model; runs write it

// Of all that the model keeps under other names or in another form; empty where there is nothing.
std::string stored_names(const partitioner::Model& model);

class StoredNames {
 public:
  // Throws Error{kUsage} that names the file where its text is no JSON object. The file must
  // outlive it.
  explicit StoredNames(const SafetensorsReader& file);

  // How the file has a value of this name; nothing where it does not say. Throws Error{kUsage} that
  // names file and value where what it says cannot be.
  std::optional<partitioner::StoredForm> form_of(const partitioner::Value& value) const;

 private:
  const SafetensorsReader& file_;
  Json names_;
};

}  // namespace kerf::schedmp
