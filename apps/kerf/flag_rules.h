// Which flag goes with what: the cuts that heed it, the other flags of `kerf plan` beside which it
// still says something, and pairs that contradict each other. One table: refusals and the openings
// of help lines ("Of a layer cut: ") come from it, so that no flag is taken and then ignored.
// Pure functions.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace kerf::apps {

// Help that says for which cuts the flag is, where it is not for all of them.
std::string help_for(const std::string& flag, const std::string& help);

// Throws Error{kUsage} at a flag that was given and would do nothing, or something else, beside
// another one that was given. Null: no flags.
void check_flags_together(const CLI::App* command);
// Likewise for that cut: a name of the table of cuts, or kAutoCut.
void check_flags_of_cut(const CLI::App* command, const std::string& cut);
// Likewise where --check names a file of stages, which no plan is made of.
void check_flags_of_stages(const CLI::App* command);

}  // namespace kerf::apps
