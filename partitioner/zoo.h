// The built-in models: networks of the literature, built by the Builder and initialised as PyTorch
// initialises them; in files of weights parameters have the names and axes that torchvision gives
// them, where it has the model.
// Each is also to be had narrower, for other images and classes. One file per family in zoo/, one
// row of the table in zoo/table.cc. Pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "partitioner/model.h"

namespace kerf::partitioner {

// What may be asked of a model; what is not said is as published.
struct ZooOptions {
  std::vector<int64_t> sizes = {};      // of models whose row says what they mean
  double width = 1;                     // channels, features and hidden units times this
  std::optional<int64_t> classes = {};  // of images
  std::optional<int64_t> image = {};    // rows and columns of images
  std::string loss = {};                // by name (losses.h); empty: cross-entropy

  bool operator==(const ZooOptions&) const = default;
};

// A built-in model.
struct ZooModel {
  std::string_view name;
  std::string_view help;   // one line: what it is, whose
  std::string_view sizes;  // what --sizes means, with its default; empty: it has none
  bool images = false;     // has classes and image
  Model (*make)(const std::string& name, const ZooOptions& options);
};

// In the order in which they are listed.
std::span<const ZooModel> zoo();
// Throws Error{kUsage} that lists the models.
const ZooModel& find_zoo_model(const std::string& name);
// Throws Error{kUsage} that lists the models, or names the option that it does not have or cannot
// do.
Model make_zoo_model(const std::string& name, const ZooOptions& options = {});
std::vector<std::string> zoo_names();
// "784-512-10". Throws Error{kUsage}.
std::vector<int64_t> parse_sizes(const std::string& text);

// A model with its options in one text: "mlp 784-512-10", "resnet50 width=0.125 classes=10". Names
// what differs from the published one only.
std::string zoo_text(const std::string& name, const ZooOptions& options);
// The model that such a text names. Throws Error{kUsage}.
Model make_zoo_model_of(const std::string& text);

}  // namespace kerf::partitioner
