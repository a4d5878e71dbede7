// Workers of several hosts, containers and networks: which transport each pair gets, and what each
// is told of the others.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <set>

#include "runtime/crew.h"
#include "runtime/messages.h"
#include "runtime/wire.h"
#include "tests/runtime/joining_workers.h"
#include "tests/support/errors.h"

namespace kerf::runtime {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::HasSubstr;
using tests::all_channels;
using tests::assemble_anywhere;
using tests::listening_options;
using tests::start_worker;

// Four workers, of which one says that it is elsewhere, and the last that it is in a container.
class ScatteredCrew : public testing::Test {
 protected:
  ScatteredCrew() { options_.transport = {}; }

  std::unique_ptr<Crew> assemble() {
    return assemble_anywhere(options_, [&](const std::string& address) {
      for (const char* index : {"0", "1"})
        workers_.push_back(start_worker(address, {"--index", index}));
      workers_.push_back(start_worker(address, {"--index", "2", "--host", "elsewhere"}));
      workers_.push_back(start_worker(address, {"--index", "3", "--container", "box"}));
    });
  }

  CrewOptions options_ = listening_options(4);
  std::vector<Process> workers_;
};

TEST_F(ScatteredCrew, GivesEachPairTheTransportThatItCanHave) {
  const auto crew = assemble();
  EXPECT_EQ(crew->transport_between(0, 1), TransportKind::kShm);
  EXPECT_EQ(crew->transport_between(0, 2), TransportKind::kTcp);
  EXPECT_EQ(crew->transport_between(2, 1), TransportKind::kTcp);
  EXPECT_EQ(crew->transport_between(0, 3), TransportKind::kShm);
  EXPECT_EQ(crew->transport_between(3, 2), TransportKind::kTcp);
  crew->start("words", {"", "", "", ""}, all_channels(4));
  for (int from = 0; from < 4; ++from)
    for (int to = 0; to < 4; ++to) {
      if (from == to) continue;
      crew->send(to, {kerf::format("receive {}", from)});
      crew->send(from, {kerf::format("send {} from {} to {}", to, from, to)});
      std::vector<std::string> results;
      while (results.size() < 2) {
        const auto batch = crew->next(after(10s));
        ASSERT_TRUE(batch);
        results.insert(results.end(), batch->results.begin(), batch->results.end());
      }
      EXPECT_THAT(results,
                  testing::UnorderedElementsAre("sent", kerf::format("from {} to {}", from, to)));
    }
  crew->stop();
}

TEST_F(ScatteredCrew, IsRefusedATransportThatAPairCannotHaveBeforeAnythingStarts) {
  options_.transport = TransportKind::kShm;
  const auto crew = assemble();
  const auto error = tests::error_of([&] {
    crew->start("words", {"", "", "", ""}, all_channels(4));
  });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), ErrorCode::kUnavailable);
  EXPECT_THAT(error->message(), AllOf(HasSubstr("worker 0"), HasSubstr("worker 2"),
                                      HasSubstr("over shm"), HasSubstr("leave out --transport")));
  auto channels = all_channels(4);
  for (size_t worker = 0; worker < 4; ++worker) channels[worker][2] = channels[2][worker] = {};
  crew->start("words", {"", "", "", ""}, channels);  // who exchanges nothing needs no transport
  crew->stop();
}

// What a worker, spoken by hand, is told to start with; nothing if it is told to stop before.
std::optional<Start> start_told_to(const std::string& address, int index, const Reach& reach) {
  const auto client = make_control_client(address);
  client->send(
      {ControlType::kRegister,
       encode(Registration{
           .identity = tests::test_identity(), .wish = index, .device = "cpu", .reach = reach})});
  for (const auto end = after(10s); Clock::now() < end;) {
    const auto message = client->receive(end);
    if (!message) continue;
    if (message->type == ControlType::kWelcome)
      client->send({ControlType::kAddress,
                    encode(Addresses{"tcp://127.0.0.1:5555", "tcp://127.0.0.1:5556"})});
    if (message->type == ControlType::kStart) {
      client->send({ControlType::kReady, {}});
      EXPECT_TRUE(client->flush(after(5s)));
      return decode<Start>(message->payload);
    }
    if (message->type == ControlType::kStop) break;
  }
  return {};
}

// What two workers of these places are told; what ends the crew is in `ended`.
std::vector<std::optional<Start>> starts_of(const Reach& a, const Reach& b,
                                            std::optional<Error>& ended,
                                            bool encrypt_data = false) {
  std::future<std::optional<Start>> first;
  std::future<std::optional<Start>> second;
  ended = tests::error_of([&] {
    CrewOptions options = listening_options(2);
    options.encrypt_data = encrypt_data;
    const auto crew = assemble_anywhere(options, [&](const std::string& address) {
      first = std::async(std::launch::async, start_told_to, address, 0, a);
      second = std::async(std::launch::async, start_told_to, address, 1, b);
    });
    crew->start("words", {"", ""}, all_channels(2), all_channels(2));
  });
  std::vector<std::optional<Start>> starts;
  for (auto* const told : {&first, &second}) starts.push_back(told->get());
  return starts;
}

TEST(CrewOfHosts, TellsWorkersWhoseTensorsCrossANetwork) {
  for (const bool is_elsewhere : {true, false}) {
    std::optional<Error> ended;
    const auto starts =
        starts_of({.host = "a", .network = "one", .sockets = "a"},
                  {.host = "b", .network = "one", .sockets = is_elsewhere ? "b" : "a"}, ended);
    ASSERT_FALSE(ended) << ended->what();
    for (int32_t worker = 0; worker < 2; ++worker) {
      const std::vector<int32_t> others(is_elsewhere ? 1 : 0, 1 - worker);
      EXPECT_EQ(starts[static_cast<size_t>(worker)].value().wiring.elsewhere, others);
      EXPECT_EQ(starts[static_cast<size_t>(worker)].value().service.elsewhere, others);
    }
  }
}

TEST(CrewOfHosts, TellsWorkersByWhatTheyEncrypt) {
  std::set<std::string> secrets;
  for (const bool encrypts : {false, true, true}) {
    std::optional<Error> ended;
    const auto starts = starts_of({.host = "a", .network = "one"}, {.host = "b", .network = "one"},
                                  ended, encrypts);
    ASSERT_FALSE(ended) << ended->what();
    const Start& first = starts[0].value();
    const Start& second = starts[1].value();
    ASSERT_EQ(first.wiring.secrets.size(), encrypts ? 1u : 0u);
    ASSERT_EQ(second.service.secrets.size(), encrypts ? 1u : 0u);
    if (!encrypts) continue;
    EXPECT_EQ(first.wiring.secrets.at(1), second.wiring.secrets.at(0));
    EXPECT_EQ(first.service.secrets.at(1), second.service.secrets.at(0));
    secrets.insert({first.wiring.secrets.at(1), first.service.secrets.at(1)});
  }
  EXPECT_EQ(secrets.size(), 4u) << "each crew has its own, and of each pair each endpoint";
}

// Where memory is shared nothing is on a wire.
TEST_F(ScatteredCrew, CarriesMessagesThatAreEncryptedOverTcpAlone) {
  options_.encrypt_data = true;
  const auto crew = assemble();
  crew->start("words", {"", "", "", ""}, all_channels(4));
  for (const auto& [from, to] : {std::pair(0, 1), {1, 2}, {2, 0}, {2, 3}}) {
    crew->send(to, {kerf::format("receive {}", from)});
    crew->send(from, {kerf::format("send {} a secret", to)});
    EXPECT_THAT(tests::take(*crew, 2), testing::UnorderedElementsAre("sent", "a secret"));
  }
  crew->stop();
}

// As one does that comes through a tunnel: its peers would connect to their own hosts.
TEST(CrewOfHosts, TellsNobodyOfAWorkerOfAnotherHostOnLoopback) {
  std::optional<Error> ended;
  for (const auto& start :
       starts_of({.host = "a", .network = "one"}, {.host = "b", .network = "two"}, ended))
    EXPECT_FALSE(start);
  ASSERT_TRUE(ended);
  EXPECT_EQ(ended->code(), ErrorCode::kUnavailable);
  EXPECT_THAT(ended->message(),
              AllOf(HasSubstr("worker 0"), HasSubstr("worker 1"), HasSubstr("different networks")));
}

}  // namespace
}  // namespace kerf::runtime
