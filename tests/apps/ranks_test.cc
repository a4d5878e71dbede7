// Which task a process is, as launchers say it in the environment.
#include "apps/main/ranks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "apps/main/node_list.h"
#include "tests/support/errors.h"

namespace kerf::apps {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Variables = std::map<std::string, std::string>;

Environment of(Variables variables) {
  return [variables = std::move(variables)](const std::string& name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    if (found == variables.end()) return std::nullopt;
    return found->second;
  };
}

// "RANK/RANKS LOCAL", "none" for no task, and of an error its message.
std::string told(const Variables& variables, const std::string& launcher = "env",
                 bool at_terminal = false) {
  std::string text;
  const auto error = kerf::tests::error_of([&] {
    const auto rank = find_rank(of(variables), launcher, at_terminal);
    text = rank ? format("{}/{} {}", rank->rank, rank->ranks,
                         rank->local ? std::to_string(*rank->local) : "-")
                : "none";
  });
  if (!error) return text;
  EXPECT_EQ(error->code(), ErrorCode::kUsage);
  EXPECT_EQ(error->where(), "--launcher");
  return error->message();
}

const Variables kStep{{"SLURM_JOB_ID", "71"},
                      {"SLURM_STEP_ID", "0"},
                      {"SLURM_PROCID", "2"},
                      {"SLURM_STEP_NUM_TASKS", "4"},
                      {"SLURM_NTASKS", "9"},
                      {"SLURM_LOCALID", "1"},
                      {"SLURM_STEP_NODELIST", "n[0-2,5]"}};
const Variables kMpi{{"OMPI_COMM_WORLD_RANK", "2"},
                     {"OMPI_COMM_WORLD_SIZE", "4"},
                     {"OMPI_COMM_WORLD_LOCAL_RANK", "0"}};

Variables with(Variables some, const Variables& more) {
  for (const auto& [name, value] : more) some[name] = value;
  return some;
}

TEST(Ranks, EveryLauncherSaysItInItsOwnWay) {
  const Variables torchrun{
      {"RANK", "1"}, {"WORLD_SIZE", "3"}, {"LOCAL_RANK", "1"}, {"MASTER_ADDR", "a"}};
  const Variables own{{"KERF_RANK", "0"}, {"KERF_RANKS", "2"}};
  const Variables pmix{{"PMIX_RANK", "1"}, {"KERF_RANKS", "2"}};
  const Variables index{{"JOB_COMPLETION_INDEX", "5"}, {"KERF_RANKS", "6"}};
  struct Row {
    std::string launcher;
    Variables variables;
    std::string rank;
  };
  for (const Row& row : std::vector<Row>{{"torchrun", torchrun, "1/3 1"},
                                         {"kerf", own, "0/2 -"},
                                         {"pmix", pmix, "1/2 -"},
                                         {"index", index, "5/6 -"},
                                         {"mpirun", kMpi, "2/4 0"},
                                         {"slurm", kStep, "2/4 1"}}) {
    EXPECT_EQ(told(row.variables, row.launcher), row.rank);
    EXPECT_EQ(told(row.variables, "env"), row.rank);
    EXPECT_EQ(told(row.variables, "none"), "none");
    const bool by_itself = row.launcher == "mpirun" || row.launcher == "slurm";
    EXPECT_EQ(told(row.variables, "auto"), by_itself ? row.rank : "none") << row.launcher;
    EXPECT_EQ(told(row.variables, "auto", true), "none") << "a person sits there";
    EXPECT_EQ(told(row.variables, "env", true), row.rank);
  }
}

TEST(Ranks, ShellsOfAJobAreNoTasks) {
  Variables batch = kStep;
  batch.erase("SLURM_STEP_ID");
  for (const Variables& shell :
       {batch, with(kStep, {{"SLURM_STEP_ID", "4294967291"}}),  // of sbatch
        with(kStep, {{"SLURM_STEP_ID", "4294967290"}})}) {      // of salloc
    EXPECT_EQ(told(shell, "auto"), "none");
    EXPECT_THAT(told(shell, "slurm"), HasSubstr("nobody says which task this is"));
    EXPECT_THAT(told(shell, "env"), HasSubstr("SLURM_PROCID"));
    EXPECT_EQ(told(with(shell, kMpi), "auto"), "2/4 0") << "started by mpirun in that shell";
  }
}

TEST(Ranks, ATaskAloneRunsAsEver) {
  const Variables one = with(kStep, {{"SLURM_PROCID", "0"}, {"SLURM_STEP_NUM_TASKS", "1"}});
  EXPECT_EQ(told(one, "auto"), "none");
  EXPECT_THAT(told(one, "env"), HasSubstr("SLURM_STEP_NUM_TASKS=1: one task is the scheduler"));
  EXPECT_EQ(told({}, "auto"), "none");
}

TEST(Ranks, WhoDisagreesIsNamed) {
  EXPECT_EQ(told(with(kStep, kMpi)), "2/4 0") << "they agree; the first says the rest";
  EXPECT_THAT(told(with(with(kStep, kMpi), {{"SLURM_PROCID", "1"}})),
              testing::StartsWith("OMPI_COMM_WORLD_RANK=2 and SLURM_PROCID=1 disagree; --launcher "
                                  "mpirun or --launcher slurm says"));
  EXPECT_THAT(told(with(kMpi, {{"RANK", "2"}, {"WORLD_SIZE", "8"}})),
              testing::StartsWith("WORLD_SIZE=8 and OMPI_COMM_WORLD_SIZE=4 disagree"));
  EXPECT_EQ(told(with(kMpi, {{"RANK", "2"}, {"WORLD_SIZE", "8"}}), "mpirun"), "2/4 0");
  EXPECT_THAT(told(with(kStep, {{"PMIX_RANK", "0"}})), HasSubstr("SLURM_PROCID=2 and PMIX_RANK=0"));
}

TEST(Ranks, WhatIsNoRankIsNamed) {
  EXPECT_THAT(told({{"RANK", "x"}}), HasSubstr("RANK is \"x\""));
  EXPECT_THAT(told({{"RANK", "-1"}}), HasSubstr("RANK is \"-1\""));
  EXPECT_THAT(told({{"RANK", "99999999999"}}), HasSubstr("no number"));
  EXPECT_THAT(told({{"RANK", "1"}}), HasSubstr("RANK=1, but nobody says of how many"));
  EXPECT_THAT(told({{"RANK", "3"}, {"WORLD_SIZE", "3"}}), HasSubstr("RANK=3 and WORLD_SIZE=3"));
  EXPECT_THAT(told({}, "env"), HasSubstr("KERF_RANK, RANK, OMPI_COMM_WORLD_RANK, SLURM_PROCID"));
  EXPECT_THAT(told({}, "torchrun"), HasSubstr(": RANK is not set by torchrun"));
  const auto error = kerf::tests::error_of([] { check_launcher("pbs"); });
  ASSERT_TRUE(error);
  EXPECT_THAT(error->message(), HasSubstr("auto, none, env, kerf, torchrun, mpirun, slurm"));
}

TEST(Ranks, TasksMeetWhereTheFirstIs) {
  const Rank rank{2, 4, {}};
  Meeting meeting = find_meeting(of(kStep), rank);
  EXPECT_THAT(meeting.hosts, ElementsAre("n0", "n1", "n2", "n5"));
  EXPECT_FALSE(meeting.alone);
  EXPECT_EQ(meeting.port, kFirstPort + 71 * 16);
  meeting =
      find_meeting(of(with(kStep, {{"SLURM_STEP_NODELIST", "n7"}, {"SLURM_STEP_ID", "3"}})), rank);
  EXPECT_TRUE(meeting.alone);
  EXPECT_EQ(meeting.port, kFirstPort + 71 * 16 + 3);
  EXPECT_LT(find_meeting(of(with(kStep, {{"SLURM_JOB_ID", "4000000000"}})), rank).port,
            kFirstPort + kPorts);

  meeting = find_meeting(of({{"MASTER_ADDR", "a"}, {"MASTER_PORT", "29500"}}), rank);
  EXPECT_THAT(meeting.hosts, ElementsAre("a"));
  EXPECT_FALSE(meeting.alone);
  EXPECT_EQ(meeting.port, 29500);
  const Variables agent{
      {"MASTER_ADDR", "a"}, {"MASTER_PORT", "29500"}, {"TORCHELASTIC_USE_AGENT_STORE", "True"}};
  EXPECT_EQ(find_meeting(of(agent), rank).port, 29501);

  const Variables here =
      with(kMpi, {{"OMPI_COMM_WORLD_LOCAL_SIZE", "4"}, {"PMIX_NAMESPACE", "12"}});
  const Rank by_mpirun = find_rank(of(here), "mpirun", false).value();
  EXPECT_TRUE(find_meeting(of(here), by_mpirun).alone);
  EXPECT_GE(find_meeting(of(here), by_mpirun).port, kFirstPort);
  EXPECT_LT(find_meeting(of(here), by_mpirun).port, kFirstPort + kPorts);
}

// "HOST:PORT" of the first task, and of an error its message.
std::string met(const Variables& variables, const std::string& launcher) {
  std::string text;
  const auto error = kerf::tests::error_of([&] {
    const Rank rank = find_rank(of(variables), launcher, false).value();
    const Meeting meeting = find_meeting(of(variables), rank);
    text = format("{}:{}", meeting.hosts.empty() ? "" : meeting.hosts[0], meeting.port);
  });
  if (!error) return text;
  EXPECT_EQ(error->code(), ErrorCode::kUsage);
  return error->message();
}

// torchrun of one task a host within a step numbers its tasks as Slurm does; who sets RANK to
// SLURM_PROCID, too.
TEST(Ranks, TasksMeetWhereTheLauncherThatWasAskedSays) {
  const Variables torchrun{
      {"RANK", "2"}, {"WORLD_SIZE", "4"}, {"MASTER_ADDR", "a"}, {"MASTER_PORT", "29500"}};
  const Variables both = with(kStep, torchrun);
  const std::string of_step = format("n0:{}", kFirstPort + 71 * 16);
  EXPECT_EQ(met(both, "torchrun"), "a:29500");
  EXPECT_EQ(met(both, "slurm"), of_step);
  EXPECT_EQ(met(both, "auto"), of_step);
  EXPECT_THAT(met(both, "env"),
              testing::AllOf(HasSubstr("MASTER_ADDR=a and SLURM_STEP_NODELIST=n[0-2,5] disagree"),
                             HasSubstr("--listen tcp://HOST:PORT")));
  EXPECT_EQ(met(with(both, {{"MASTER_ADDR", "n0.cluster"}}), "env"), "n0:29500");
  EXPECT_THAT(met(with(both, {{"MASTER_ADDR", "n1"}}), "env"), HasSubstr("MASTER_ADDR=n1 and"));
  // Two tasks a host: the step is of what started them, and its first host need not be theirs.
  const Variables within = with(both, {{"SLURM_PROCID", "1"}, {"SLURM_STEP_NUM_TASKS", "2"}});
  EXPECT_EQ(met(within, "torchrun"), "a:29500");
}

TEST(Ranks, OfLaunchersThatSayNoPlaceAStepOfTheSameNumbersDoes) {
  const std::string of_step = format("n0:{}", kFirstPort + 71 * 16);
  const Variables pmix = with(kStep, {{"PMIX_RANK", "2"}, {"KERF_RANKS", "4"}});
  EXPECT_EQ(met(pmix, "pmix"), of_step);
  EXPECT_EQ(met(with(pmix, {{"MASTER_ADDR", "n0"}, {"MASTER_PORT", "9"}}), "pmix"), "n0:9");
  EXPECT_THAT(met(with(pmix, {{"MASTER_ADDR", "b"}}), "pmix"),
              HasSubstr("MASTER_ADDR=b and SLURM_STEP_NODELIST=n[0-2,5] disagree"));
  // mpirun's own step has a task for each other host, and is not of those that it starts.
  const Variables mpirun = with(
      with(kStep, kMpi),
      {{"SLURM_PROCID", "1"}, {"SLURM_STEP_NUM_TASKS", "3"}, {"SLURM_STEP_NODELIST", "n[1-3]"}});
  EXPECT_THAT(met(mpirun, "mpirun"), HasSubstr("nobody says on which host task 0 is"));
  EXPECT_EQ(met(with(mpirun, {{"MASTER_ADDR", "n0"}, {"MASTER_PORT", "9"}}), "mpirun"), "n0:9");
}

TEST(Ranks, TasksAreKnownToBeOnSeveralHostsWhereSomebodySaysSo) {
  const Variables torchrun{
      {"MASTER_ADDR", "a"}, {"MASTER_PORT", "29500"}, {"RANK", "2"}, {"WORLD_SIZE", "4"}};
  const auto apart = [&](const Variables& more, const std::string& launcher = "torchrun") {
    const Environment all = of(with(torchrun, more));
    return find_meeting(all, find_rank(all, launcher, false).value()).apart;
  };
  EXPECT_FALSE(apart({}));
  EXPECT_FALSE(apart({{"LOCAL_RANK", "2"}}));
  EXPECT_TRUE(apart({{"LOCAL_RANK", "0"}})) << "the first of its host";
  EXPECT_FALSE(apart({{"LOCAL_RANK", "2"}, {"LOCAL_WORLD_SIZE", "4"}}));
  EXPECT_TRUE(apart({{"RANK", "0"}, {"LOCAL_RANK", "0"}, {"LOCAL_WORLD_SIZE", "2"}}));
  // Who started the shell that torchrun was started in says nothing of torchrun's tasks.
  const Variables mpirun = with(kMpi, {{"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}});
  EXPECT_FALSE(apart(mpirun));
  EXPECT_TRUE(apart(mpirun, "mpirun"));
  EXPECT_FALSE(apart({{"SLURM_STEP_NUM_NODES", "2"}, {"SLURM_STEP_ID", "0"}}));
}

TEST(Ranks, WhereNobodySaysWhereTheWayOutIsTold) {
  for (const Variables& variables :
       {kMpi, with(kMpi, {{"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}, {"PMIX_NAMESPACE", "12"}}),
        Variables{{"MASTER_ADDR", "a"}}}) {
    const auto error = kerf::tests::error_of([&] { find_meeting(of(variables), {2, 4, {}}); });
    ASSERT_TRUE(error);
    EXPECT_THAT(error->message(), HasSubstr("--listen tcp://HOST:PORT"));
  }
}

TEST(NodeList, RangesAreExpandedInOrder) {
  for (const auto& [text, nodes] : std::vector<std::pair<std::string, std::vector<std::string>>>{
           {"n0", {"n0"}},
           {"n[0-2,5]", {"n0", "n1", "n2", "n5"}},
           {"b,a", {"b", "a"}},
           {"n[08-10],login-1", {"n08", "n09", "n10", "login-1"}},
           {"r[1-2]n[3,4].x", {"r1n3.x", "r1n4.x", "r2n3.x", "r2n4.x"}},
           {"[1-2]", {"1", "2"}}})
    EXPECT_EQ(parse_nodes(text, "SLURM_STEP_NODELIST"), nodes) << text;
}

TEST(NodeList, WhatIsNoneIsRefused) {
  for (const std::string text :
       {"", ",", "n0,", "n[", "n[0", "n]", "n[]", "n[1-]", "n[2-1]", "n[a]", "n[-1]", "n[[1]]",
        "n 0", "n[0-99999999]", "n[0-65535],m", "r[0-999]n[0-999]", "n[0000000001]",
        "a[1]a[1]a[1]a[1]a[1]a[1]a[1]a[1]a[1]"}) {
    const auto error = kerf::tests::error_of([&] { parse_nodes(text, "SLURM_STEP_NODELIST"); });
    ASSERT_TRUE(error) << text;
    EXPECT_EQ(error->where(), "SLURM_STEP_NODELIST");
    EXPECT_EQ(error->code(), ErrorCode::kUsage);
  }
  EXPECT_EQ(parse_nodes("n[0-65535]", "x").size(), kMostNodes);
}

}  // namespace
}  // namespace kerf::apps
