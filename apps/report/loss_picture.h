// The loss of each step as a curve. SVG for within the report's page (page.h). Pure function.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace kerf::apps {

// By step, from 0; empty where it was not finite, which is a gap. Of more steps than the picture is
// wide the least and the greatest of those that fall together. Empty where no loss is finite.
std::string draw_losses(const std::vector<std::optional<double>>& losses);

}  // namespace kerf::apps
