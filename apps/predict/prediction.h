// What a model says of data that it did not learn from.
#pragma once

#include <filesystem>
#include <string>

#include "runtime/json.h"

namespace kerf::apps {

struct PredictRequest {
  std::filesystem::path model;  // a file or a folder, as a program's --out wrote it
  std::filesystem::path data;   // in the form that the program reads
  std::filesystem::path y;      // of a matrix: what should come out; empty: unknown
};

struct Prediction {
  std::string text;     // a file of predictions
  Json measures;        // how good they are, where the data say what is right
  std::string summary;  // the same in a line for people
};

// By what the model says of itself. Throws Error{kUsage} that names the file for what is no model
// of a program, and for data that do not fit it.
Prediction predict(const PredictRequest& request);

}  // namespace kerf::apps
