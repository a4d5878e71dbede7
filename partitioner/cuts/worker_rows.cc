#include "partitioner/cuts/worker_rows.h"

#include <algorithm>

namespace kerf::partitioner {

std::vector<WorkerRow> rows_with_the_others(const WorkerRow& row, int workers, size_t most,
                                            bool parts) {
  std::vector<WorkerRow> rows{row};
  for (int worker = 0; worker < workers; ++worker) {
    if (std::ranges::find(row, worker) != row.end()) continue;
    std::vector<WorkerRow> longer;
    for (const WorkerRow& each : rows)
      for (size_t place = 0; place <= each.size(); ++place) {
        const auto here = static_cast<std::ptrdiff_t>(place);
        WorkerRow with = each;
        with.insert(with.begin() + here, worker);
        if (longer.size() < most) longer.push_back(with);
        if (!parts || place == each.size()) continue;
        with.insert(with.begin() + here, each[place]);
        if (longer.size() < most) longer.push_back(std::move(with));
      }
    rows = std::move(longer);
  }
  return rows;
}

std::vector<WorkerRow> rows_in_any_order(int workers, int stages_per_worker, size_t most) {
  WorkerRow row;
  for (int worker = 0; worker < workers; ++worker)
    row.insert(row.end(), static_cast<size_t>(stages_per_worker), worker);
  std::vector<WorkerRow> rows;
  do rows.push_back(row);
  while (rows.size() < most && std::next_permutation(row.begin(), row.end()));
  return rows;
}

}  // namespace kerf::partitioner
