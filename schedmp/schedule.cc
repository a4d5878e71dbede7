#include "schedmp/schedule.h"

#include <array>

#include "runtime/format.h"

namespace kerf::schedmp {

namespace {

constexpr std::array<std::string_view, 9> kNames = {
    "F", "I", "W", "B", "U", "REDUCE_GRAD", "RECOMPUTE", "OFFLOAD", "RELOAD"};

}  // namespace

std::string_view to_string(ActionKind kind) { return kNames[static_cast<size_t>(kind)]; }

std::string to_string(const Action& action) {
  std::string text = kerf::format("{}{}", action.stage, to_string(action.kind));
  if (action.micro_batch >= 0) text += std::to_string(action.micro_batch);
  if (action.version >= 0) text += kerf::format("@{}", action.version);
  return text;
}

int64_t Schedule::actions() const {
  int64_t count = 0;
  for (const std::vector<Action>& row : rows) count += std::ssize(row);
  return count;
}

bool Schedule::trains() const {
  for (const std::vector<Action>& row : rows)
    for (const Action& action : row)
      if (action.kind != ActionKind::kForward) return true;
  return false;
}

}  // namespace kerf::schedmp
