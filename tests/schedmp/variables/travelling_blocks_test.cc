// Blocks that travel round a ring of workers of one process, beside a plain loop over them.
#include "schedmp/variables/travelling_blocks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "runtime/wire.h"
#include "schedmp/scheduler.h"
#include "tests/support/errors.h"
#include "tests/support/inproc_crew.h"

namespace kerf::schedmp {
namespace {

// A block's numbers begin as its own number. Who has it makes each v of them 3 v + worker + 1, so
// that they tell who had it, and in which order.
uint32_t passed(uint32_t value, int worker) {
  return 3 * value + static_cast<uint32_t>(worker) + 1;
}

using BlocksOfNumbers = std::vector<std::vector<uint32_t>>;

struct TurnResult {
  std::vector<int32_t> visited;
  BlocksOfNumbers home;
  bool refused_under_way = false;  // to say what is at home between two rotations
  template <class Archive>
  void serialize(Archive& archive) {
    archive(visited, home, refused_under_way);
  }
};

struct TurnMessages {
  using Job = std::vector<int64_t>;  // sizes of blocks
  using Task = bool;                 // a turn; behind it, whether blocks are lost and restored
  using Result = TurnResult;
};

class TurnWorker final : public WorkerHalf<TurnMessages> {
 public:
  void start(runtime::Workplace& workplace, const std::vector<int64_t>& sizes) override {
    worker_ = workplace.worker;
    blocks_.emplace(workplace, sizes);
    for (int place = 0; place < blocks_->home_blocks(); ++place) {
      EXPECT_THAT(blocks_->at_home(place), testing::Each(0));
      std::ranges::fill(blocks_->at_home(place), static_cast<uint32_t>(blocks_->home_block(place)));
    }
  }
  TurnResult update(const bool& restored) override {
    TurnResult result;
    for (int i = 0; i < blocks_->blocks(); ++i) {
      result.visited.push_back(blocks_->block());
      for (uint32_t& value : blocks_->take()) value = passed(value, worker_);
      blocks_->give();
      if (i == 0 && blocks_->blocks() > 1)
        result.refused_under_way = tests::error_of([&] { blocks_->at_home(0); }).has_value();
    }
    if (restored) lose_and_restore();
    for (int place = 0; place < blocks_->home_blocks(); ++place) {
      const auto values = blocks_->at_home(place);
      result.home.emplace_back(values.begin(), values.end());
    }
    return result;
  }

 private:
  void lose_and_restore() {
    runtime::WireWriter writer;
    writer(*blocks_);
    const std::string bytes = writer.take();
    for (int place = 0; place < blocks_->home_blocks(); ++place)
      std::ranges::fill(blocks_->at_home(place), 0U);
    runtime::WireReader reader(bytes);
    reader(*blocks_);
  }

  int worker_ = 0;
  std::optional<TravellingBlocks<uint32_t>> blocks_;
};

class Turns final : public SchedulerHalf<TurnMessages> {
 public:
  Turns(std::vector<int64_t> sizes, int workers, int64_t turns)
      : sizes_(std::move(sizes)), workers_(workers), turns_(turns) {}
  std::string name() const override { return "turns"; }
  int depth() const override { return 2; }
  std::vector<int64_t> job(int /*worker*/) override { return sizes_; }
  LaneTable lanes(int workers) const override {
    const auto most = *std::max_element(sizes_.begin(), sizes_.end());
    return lanes_of_travelling_blocks(workers, static_cast<int>(sizes_.size()),
                                      most * static_cast<int64_t>(sizeof(uint32_t)));
  }
  Decision schedule(int64_t round) override {
    if (round == turns_) return Done{};
    std::vector<Task> tasks;
    for (int worker = 0; worker < workers_; ++worker) tasks.push_back({worker, round % 2 == 1});
    return tasks;
  }
  void aggregate(int64_t /*round*/, std::vector<Result> results) override {
    told_.push_back(std::move(results));
  }
  // Of each turn, worker by worker.
  const std::vector<std::vector<Result>>& told() const { return told_; }

 private:
  std::vector<int64_t> sizes_;
  int workers_;
  int64_t turns_;
  std::vector<std::vector<Result>> told_;
};

std::vector<std::vector<Turns::Result>> told_of(const std::vector<int64_t>& sizes, int workers,
                                                int64_t turns) {
  Turns program(sizes, workers, turns);
  const auto crew = tests::inproc_crew(workers, {{"turns", worker_half<TurnWorker>}});
  run(program, *crew);
  crew->stop();
  return program.told();
}

// As long as one another, of all lengths, and without numbers.
std::vector<int64_t> sizes_of(int blocks) {
  std::vector<int64_t> sizes;
  for (int block = 0; block < blocks; ++block)
    sizes.push_back(block * 7 % 5 + (block == 0 ? 9 : 0));
  return sizes;
}

TEST(TravellingBlocks, AreWhatOneLoopMakesOfThem) {
  constexpr int64_t kTurns = 4;
  for (const int workers : {1, 2, 3})
    for (const int each : {1, 2, 4}) {
      SCOPED_TRACE(testing::Message() << workers << " workers, " << each << " blocks each");
      const int blocks = workers * each;
      const std::vector<int64_t> sizes = sizes_of(blocks);
      const BlockRotation rotation(workers, blocks);
      BlocksOfNumbers expected;
      for (int block = 0; block < blocks; ++block)
        expected.emplace_back(sizes[static_cast<size_t>(block)], static_cast<uint32_t>(block));
      for (const auto& results : told_of(sizes, workers, kTurns)) {
        std::vector<std::vector<int32_t>> visited(static_cast<size_t>(workers));
        for (int i = 0; i < blocks; ++i)
          for (int worker = 0; worker < workers; ++worker) {
            const int block = rotation.visit(worker, i).block;
            visited[static_cast<size_t>(worker)].push_back(block);
            for (uint32_t& value : expected[static_cast<size_t>(block)])
              value = passed(value, worker);
          }
        BlocksOfNumbers home;
        for (size_t worker = 0; worker < results.size(); ++worker) {
          const TurnResult& result = results[worker].payload;
          EXPECT_EQ(result.visited, visited[worker]);
          EXPECT_EQ(result.refused_under_way, blocks > 1) << "its blocks are under way";
          home.insert(home.end(), result.home.begin(), result.home.end());
        }
        EXPECT_EQ(home, expected);
      }
    }
}

TEST(TravellingBlocks, HaveALaneToOneNeighbour) {
  const LaneTable lanes = lanes_of_travelling_blocks(3, 6, 100);
  for (size_t from = 0; from < 3; ++from)
    for (size_t to = 0; to < 3; ++to) {
      if (to != (from + 2) % 3) {
        EXPECT_TRUE(lanes[from][to].empty());
        continue;
      }
      ASSERT_EQ(lanes[from][to].size(), 1);
      EXPECT_EQ(lanes[from][to][0].slot_bytes, 100);
      EXPECT_EQ(lanes[from][to][0].slots, 3);
    }
  EXPECT_TRUE(lanes_of_travelling_blocks(1, 4, 100)[0][0].empty()) << "alone they stay";
}

// One that lacks numbers is known before any of them is looked at.
TEST(TravellingBlocks, RefuseASnapshotOfOtherSizes) {
  class OtherSizes final : public WorkerHalf<TurnMessages> {
   public:
    void start(runtime::Workplace& workplace, const std::vector<int64_t>& sizes) override {
      TravellingBlocks<uint32_t> blocks(workplace, sizes);
      runtime::WireWriter writer;
      writer(std::vector<uint32_t>(static_cast<size_t>(sizes[0]) + 1));
      const std::string bytes = writer.take();
      runtime::WireReader reader(bytes);
      EXPECT_TRUE(tests::error_of([&] { reader(blocks); }));
    }
    TurnResult update(const bool& /*restored*/) override { return {}; }
  };
  Turns program({3}, 1, 1);
  const auto crew = tests::inproc_crew(1, {{"turns", worker_half<OtherSizes>}});
  run(program, *crew);
  crew->stop();
}

}  // namespace
}  // namespace kerf::schedmp
