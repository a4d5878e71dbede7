// What `kerf schedule sweep` finds out, for programs, for spreadsheets and for people. Pure
// functions.
#pragma once

#include <string>
#include <vector>

#include "runtime/json.h"
#include "schedmp/sweep.h"

namespace kerf::apps {

struct SweepRecord {
  // Of each of the costs that points name: as they were given. Empty: by themselves.
  struct Setting {
    std::string costs, link;
  };
  std::vector<Setting> settings;
  std::vector<schedmp::SweptPoint> points;

  const Setting& of(const schedmp::SweptPoint& point) const { return settings[point.costs]; }
};

Json to_json(const SweepRecord& record);
// A line for each point below one of names; what a refused one lacks is empty.
std::string csv_of(const SweepRecord& record);
std::string text_of(const SweepRecord& record, bool colour);

}  // namespace kerf::apps
