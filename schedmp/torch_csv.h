// PyTorch's pipeline CSV (torch.distributed.pipelining, `_dump_csv` and `_load_csv` as of PyTorch
// 2.15): a line for each rank, a cell for each time step.
//
//   0F0,0F1,,1F0,(0F2;1B0)OVERLAP_F_B,0I1,0W1
//
//   cell    nothing (idle), an action, or several that overlap
//   action  STAGE KIND [MICRO-BATCH], without one where it is of the step
//
// What PyTorch lowers a schedule to has its communication too: SEND_F names the stage that made
// what it sends, RECV_F the one that reads it, likewise SEND_B and RECV_B; WAIT_SEND_* waits until
// what was sent is taken up. The text has no version, no placement and no updates. Pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "schedmp/schedule.h"

namespace kerf::schedmp {

enum class TorchKind : uint8_t {
  kForward,
  kInputGradient,
  kWeightGradient,
  kBackward,
  kSendForward,
  kReceiveForward,
  kSendBackward,
  kReceiveBackward,
  kWaitSendForward,
  kWaitSendBackward,
  kUnshard,
  kReshard,
  kReduceGradient,
  kWaitReduceGradient,
};

struct TorchAction {
  int stage = 0;
  TorchKind kind = TorchKind::kForward;
  int micro_batch = -1;  // -1: of the step
  bool operator==(const TorchAction&) const = default;
};

using TorchCell = std::vector<TorchAction>;  // empty: idle; several: OVERLAP_F_B

struct TorchCsv {
  std::vector<std::vector<TorchCell>> rows;  // by rank
  std::string line_end = "\n";               // PyTorch's own files have "\r\n"
  bool ends_last_line = true;
  bool operator==(const TorchCsv&) const = default;
};

std::string to_string(const TorchAction& action);
std::string write_torch_csv(const TorchCsv& csv);
// Strict: throws Error{kUsage} at "origin:line:column", saying what was expected.
TorchCsv parse_torch_csv(const std::string& text, const std::string& origin);

// What it computes, as a schedule of Kerf: overlapping actions one after the other, an update at
// the end of each row that has gradients, and what is not of computing left out. Throws
// Error{kUsage} at `origin` where a stage stands on two ranks, or a number between is missing.
Schedule schedule_of(const TorchCsv& csv, const std::string& name, const std::string& origin);
// Whether it has communication, and that schedule with it: what is sent, received and awaited where
// it stands, so that it can be proved and simulated as PyTorch would run it. Of a chain of stages.
bool has_transfers(const TorchCsv& csv);
Schedule with_transfers(const TorchCsv& csv, const Schedule& computed);
// Throws Error{kUsage} that names the first thing that the form cannot say: a group of workers, a
// version, an action of a kind that PyTorch lacks. Updates are left out: PyTorch has them apart.
TorchCsv torch_csv_of(const Schedule& schedule);

// Whether a text is one: a schedule of Kerf begins with a keyword.
bool looks_like_torch_csv(const std::string& text);

}  // namespace kerf::schedmp
