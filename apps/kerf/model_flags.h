// The flags that say which model, and of what size: a built-in one or an ONNX file.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace kerf::apps {

// As given; what was not given is empty, so that a plan file may say it instead.
struct ModelFlags {
  std::optional<std::string> model;
  std::string loss;
  // Of built-in ones.
  std::string sizes;
  std::optional<double> width;
  std::optional<int64_t> classes;
  std::optional<int64_t> image;
  // Of ONNX files.
  std::vector<std::string> dims;   // NAME=N
  std::vector<std::string> train;  // patterns
  std::vector<std::string> freeze;
  std::optional<int64_t> head;
  std::optional<std::string> norms;
  bool answers = false;       // nothing is trained (OnnxSource)
  std::string source_of_run;  // which source() is where nothing says a model

  // The text by which the model travels (apps/models.h). Throws Error{kUsage} that names a flag
  // which the model has no use for.
  std::string source() const;
  // The flags that were given, by name; MODEL is none.
  std::vector<std::string> given_flags() const;
  // Whether anything says something of the model.
  bool says_model() const { return model || !given_flags().empty(); }

 private:
  std::string zoo_source(const std::string& name) const;
  std::string onnx_source(const std::string& file) const;
};

void add_model_flags(CLI::App& command, ModelFlags& flags);
// Those of them that say how large a built-in model is.
std::vector<CLI::Option*> add_size_flags(CLI::App& command, ModelFlags& flags);

}  // namespace kerf::apps
