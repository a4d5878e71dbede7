// Matrix factorisation by block rotation, over workers of one process, beside a plain loop.
#include "apps/mf/mf.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "apps/data/matrix_market.h"
#include "apps/mf/factor_rows.h"
#include "apps/mf/mf_worker.h"
#include "apps/mf/rank_ones.h"
#include "schedmp/scheduler.h"
#include "schedmp/variables/block_rotation.h"
#include "tests/apps/rank_one_sums.h"
#include "tests/support/errors.h"
#include "tests/support/inproc_crew.h"
#include "tests/support/temporary_folder.h"

namespace kerf::apps {
namespace {

// Of two hidden numbers a row, each place rated with this chance, and some noise.
SparseColumns hidden_ratings(int64_t users, int64_t items, double chance, uint64_t seed) {
  std::mt19937_64 hidden(7);
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal;
  std::vector<std::array<double, 2>> p(static_cast<size_t>(users)), q(static_cast<size_t>(items));
  for (auto* rows : {&p, &q})
    for (auto& row : *rows) row = {normal(hidden), normal(hidden)};
  SparseColumns ratings;
  ratings.rows = users;
  ratings.columns = items;
  for (const auto& item : q) {
    for (size_t u = 0; u < p.size(); ++u)
      if (std::uniform_real_distribution<double>()(random) < chance) {
        ratings.row.push_back(static_cast<int32_t>(u));
        ratings.values.push_back(50 + 10 * (p[u][0] * item[0] + p[u][1] * item[1]) +
                                 normal(random));
      }
    ratings.begins.push_back(ratings.entries());
  }
  return ratings;
}

class MatrixFactorisation : public testing::Test {
 protected:
  MatrixFactorisation() {
    write_matrix_market(folder_ / "ratings.mtx", ratings_);
    write_matrix_market(folder_ / "test.mtx", tests_);
    options_.ratings = folder_ / "ratings.mtx";
    options_.test = folder_ / "test.mtx";
    options_.users = ratings_.rows;
    options_.items = ratings_.columns;
    options_.rank = 3;
    options_.iterations = 5;
    options_.tolerance = 0;
  }

  std::unique_ptr<Mf> fitted(int workers) const { return fitted(options_, workers); }
  template <class Half = MfWorker>
  static std::unique_ptr<Mf> fitted(const MfOptions& options, int workers) {
    auto program = std::make_unique<Mf>(options, workers);
    const auto crew = tests::inproc_crew(workers, {{"mf", schedmp::worker_half<Half>}});
    schedmp::run(*program, *crew);
    crew->stop();
    return program;
  }

  static double value(const HistoryPoint& point, Mf::Metrics metric) {
    return point.values[metric].value();
  }
  static double last(const Mf& program, Mf::Metrics metric) {
    return value(program.points().back(), metric);
  }

  double predicted(const Mf& program, int64_t user, int64_t item) const {
    double sum = program.mean();
    for (int64_t k = 0; k < options_.rank; ++k)
      sum += program.users()[static_cast<size_t>(user * options_.rank + k)] *
             program.items()[static_cast<size_t>(item * options_.rank + k)];
    return sum;
  }
  double rmse_of(const Mf& program, const SparseColumns& ratings) const {
    double sum = 0;
    for (int64_t item = 0; item < ratings.columns; ++item)
      for (size_t i = 0; i < ratings.rows_of(item).size(); ++i)
        sum += std::pow(
            ratings.values_of(item)[i] - predicted(program, ratings.rows_of(item)[i], item), 2);
    return std::sqrt(sum / static_cast<double>(ratings.entries()));
  }

  const SparseColumns ratings_ = hidden_ratings(61, 43, 0.4, 1);
  const SparseColumns tests_ = hidden_ratings(61, 43, 0.05, 2);
  tests::TemporaryFolder folder_;
  MfOptions options_;
};

// ---- the same as one loop

// What one has to know to do by oneself what all workers do: in every rotation worker by worker.
struct OneLoop {
  // users: of each worker.
  OneLoop(const MfOptions& options, const std::vector<int64_t>& users);

  const MfOptions options;
  const ItemBlocks blocks;
  const int stride;
  const bool ccd;
  const schedmp::BlockRotation rotation;
  std::vector<RatingCells> cells;         // by worker
  std::vector<std::vector<float>> users;  // by worker
  std::vector<std::vector<float>> items;  // by block
  double scale = 1;
  double errors = 0;  // of the last turn

  void draw(FactorSide side, int64_t number, std::vector<float>& to) const;
  // One turn: act(worker, block).
  template <class Act>
  void turn(const Act& act) const {
    for (int i = 0; i < blocks.blocks(); ++i)
      for (size_t worker = 0; worker < cells.size(); ++worker)
        act(worker, static_cast<size_t>(rotation.visit(static_cast<int>(worker), i).block));
  }
  void sgd();
  void coordinate_descent();
  void run() { ccd ? coordinate_descent() : sgd(); }
  void expect_equal(const Mf& program) const;
};

OneLoop::OneLoop(const MfOptions& given, const std::vector<int64_t>& users_of_workers)
    : options(given),
      blocks(given.items, static_cast<int>(users_of_workers.size()) * given.blocks_per_worker,
             given.seed),
      stride(padded(given.rank)),
      ccd(given.algorithm == MfAlgorithm::kCcd),
      rotation(static_cast<int>(users_of_workers.size()), blocks.blocks()),
      items(static_cast<size_t>(blocks.blocks())) {
  for (int block = 0; block < blocks.blocks(); ++block)
    for (int64_t i = 0; i < blocks.size(block); ++i)
      draw(FactorSide::kItems, blocks.item(block, i), items[static_cast<size_t>(block)]);
  std::vector<Moments> moments;
  Moments all;
  int64_t begin = 0;
  for (const int64_t count : users_of_workers) {
    const int64_t end = begin + count;
    const SparseColumns own = read_matrix_market(FileBytes(options.ratings), {begin, end});
    users.emplace_back();
    for (; begin < end; ++begin) draw(FactorSide::kUsers, begin, users.back());
    if (ccd) std::fill(users.back().begin(), users.back().end(), 0.0F);
    moments.push_back(moments_of(own.values));
    all.add(moments.back());
    cells.push_back(cells_of(own, blocks, moments.back().mean));
    if (!ccd) shuffle(cells.back(), options.seed, static_cast<int>(cells.size()) - 1);
  }
  scale = std::sqrt(all.squares / static_cast<double>(all.count));
  for (size_t worker = 0; worker < cells.size(); ++worker)
    standardise(cells[worker], all.mean - moments[worker].mean, scale);
}

void OneLoop::draw(FactorSide side, int64_t number, std::vector<float>& to) const {
  to.resize(to.size() + static_cast<size_t>(stride));
  draw_row(side, number, options.rank, options.seed,
           std::span(to).last(static_cast<size_t>(stride)));
}

void OneLoop::sgd() {
  for (int64_t t = 0; t < options.iterations; ++t) {
    const double step = options.step / (1 + options.decay * std::pow(t, 1.5));
    const SgdRate rate{static_cast<float>(step), static_cast<float>(options.lambda / scale)};
    errors = 0;
    turn([&](size_t worker, size_t block) {
      errors +=
          take_steps(cells[worker][block], rate, stride, users[worker].data(), items[block].data());
    });
  }
}

void OneLoop::coordinate_descent() {
  const auto lambda = static_cast<float>(options.lambda / scale);
  std::vector<std::vector<std::vector<float>>> residuals(cells.size());
  for (size_t worker = 0; worker < cells.size(); ++worker)
    for (const auto& cell : cells[worker]) {
      residuals[worker].emplace_back();
      for (const Rating& each : cell) residuals[worker].back().push_back(each.value);
    }
  std::vector<tests::RankOneSums> of_users(users.size()), of_items(items.size());
  for (int64_t t = 0; t < options.iterations; ++t)
    for (int k = 0; k < options.rank; ++k) {
      std::vector<RankOneSide> p, q;
      for (size_t i = 0; i < users.size(); ++i) p.push_back(of_users[i].of(users[i], stride, k));
      for (size_t i = 0; i < items.size(); ++i) q.push_back(of_items[i].of(items[i], stride, k));
      turn([&](size_t worker, size_t block) {
        sum_for_users(cells[worker][block], residuals[worker][block], lambda, p[worker], q[block]);
      });
      for (size_t i = 0; i < users.size(); ++i) take_minimum(p[i], std::ssize(of_users[i].before));
      turn([&](size_t worker, size_t block) {
        sum_for_items(cells[worker][block], residuals[worker][block], lambda, p[worker], q[block]);
      });
      for (size_t i = 0; i < items.size(); ++i) take_minimum(q[i], std::ssize(of_items[i].before));
      turn([&](size_t worker, size_t block) {
        settle_residuals(cells[worker][block], p[worker], q[block], residuals[worker][block]);
      });
    }
}

void OneLoop::expect_equal(const Mf& program) const {
  const double length = std::sqrt(scale);
  const auto expect_row = [&](const std::vector<double>& all, int64_t to,
                              const std::vector<float>& rows, int64_t at) {
    for (int64_t k = 0; k < options.rank; ++k)
      ASSERT_EQ(all[static_cast<size_t>(to * options.rank + k)],
                length * static_cast<double>(rows[static_cast<size_t>(at * stride + k)]))
          << "row " << to << ", number " << k;
  };
  int64_t user = 0;
  for (const auto& rows : users)
    for (int64_t i = 0; i < std::ssize(rows) / stride; ++i)
      expect_row(program.users(), user++, rows, i);
  ASSERT_EQ(user, options.users);
  for (int block = 0; block < blocks.blocks(); ++block)
    for (int64_t i = 0; i < blocks.size(block); ++i)
      expect_row(program.items(), blocks.item(block, i), items[static_cast<size_t>(block)], i);
}

// The first get one more where it does not come out.
std::vector<int64_t> evenly(int64_t users, int workers) {
  std::vector<int64_t> each(static_cast<size_t>(workers), users / workers);
  for (size_t worker = 0; worker < static_cast<size_t>(users % workers); ++worker) ++each[worker];
  return each;
}

TEST_F(MatrixFactorisation, IsOneLoopBitForBit) {
  for (const MfAlgorithm algorithm : {MfAlgorithm::kSgd, MfAlgorithm::kCcd})
    for (const int workers : {1, 2, 3, 5})
      for (const int blocks : {1, 2, 4}) {
        SCOPED_TRACE(testing::Message() << workers << " workers, " << blocks << " blocks each");
        options_.blocks_per_worker = blocks;
        options_.algorithm = algorithm;
        const auto program = fitted(workers);
        EXPECT_EQ(program->users_of_workers(), evenly(options_.users, workers));
        OneLoop one(options_, program->users_of_workers());
        one.run();
        one.expect_equal(*program);
        if (one.ccd) continue;
        const double squares = one.scale * one.scale * one.errors;
        const double rmse = value(program->points().rbegin()[1], Mf::kTrainRmse);
        EXPECT_NEAR(rmse * rmse * static_cast<double>(ratings_.entries()), squares, 1e-9 * squares);
      }
}

// The first worker takes three microseconds more for each rating.
class SlowMfWorker final : public MfWorker {
 public:
  void start(runtime::Workplace& workplace, const MfJob& job) override {
    slow_ = workplace.worker == 0;
    MfWorker::start(workplace, job);
  }

 private:
  double steps(std::span<const Rating> ratings, const SgdRate& rate, float* users,
               float* items) override {
    if (slow_) std::this_thread::sleep_for(std::chrono::microseconds(3 * ratings.size()));
    return MfWorker::steps(ratings, rate, users, items);
  }
  bool slow_ = false;
};

TEST_F(MatrixFactorisation, IsOneLoopOfWhatMeasuredSpeedsGive) {
  options_.balance = true;
  for (const MfAlgorithm algorithm : {MfAlgorithm::kSgd, MfAlgorithm::kCcd})
    for (const int workers : {1, 2, 3}) {
      SCOPED_TRACE(testing::Message() << workers << " workers");
      options_.algorithm = algorithm;
      const auto program = fitted<SlowMfWorker>(options_, workers);
      const std::vector<int64_t> users = program->users_of_workers();
      ASSERT_EQ(std::ssize(users), workers);
      EXPECT_THAT(users, testing::Each(testing::Ge(1)));
      EXPECT_LE(users[0], options_.users / (workers == 1 ? 1 : 2 * workers)) << "it is far slower";
      OneLoop one(options_, users);
      one.run();
      one.expect_equal(*program);
    }
}

// Ends where the light goes out: before this round.
class EndingMf final : public Mf {
 public:
  EndingMf(const MfOptions& options, int workers, int64_t end) : Mf(options, workers), end_(end) {}
  Decision schedule(int64_t round) override {
    if (round == end_) throw Error(ErrorCode::kUnavailable, "the light went out");
    return Mf::schedule(round);
  }

 private:
  int64_t end_;
};

// Behind measuring, behind reading, behind turns: what goes on measures nothing, and reads again.
TEST_F(MatrixFactorisation, GoesOnWithTheDivisionOfItsSnapshot) {
  constexpr int kWorkers = 3;
  options_.balance = true;
  for (const MfAlgorithm algorithm : {MfAlgorithm::kSgd, MfAlgorithm::kCcd})
    for (const int64_t end : {1, 2, 4}) {
      SCOPED_TRACE(testing::Message() << "round " << end);
      options_.algorithm = algorithm;
      const auto folder = folder_ / "kept" / std::to_string(end);
      std::filesystem::create_directories(folder);
      EndingMf ended(options_, kWorkers, end);
      const auto slow = tests::inproc_crew(kWorkers, {{"mf", schedmp::worker_half<SlowMfWorker>}});
      EXPECT_TRUE(tests::error_of(
          [&] { schedmp::run(ended, *slow, {.snapshots = {.folder = folder, .every = 1}}); }));
      slow->stop();
      Mf program(options_, kWorkers);
      const auto crew = tests::inproc_crew(kWorkers, {{"mf", schedmp::worker_half<MfWorker>}});
      schedmp::run(program, *crew, {.snapshots = {.resume = folder}});
      crew->stop();
      EXPECT_EQ(program.users_of_workers(), ended.users_of_workers());
      EXPECT_LE(program.users_of_workers()[0], options_.users / (2 * kWorkers));
      OneLoop one(options_, program.users_of_workers());
      one.run();
      one.expect_equal(program);
      std::filesystem::remove_all(folder_ / "kept");
    }
}

// ---- what it finds

TEST_F(MatrixFactorisation, FindsWhatIsHidden) {
  options_.iterations = 60;
  for (const int workers : {1, 3}) {
    const auto program = fitted(workers);
    const HistoryPoint& last = program->points().back();
    EXPECT_LT(value(program->points().front(), Mf::kTestRmse), 20);
    EXPECT_LT(value(last, Mf::kTestRmse), 3) << "the ratings deviate by 14, the noise by 1";
    EXPECT_NEAR(value(last, Mf::kTrainRmse), rmse_of(*program, ratings_), 1e-4);
    EXPECT_NEAR(value(last, Mf::kTestRmse), rmse_of(*program, tests_), 1e-4);
    EXPECT_EQ(last.rounds, 60);
    EXPECT_EQ(program->points().size(), 61);
    EXPECT_EQ(last.updates, 60 * ratings_.entries());
  }
}

TEST_F(MatrixFactorisation, NeverRisesByCoordinateDescent) {
  options_.algorithm = MfAlgorithm::kCcd;
  options_.iterations = 40;
  const auto program = fitted(3);
  const auto& points = program->points();
  for (size_t i = 1; i < points.size(); ++i)
    EXPECT_LE(value(points[i], Mf::kObjective), value(points[i - 1], Mf::kObjective) * (1 + 1e-6))
        << i;
  EXPECT_EQ(last(*program, Mf::kObjective), value(points.rbegin()[1], Mf::kObjective));
  EXPECT_LT(last(*program, Mf::kTestRmse), 3);
  EXPECT_NEAR(last(*program, Mf::kTestRmse), rmse_of(*program, tests_), 1e-4);
}

TEST_F(MatrixFactorisation, SaysItsObjective) {
  const auto program = fitted(2);
  double expected =
      std::pow(rmse_of(*program, ratings_), 2) * static_cast<double>(ratings_.entries());
  for (int64_t item = 0; item < ratings_.columns; ++item)
    for (const int32_t user : ratings_.rows_of(item))
      for (int64_t k = 0; k < options_.rank; ++k)
        expected += options_.lambda *
                    (std::pow(program->users()[static_cast<size_t>(user * options_.rank + k)], 2) +
                     std::pow(program->items()[static_cast<size_t>(item * options_.rank + k)], 2));
  EXPECT_NEAR(last(*program, Mf::kObjective), expected, 1e-5 * expected);
}

// Ratings of another scale and origin are fitted as well, by the same steps.
TEST_F(MatrixFactorisation, FitsAnyScale) {
  options_.iterations = 20;
  options_.lambda = 0;
  const double expected = last(*fitted(2), Mf::kTestRmse);
  for (SparseColumns scaled : {ratings_, tests_}) {
    const bool test = scaled.entries() == tests_.entries();
    for (double& value : scaled.values) value = 1e6 + 1024 * value;
    write_matrix_market(folder_ / (test ? "test.mtx" : "ratings.mtx"), scaled);
  }
  EXPECT_NEAR(last(*fitted(2), Mf::kTestRmse), 1024 * expected, 1024e-3 * expected);
}

TEST_F(MatrixFactorisation, RepeatsItself) {
  const auto once = fitted(3), again = fitted(3);
  EXPECT_EQ(once->users(), again->users());
  EXPECT_EQ(once->items(), again->items());
  EXPECT_EQ(last(*once, Mf::kObjective), last(*again, Mf::kObjective));
  options_.seed = 2;
  EXPECT_NE(once->users(), fitted(3)->users());
}

TEST_F(MatrixFactorisation, EndsWhereItGetsNoBetter) {
  options_.iterations = 1000;
  options_.tolerance = 0.01;
  const auto program = fitted(2);
  EXPECT_TRUE(program->converged());
  EXPECT_LT(program->points().size(), 100);
  options_.iterations = 3;
  EXPECT_FALSE(fitted(2)->converged());
  EXPECT_EQ(fitted(2)->points().back().rounds, 3);
}

TEST_F(MatrixFactorisation, NeedsNoTest) {
  options_.test.clear();
  EXPECT_FALSE(fitted(2)->points().back().values[Mf::kTestRmse]);
}

// Users and items that nobody rated keep what they began with.
TEST_F(MatrixFactorisation, TakesRatingsThatAreAllTheSame) {
  SparseColumns one;
  one.rows = ratings_.rows;
  one.columns = ratings_.columns;
  one.row = {5};
  one.values = {4.5};
  one.begins.assign(static_cast<size_t>(one.columns) + 1, 1);
  one.begins[0] = 0;
  write_matrix_market(folder_ / "ratings.mtx", one);
  const auto program = fitted(3);
  EXPECT_EQ(program->mean(), 4.5);
  EXPECT_EQ(program->ratings(), 1);
  EXPECT_TRUE(std::isfinite(last(*program, Mf::kObjective)));
}

TEST_F(MatrixFactorisation, EndsWithAdviceWhereItDiverges) {
  options_.step = 30;
  options_.decay = 0;
  options_.iterations = 50;
  try {
    fitted(2);
    FAIL() << "it took steps of 30";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("take a smaller --step"));
  }
}

}  // namespace
}  // namespace kerf::apps
