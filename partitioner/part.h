// Parts: what one worker does of a plan, as data.
//
// Lowering turns a plan into one Part per worker: local tensors, kernel calls, and per stage four
// instruction lists, one per phase (F forward, I input gradients, W weight gradients, U update). A
// schedule's action runs one list for one micro-batch (B runs I, then W); U runs once per step.
// Every local that is not persistent is freed by exactly one explicit kFree, after its last use and
// after its aliases, so memory can be proved by walking the lists F, I, W of a micro-batch. A
// forward-only run walks F alone and drops at its end what is left. The locals `loss`, `scores` and
// `labels` live to the end of F at least.
//
// Locals whose storage is borrowed: an alias (Flatten) shares another local's memory; a local that
// is received whole is read in place from the channel's slot (kFree releases the view); a local
// that is only made to be sent whole to one part is written in place into the slot, which is
// acquired at the first instruction that writes the local and committed by its kSend (kFree then
// only forgets it). No kReceive lies between the two.
//
// A message carries the pieces of its route in order, each a dense tensor of piece.box, and is sent
// for an empty micro-batch too. Within one phase an instruction list of a part sends what it made
// right after making it and receives what it needs right before using it, in model order (I and W:
// reverse).
#pragma once

#include <string>
#include <vector>

#include "ops/pack.h"
#include "partitioner/plan.h"

namespace kerf::partitioner {

enum class LocalKind : uint8_t {
  kData,               // inputs and labels: read from the data set at first use
  kParameter,          // persistent
  kParameterGradient,  // persistent; summed over micro-batches in ascending order
  kActivation,
  kGradient,  // of an activation
};

enum class Storage : uint8_t {
  kOwn,       // a buffer of the device
  kAlias,     // of local `alias_of` (which may be an alias itself)
  kReceived,  // the view of a message of `route`
  kSent,      // a slot of `route`
};

struct Local {
  ValueId value = -1;
  LocalKind kind = LocalKind::kActivation;
  ops::Box box;
  ops::ValueSpec spec;  // local shape; kBatch where batched
  Storage storage = Storage::kOwn;
  int alias_of = -1;
  int route = -1;

  bool persistent() const {
    return kind == LocalKind::kParameter || kind == LocalKind::kParameterGradient;
  }
};

// One node on one part. An operator that aliases() has a call, but no kForward or kGradient.
struct LocalCall {
  NodeId node = -1;
  int stage = 0;
  std::vector<int> inputs;            // locals
  std::vector<int> outputs;           // locals
  std::vector<int> output_gradients;  // locals; -1 for the loss (whose gradient is 1); empty if the
                                      // call has no backward pass
  ops::Box box;                       // of output 0
  size_t saved = 0;  // nonzero if the operator wants saved memory; kFreeSaved frees it
};

// Part of a message, or of a local copy.
struct Move {
  int local = -1;
  ops::Region region;  // of the piece within the local
  bool add = false;    // receive and copy: add instead of overwrite
};

struct Instruction {
  enum class Kind : uint8_t {
    kForward,    // call
    kGradient,   // call, targets
    kSend,       // route, moves in message order (empty: `local` is in the slot already)
    kReceive,    // route, moves in message order (empty: `local` is the view)
    kCopy,       // moves[0] (from) to moves[1] (to, add)
    kZero,       // local
    kFree,       // local
    kFreeSaved,  // call
    kUpdate,     // local is the parameter, other its gradient
  };
  struct Target {
    int input = 0;
    int local = -1;
    bool accumulate = false;  // for parameters: set by the executor (all but the first micro-batch)
  };
  Kind kind{};
  int call = -1;
  int route = -1;
  int local = -1;
  int other = -1;
  std::vector<Move> moves;
  std::vector<Target> targets;
};

struct StagePart {
  int stage = 0;
  std::vector<Instruction> forward;
  std::vector<Instruction> input_gradient;
  std::vector<Instruction> weight_gradient;
  std::vector<Instruction> update;
};

struct Part {
  int worker = 0;
  std::vector<Local> locals;
  std::vector<LocalCall> calls;
  std::vector<StagePart> stages;  // of this worker, ascending
  int loss = -1;                  // local of the loss, -1 if elsewhere
  int scores = -1;                // local of the loss's input 0
  int labels = -1;
};

// One part per worker. The plan must be valid. Throws Error{kUsage} for what plans can say and no
// part can do yet: two parts on one worker that exchange tensors, one part in two stages, operators
// that give partial sums, a loss on several parts.
std::vector<Part> lower(const Model& model, const Plan& plan);

// One line per instruction, for people and golden tests: "F  fc1 = Gemm(x, w, b)", "F  send fc1 ->
// 2".
std::string describe(const Model& model, const Plan& plan, const Part& part);

}  // namespace kerf::partitioner
