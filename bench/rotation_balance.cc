// What --balance brings matrix factorisation and topics where one of four workers has half the
// speed of the others.
//
//   rotation_balance [--json]
//
// A crew of threads; a worker sleeps for each rating, or token, as long as a machine of its speed
// would take for some, and computes behind that, which takes next to nothing: so that there need be
// no processor for each. What follows from speeds alone: an iteration takes twice as long where all
// get the same, and 4 / 3.5 = 1.14 times where each gets what fits. Medians of kRuns runs in turn,
// of the mean iteration behind the first. Exit code 1: balanced takes more than kGoal times.
#include <sys/prctl.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "apps/data/matrix_market.h"
#include "apps/lda/lda.h"
#include "apps/lda/lda_worker.h"
#include "apps/mf/mf.h"
#include "apps/mf/mf_worker.h"
#include "runtime/json.h"
#include "schedmp/scheduler.h"
#include "tests/apps/planted_topics.h"
#include "tests/support/inproc_crew.h"
#include "tests/support/temporary_folder.h"

namespace {

using namespace kerf;
using namespace kerf::apps;

constexpr int kWorkers = 4, kSlowWorker = 1;
constexpr double kGoal = 1.2;
constexpr size_t kRuns = 3;
constexpr std::chrono::nanoseconds kRating{1'000}, kToken{4'000};

// Of one compute thread, which it makes wake as exactly as the kernel can.
class Sleep {
 public:
  Sleep(std::chrono::nanoseconds each, bool half_speed) : each_(half_speed ? 2 * each : each) {
    ::prctl(PR_SET_TIMERSLACK, 1UL);
  }
  void over(int64_t count) const { std::this_thread::sleep_for(each_ * count); }

 private:
  std::chrono::nanoseconds each_;
};

// Half: MfWorker, LdaWorker; Job: its job.
template <class Half, class Job>
class Sleeping : public Half {
 public:
  Sleeping(std::chrono::nanoseconds each, bool one_is_slow)
      : each_(each), one_is_slow_(one_is_slow) {}
  void start(runtime::Workplace& workplace, const Job& job) override {
    sleep_.emplace(each_, one_is_slow_ && workplace.worker == kSlowWorker);
    Half::start(workplace, job);
  }

 protected:
  const Sleep& sleep() const { return *sleep_; }

 private:
  std::chrono::nanoseconds each_;
  bool one_is_slow_;
  std::optional<Sleep> sleep_;
};

class SleepingMf final : public Sleeping<MfWorker, MfJob> {
 public:
  explicit SleepingMf(bool one_is_slow) : Sleeping(kRating, one_is_slow) {}

 private:
  double steps(std::span<const Rating> ratings, const SgdRate& rate, float* users,
               float* items) override {
    sleep().over(std::ssize(ratings));
    return MfWorker::steps(ratings, rate, users, items);
  }
};

class SleepingLda final : public Sleeping<LdaWorker, LdaJob> {
 public:
  explicit SleepingLda(bool one_is_slow) : Sleeping(kToken, one_is_slow) {}

 private:
  void sweep(const Block& block, int64_t number) override {
    sleep().over(own_tokens(block));
    LdaWorker::sweep(block, number);
  }
};

// As many for each user.
void write_ratings(const std::filesystem::path& path, const MfOptions& options) {
  constexpr double kChance = 0.025;
  std::mt19937_64 random(1);
  SparseColumns ratings;
  ratings.rows = options.users;
  ratings.columns = options.items;
  for (int64_t item = 0; item < options.items; ++item) {
    for (int64_t user = 0; user < options.users; ++user)
      if (std::uniform_real_distribution<double>()(random) < kChance) {
        ratings.row.push_back(static_cast<int32_t>(user));
        ratings.values.push_back(std::normal_distribution<double>()(random));
      }
    ratings.begins.push_back(ratings.entries());
  }
  write_matrix_market(path, ratings);
}

// Seconds of an iteration, from the first point of the history that is behind one to the last.
template <class Program, class Half>
double iteration_seconds(Program& program, bool one_is_slow) {
  const auto crew =
      tests::inproc_crew(kWorkers, {{program.name(), [=] {
                                       return schedmp::handler_of<typename Half::Messages>(
                                           std::make_unique<Half>(one_is_slow));
                                     }}});
  schedmp::run(program, *crew);
  crew->stop();
  const auto behind = [&](int64_t iterations) {
    return std::find_if(program.points().begin(), program.points().end(),
                        [&](const HistoryPoint& point) { return point.rounds == iterations; })
        ->seconds;
  };
  const int64_t last = program.points().back().rounds;
  return (behind(last) - behind(1)) / static_cast<double>(last - 1);
}

struct Ways {
  std::vector<double> undisturbed, even, balanced;
  static double median(std::vector<double> of) {
    std::sort(of.begin(), of.end());
    return of[of.size() / 2];
  }
};

// seconds(one_is_slow, balance)
template <class Seconds>
Ways measured(const Seconds& seconds) {
  Ways ways;
  for (size_t run = 0; run < kRuns; ++run) {
    ways.undisturbed.push_back(seconds(false, false));
    ways.even.push_back(seconds(true, false));
    ways.balanced.push_back(seconds(true, true));
  }
  return ways;
}

Ways factorisation(const tests::TemporaryFolder& folder) {
  MfOptions options;
  options.users = 4'000;
  options.items = 2'000;
  options.rank = 8;
  options.tolerance = 0;
  options.iterations = 15;
  options.ratings = folder / "ratings.mtx";
  write_ratings(options.ratings, options);
  return measured([&](bool one_is_slow, bool balance) {
    options.balance = balance;
    Mf program(options, kWorkers);
    return iteration_seconds<Mf, SleepingMf>(program, one_is_slow);
  });
}

Ways topics(const tests::TemporaryFolder& folder) {
  constexpr int kTopics = 10, kWords = 2'000;
  LdaOptions options;
  options.topics = kTopics;
  options.iterations = 10;
  options.corpus = folder / "corpus.txt";
  tests::write_corpus(options.corpus, tests::planted_topics(kTopics, kWords, 2'000, 50, 1));
  const TokenCounts tokens = count_tokens(FileBytes(options.corpus), kWords);
  return measured([&](bool one_is_slow, bool balance) {
    options.balance = balance;
    Lda program(options, tokens, kWorkers);
    return iteration_seconds<Lda, SleepingLda>(program, one_is_slow);
  });
}

Json told(const Ways& ways) {
  const double undisturbed = Ways::median(ways.undisturbed);
  const double even = Ways::median(ways.even), balanced = Ways::median(ways.balanced);
  return {{"undisturbed_seconds", undisturbed},
          {"even_seconds", even},
          {"balanced_seconds", balanced},
          {"even_ratio", even / undisturbed},
          {"balanced_ratio", balanced / undisturbed}};
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const bool json = argc == 2 && std::string_view(argv[1]) == "--json";
    if (argc > 1 && !json) throw Error(ErrorCode::kUsage, "the only flag is --json");
    const tests::TemporaryFolder folder;
    const Json all = {{"mf", told(factorisation(folder))}, {"lda", told(topics(folder))}};
    bool good = true;
    if (json)
      std::printf("%s\n", all.dump(2).c_str());
    else
      std::printf("     undisturbed    even           balanced\n");
    for (const auto& [name, each] : all.items()) {
      good = good && each["balanced_ratio"] <= kGoal;
      if (!json)
        std::printf("%-4s %8.1f ms %8.1f ms %.2f %8.1f ms %.2f\n", name.c_str(),
                    1e3 * each["undisturbed_seconds"].get<double>(),
                    1e3 * each["even_seconds"].get<double>(), each["even_ratio"].get<double>(),
                    1e3 * each["balanced_seconds"].get<double>(),
                    each["balanced_ratio"].get<double>());
    }
    return good ? 0 : 1;
  } catch (const Error& error) {
    std::fprintf(stderr, "rotation_balance: %s\n", error.what());
    return exit_code(error.code());
  }
}
