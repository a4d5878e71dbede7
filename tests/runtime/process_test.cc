// Child processes: started with nothing of ours, told apart by how they end, never left behind.
#include "runtime/process.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <sstream>
#include <thread>

#include "runtime/error.h"
#include "tests/support/errors.h"

namespace kerf::runtime {
namespace {

using namespace std::chrono_literals;

Process shell(const std::string& script) { return Process::spawn({"/bin/sh", "-c", script}); }

std::string read_proc(pid_t pid, const std::string& file) {
  std::ifstream stream(kerf::format("/proc/{}/{}", pid, file));
  std::ostringstream text;
  text << stream.rdbuf();
  return text.str();
}

TEST(Process, TellsHowItEnded) {
  EXPECT_EQ(shell("exit 0").wait(after(5s)), "exit code 0");
  EXPECT_EQ(shell("exit 7").wait(after(5s)), "exit code 7");
  EXPECT_EQ(shell("kill -9 $$").wait(after(5s)), "signal 9 (Killed)");
  auto child = shell("exit 3");
  EXPECT_EQ(child.wait(after(5s)), "exit code 3");
  EXPECT_EQ(child.ended(), "exit code 3");  // and remembers
}

TEST(Process, AnEndIsNoticedWhereSigchldIsIgnored) {
  const auto before = ::signal(SIGCHLD, SIG_IGN);
  auto child = shell("exec sleep 30");
  child.kill(SIGKILL);
  EXPECT_EQ(child.wait(after(5s)), "an end in an unknown way");
  { const auto killed = shell("exec sleep 30"); }  // nor does destruction wait for a status
  ::signal(SIGCHLD, before);
}

TEST(Process, TheDeadlineOfAWaitPasses) {
  auto child = shell("exec sleep 30");
  EXPECT_EQ(child.ended(), std::nullopt);
  EXPECT_EQ(child.wait(after(20ms)), std::nullopt);
  child.kill(SIGTERM);  // of which its parent hears as well, and says what becomes of it
  EXPECT_EQ(child.wait(after(20ms)), std::nullopt);
  child.kill(SIGKILL);
  EXPECT_EQ(child.wait(after(5s)), "signal 9 (Killed)");
}

TEST(Process, DestructionKillsAndReaps) {
  pid_t pid = 0;
  {
    auto child = Process::spawn({"/bin/sleep", "30"});
    pid = child.pid();
    auto moved = std::move(child);
    EXPECT_EQ(::kill(pid, 0), 0);
  }
  EXPECT_NE(::kill(pid, 0), 0);
}

TEST(Process, AProgramThatIsNotThereIsAnErrorThatNamesIt) {
  const auto error = kerf::tests::error_of([&] {
    Process::spawn({"/nonexistent/kerf", "worker"});
  });
  ASSERT_TRUE(error) << "spawned";
  EXPECT_EQ(error->code(), ErrorCode::kUnavailable);
  EXPECT_THAT(error->message(), testing::HasSubstr("/nonexistent/kerf"));
}

TEST(Process, InheritsNoDescriptorAndIgnoresTheTerminalsInterrupt) {
  const int leak = ::open("/dev/null", O_RDONLY);  // deliberately not close-on-exec
  auto child =
      shell("kill -INT $$; [ -e /proc/$$/fd/" + std::to_string(leak) + " ] && exit 1; exit 5");
  EXPECT_EQ(child.wait(after(5s)), "exit code 5");
  ::close(leak);
}

TEST(Process, StartsBesideZeroMqInASessionOfItsOwn) {
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  const int leak = ::open("/dev/null", O_RDONLY);  // deliberately not close-on-exec
  auto child =
      Process::spawn_beside({"sh", "-c",
                             "echo out; echo err >&2; readlink /proc/$$/fd/0; [ -e /proc/$$/fd/" +
                                 std::to_string(leak) + " ] && exit 1; exit 5"},
                            ends[1]);
  EXPECT_EQ(::getsid(child.pid()), child.pid());
  EXPECT_EQ(child.wait(after(5s)), "exit code 5");
  ::close(leak);
  ::close(ends[1]);
  std::string text(100, ' ');
  text.resize(static_cast<size_t>(::read(ends[0], text.data(), text.size())));
  EXPECT_EQ(text, "out\nerr\n/dev/null\n");
  EXPECT_EQ(::read(ends[0], text.data(), text.size()), 0);
  ::close(ends[0]);
}

TEST(Process, WhatCannotStartBesideIsAnErrorThatNamesIt) {
  const auto error =
      kerf::tests::error_of([&] { Process::spawn_beside({"/nonexistent/ssh"}, STDERR_FILENO); });
  ASSERT_TRUE(error) << "spawned";
  EXPECT_EQ(error->code(), ErrorCode::kUnavailable);
  EXPECT_THAT(error->message(), testing::HasSubstr("/nonexistent/ssh"));
}

TEST(Process, DiesWithItsParent) {
  int report[2];
  ASSERT_EQ(::pipe2(report, O_CLOEXEC), 0);
  const pid_t parent = ::fork();
  if (parent == 0) {
    auto child = Process::spawn({"/bin/sleep", "30"});
    const pid_t pid = child.pid();
    if (::write(report[1], &pid, sizeof pid) != sizeof pid) ::_exit(1);
    ::pause();
    ::_exit(0);
  }
  pid_t grandchild = 0;
  ASSERT_EQ(::read(report[0], &grandchild, sizeof grandchild), ssize_t{sizeof grandchild});
  EXPECT_EQ(::kill(grandchild, 0), 0);
  ::kill(parent, SIGKILL);
  ASSERT_EQ(::waitpid(parent, nullptr, 0), parent);
  // Somebody else reaps it: dead or a zombie, it no longer has a command line.
  const auto deadline = after(5s);
  while (!read_proc(grandchild, "cmdline").empty() && Clock::now() < deadline)
    std::this_thread::sleep_for(5ms);
  EXPECT_EQ(read_proc(grandchild, "cmdline"), "");
  ::close(report[0]);
  ::close(report[1]);
}

TEST(Process, ShowsInPsUnderItsTitle) {
  auto child = Process::spawn({KERF_TEST_WORKER, "--connect", "ipc://@kerf-nobody-there"});
  const auto deadline = after(5s);
  while (read_proc(child.pid(), "comm") != "kerf worker\n" && Clock::now() < deadline)
    std::this_thread::sleep_for(5ms);
  EXPECT_EQ(read_proc(child.pid(), "comm"), "kerf worker\n");
  while (!read_proc(child.pid(), "cmdline").starts_with("kerf worker") && Clock::now() < deadline)
    std::this_thread::sleep_for(5ms);
  EXPECT_THAT(read_proc(child.pid(), "cmdline"), testing::StartsWith("kerf worker"));
}

}  // namespace
}  // namespace kerf::runtime
