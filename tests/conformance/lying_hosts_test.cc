// A worker of another host, admitted by its keys, that does not keep the protocol.
#include "runtime/crew.h"
#include "runtime/keys.h"
#include "runtime/messages.h"
#include "runtime/wire.h"
#include "tests/conformance/channel_fixture.h"
#include "tests/support/errors.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/test_worker.h"

namespace kerf::runtime {
namespace {

// Registers at a scheduler of host 0, says where its endpoints are, and waits for the end.
void speak(const std::string& scheduler, const std::string& keys, const Addresses& addresses) {
  place_of(1).enter();
  const auto client = make_control_client(scheduler, keys);
  client->send({ControlType::kRegister,
                encode(Registration{.identity = tests::test_identity(), .device = "cpu"})});
  const auto end = after(10s);
  while (Clock::now() < end) {
    const auto message = client->receive(end);
    if (!message) continue;
    if (message->type == ControlType::kWelcome)
      client->send({ControlType::kAddress, encode(addresses)});
    else if (message->type != ControlType::kClock)
      return;
  }
}

// How a run ends whose one worker, on host 1, says that.
std::optional<Error> end_of_run(const Addresses& addresses) {
  const tests::TemporaryFolder folder;
  const std::string keys = (folder / "keys").string();
  make_keys(keys);
  std::optional<Error> ended;
  std::jthread([&] {
    place_of(0).enter();
    CrewOptions options = tests::crew_options(TransportKind::kTcp, 1, "");
    options.listen = "tcp://" + place_of(0).host + ":*";
    options.admission.keys = keys;
    std::jthread liar;
    ended = tests::error_of([&] {
      const auto crew = Crew::assemble(options, [&](int here, const std::string& address) {
        if (here == 0) liar = std::jthread(speak, address, keys, addresses);
      });
      crew->start("words", {""}, {{{}}});
    });
  }).join();
  return ended;
}

TEST(WorkersOfOtherHosts, CannotSendTheirPeersToAThird) {
  const std::string loopback = "tcp://127.0.0.1:5555";
  const std::string true_one = "tcp://" + place_of(1).host + ":5555";
  for (const std::string& there : {"tcp://" + place_of(2).host + ":5555", loopback})
    for (const Addresses& lie : {Addresses{there, true_one}, Addresses{true_one, there}}) {
      const auto ended = end_of_run(lie);
      ASSERT_TRUE(ended) << there;
      EXPECT_EQ(ended->code(), ErrorCode::kProtocol);
      EXPECT_THAT(ended->message(),
                  testing::AllOf(testing::HasSubstr("worker 0"), testing::HasSubstr(there),
                                 testing::HasSubstr("not on " + place_of(1).host)));
    }
}

}  // namespace
}  // namespace kerf::runtime
