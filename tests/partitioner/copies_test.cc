// What the lowered lists of a plan copy, against the sizes of its messages, and against what is
// known of it before it is connected.
#include "partitioner/copies.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "partitioner/cut.h"
#include "partitioner/cuts/least_copies.h"
#include "partitioner/zoo.h"

namespace kerf::partitioner {
namespace {

constexpr int64_t kRows = 4;  // of a micro-batch
constexpr int kMicroBatches = 2;

struct Planned {
  Model model;
  Plan plan;
};

Planned planned(const Model& model, Cut cut, int workers) {
  PlanRequest request;
  request.cut = cut;
  request.workers = workers;
  request.batch = kMicroBatches * kRows;
  request.micro_batches = kMicroBatches;
  Model divided = model_for(model, request);
  Plan plan = std::get<Plan>(make_plan(divided, request, *hold_everything()));
  return {std::move(divided), std::move(plan)};
}

std::vector<const InstructionList*> lists_of_a_micro_batch(const Part& part) {
  return {&part.forward, &part.backward};
}
std::vector<const InstructionList*> lists_of_a_step(const Part& part) {
  return {&part.contribute, &part.reduce, &part.conclude, &part.update, &part.fetch};
}

int64_t copied_by(const Part& part, const std::vector<const InstructionList*>& lists,
                  int64_t samples) {
  int64_t bytes = 0;
  for (const InstructionList* list : lists)
    for (const Instruction& each : list->instructions) bytes += copied_bytes(part, each, samples);
  return bytes;
}

// Every byte of a message that is packed is read once and written once; of one that is unpacked
// likewise, and where it is added, the sum is read too.
TEST(Copies, OfAMessageAreItsBytesReadAndWritten) {
  int packed = 0;
  for (const Cut cut : {Cut::kLayer, Cut::kFeature, Cut::kBatch}) {
    const auto [model, plan] = planned(make_zoo_model("lenet5"), cut, 3);
    for (const Part& part : lower(model, plan))
      for (const auto& lists : {lists_of_a_micro_batch(part), lists_of_a_step(part)})
        for (const InstructionList* list : lists)
          for (const Instruction& each : list->instructions) {
            if (each.kind != Instruction::Kind::kSend && each.kind != Instruction::Kind::kReceive)
              continue;
            const Route& route = plan.routes[static_cast<size_t>(each.route)];
            const auto bytes = static_cast<int64_t>(message_bytes(model, route, kRows));
            const int64_t copied = copied_bytes(part, each, kRows);
            if (each.moves.empty()) {
              EXPECT_EQ(copied, 0);
              continue;
            }
            ++packed;
            EXPECT_GE(copied, 2 * bytes) << describe(model, plan, part);
            EXPECT_LE(copied, (each.kind == Instruction::Kind::kSend ? 2 : 3) * bytes);
          }
  }
  EXPECT_GT(packed, 0);
}

TEST(Copies, OfAChainThatIsCutByLayersAreNoneOnTheWayForward) {
  const auto [model, plan] = planned(make_zoo_model("mlp", {{8, 8, 8, 3}}), Cut::kLayer, 3);
  for (const Part& part : lower(model, plan)) EXPECT_EQ(copied_by(part, {&part.forward}, kRows), 0);
}

TEST(Copies, OfMoreRowsAreMore) {
  const auto [model, plan] = planned(make_zoo_model("lenet5"), Cut::kFeature, 2);
  int64_t of_two = 0;
  int64_t of_four = 0;
  for (const Part& part : lower(model, plan)) {
    of_two += copied_by(part, {&part.forward}, 2);
    of_four += copied_by(part, {&part.forward}, 4);
  }
  EXPECT_GT(of_two, 0);
  EXPECT_EQ(of_four, 2 * of_two);
}

class LeastCopiesOfZoo : public testing::TestWithParam<const char*> {};

// No part copies less, and where every operator is divided, hardly more.
TEST_P(LeastCopiesOfZoo, AreNoMoreThanAreMadeAndNotManyFewer) {
  const Model whole = make_zoo_model(GetParam());
  for (const Cut cut : {Cut::kLayer, Cut::kFeature, Cut::kBatch, Cut::kHybrid}) {
    const auto [model, plan] = planned(whole, cut, 3);
    const Sources sources(model, plan.division, stages_of_parts(plan));
    const Sums sums(sources);
    const LeastCopies least(sums, plan, true);
    double known = 0;
    double made = 0;
    for (const Part& part : lower(model, plan)) {
      double at_least = least.afterwards(part.part);
      for (ValueId value = 0; value < model.values(); ++value)
        at_least += least.to_read(value, part.part).all + least.to_send(value, part.part).all;
      const auto copied =
          static_cast<double>(kMicroBatches * copied_by(part, lists_of_a_micro_batch(part), kRows) +
                              copied_by(part, lists_of_a_step(part), 0));
      EXPECT_LE(at_least, copied) << to_string(cut) << ", part " << part.part;
      known += at_least;
      made += copied;
    }
    RecordProperty(std::string(to_string(cut)), format("{:.3f}", known / made));
    if (cut != Cut::kLayer) {
      EXPECT_GE(known, 0.6 * made) << to_string(cut);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, LeastCopiesOfZoo,
                         testing::Values("lenet5", "lenet5-bn", "seq2seq", "convnet"));

}  // namespace
}  // namespace kerf::partitioner
