// Rows fitted to what actions take: for schedules whose rows are made for F, I and W of one length
// and messages that take nothing (after the heuristics of Qi et al. 2023, arXiv:2401.10241, section
// 3.1, which do it for 1F1B's rows, and 2024, arXiv:2405.15362).
//
//   made for F = I = W   0F0 0F1 3F0 3I0 3W0 ..... 0I0 0W0      . it waits
//   I takes longer       0F0 0F1 3F0 3I0 ..... 0I0 3W0 0W0      what others wait for goes first
#pragma once

#include "schedmp/schedules.h"

namespace kerf::schedmp {

// The shortest of: the schedule; its rows with each W where its worker would wait; and, where I and
// W are apart throughout, rows played by two rules. No worker keeps more micro-batches than it did.
// O(actions, times the chunks of a worker).
Schedule fitted_rows(const Schedule& schedule, const Pipeline& pipeline, const ActionCosts& costs);

}  // namespace kerf::schedmp
