// Flags of the commands that run a model, beside the model, the plan and the crew: data, weights.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <filesystem>
#include <string>

#include "partitioner/model.h"

namespace kerf::apps {

void add_data_flag(CLI::App& command, std::string& data);
// Before anything that follows from labels. Throws Error{kUsage} that names the flag.
void require_loss(const partitioner::Model& model);
CLI::Option* add_weights_flag(CLI::App& command, std::string& weights, const std::string& help);
// As workers elsewhere find it; empty stays empty. Throws Error{kUsage} where there is no such
// file.
std::string existing_weights(const std::string& weights);

// Whether the model says itself what the value holds: numbers of its file, or one all over.
bool has_contents(const partitioner::Value& value);
[[noreturn]] void throw_no_weights(const partitioner::Model& model,
                                   const partitioner::Value& value);

}  // namespace kerf::apps
