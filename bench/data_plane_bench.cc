// The data plane against what bounds it, all in one run: tensors between two processes against
// memcpy and against a raw TCP socket loop.
//
//   data_plane_bench [--rounds N] [--slots N] [--only hand-over|copy|guards|tcp] [--json]
//
// Prints the median over rounds; ratios are taken within a round. The receiver of the hand-over and
// of the one-copy path does not read the tensor: what is measured is the path, not the consumer.
// Half a second for each figure: for the first milliseconds threads wander between the cores.
// Processor time is of all threads of both processes, kernel included, from the start of the one
// process to its end.
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "bench/two_sides.h"
#include "runtime/channel.h"
#include "runtime/error.h"
#include "runtime/json.h"

namespace kerf::bench {
namespace {

using namespace std::chrono_literals;
using runtime::after;
using runtime::Clock;
using runtime::Endpoint;
using runtime::Lane;
using runtime::TransportKind;

constexpr size_t kKiB = size_t{1} << 10;
constexpr size_t kMiB = size_t{1} << 20;

int slots = 16;  // of the lane; set once, by main()

void receive_messages(TransportKind kind, size_t bytes, int messages, int socket, Guard guard) {
  const auto endpoint = open_side(kind, 1, Lane{bytes, slots}, socket, guard);
  for (int i = 0; i < messages; ++i) {
    const auto view = endpoint->receiver(0).receive(after(kPatience));
    KERF_CHECK(view.has_value());
    endpoint->receiver(0).release(*view);
  }
  hear(socket);  // the sender has all credits
}

// Seconds per message, sustained. `produce` writes the tensor into its slot.
double time_channel(TransportKind kind, size_t bytes, int messages,
                    const std::function<void(std::byte*)>& produce, Guard guard = Guard::kNone) {
  const int warm_up = 2 * slots;
  const Child child(
      [&](int socket) { receive_messages(kind, bytes, warm_up + messages, socket, guard); });
  const auto endpoint = open_side(kind, 0, Lane{bytes, slots}, child.socket(), guard);
  Clock::time_point begin;
  for (int i = 0; i < warm_up + messages; ++i) {
    if (i == warm_up) begin = Clock::now();
    const auto slot = endpoint->sender(1).acquire(0, bytes, after(kPatience));
    KERF_CHECK(slot.has_value());
    produce(slot->data);
    endpoint->sender(1).commit(*slot, {i, 0, 0, 0});
  }
  KERF_CHECK(endpoint->drain(after(kPatience)));
  const double result = seconds_since(begin) / messages;
  tell(child.socket(), "done");
  return result;
}

// Into a ring of as many buffers as a lane has slots: the same memory, without the path.
double time_memcpy(const std::vector<std::byte>& from, int times) {
  const size_t bytes = from.size();
  std::vector<std::byte> ring(slots * bytes, std::byte{1});
  const Clock::time_point begin = Clock::now();
  for (int i = 0; i < times; ++i) {
    std::byte* to = ring.data() + (i % slots) * bytes;
    std::memcpy(to, from.data(), bytes);
    asm volatile("" : : "r"(to) : "memory");
  }
  return seconds_since(begin) / times;
}

void transfer_all(size_t bytes, const std::function<ssize_t(size_t done)>& some) {
  for (size_t done = 0; done < bytes;) {
    const ssize_t count = some(done);
    KERF_CHECK(count > 0);
    done += static_cast<size_t>(count);
  }
}

void receive_raw(uint16_t port, size_t bytes, int messages, int socket) {
  const int connection = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = port;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  KERF_CHECK(::connect(connection, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
  std::vector<std::byte> ring(slots * bytes);
  for (int i = 0; i < messages; ++i) {
    std::byte* slot = ring.data() + (i % slots) * bytes;
    transfer_all(bytes,
                 [&](size_t done) { return ::recv(connection, slot + done, bytes - done, 0); });
  }
  tell(socket, "done");
}

double time_raw_tcp(size_t bytes, int messages) {
  const int listener = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  KERF_CHECK(::bind(listener, reinterpret_cast<sockaddr*>(&address), length) == 0);
  KERF_CHECK(::listen(listener, 1) == 0);
  KERF_CHECK(::getsockname(listener, reinterpret_cast<sockaddr*>(&address), &length) == 0);
  const Child child(
      [&](int socket) { receive_raw(address.sin_port, bytes, slots + messages, socket); });
  const int connection = ::accept(listener, nullptr, nullptr);
  const int one = 1;
  ::setsockopt(connection, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  std::vector<std::byte> ring(slots * bytes, std::byte{1});
  Clock::time_point begin;
  for (int i = 0; i < slots + messages; ++i) {
    if (i == slots) begin = Clock::now();
    const std::byte* slot = ring.data() + (i % slots) * bytes;
    transfer_all(bytes, [&](size_t done) {
      return ::send(connection, slot + done, bytes - done, MSG_NOSIGNAL);
    });
  }
  hear(child.socket());
  const double result = seconds_since(begin) / messages;
  ::close(connection);
  ::close(listener);
  return result;
}

struct Round {
  std::map<std::string, double> figures;
};

std::string size_name(size_t bytes) {
  return bytes < kMiB ? kerf::format("{} KiB", bytes / kKiB) : kerf::format("{} MiB", bytes / kMiB);
}

void measure_hand_over(std::map<std::string, double>& figures) {
  for (const size_t bytes : {4 * kKiB, kMiB, 16 * kMiB})
    figures["hand-over " + size_name(bytes) + ", us"] =
        1e6 * time_channel(TransportKind::kShm, bytes, 50'000, [](std::byte*) {});
}

void measure_copy(std::map<std::string, double>& figures) {
  for (const size_t bytes : {kMiB, 16 * kMiB}) {
    const int messages = bytes == kMiB ? 20'000 : 1'200;
    const std::vector<std::byte> source(bytes, std::byte{1});
    const double copy = time_memcpy(source, messages);
    const double channel = time_channel(TransportKind::kShm, bytes, messages, [&](std::byte* to) {
      std::memcpy(to, source.data(), bytes);
    });
    figures["memcpy " + size_name(bytes) + ", GB/s"] = bytes / copy / 1e9;
    figures["one copy " + size_name(bytes) + ", GB/s"] = bytes / channel / 1e9;
    figures["one copy / memcpy, " + size_name(bytes)] = copy / channel;
  }
}

// What `transfer` answers, and nanoseconds of processors for each KiB of its `messages`.
std::pair<double, double> with_processor_time(size_t bytes, int messages,
                                              const std::function<double()>& transfer) {
  const double before = processor_seconds();
  const double seconds = transfer();
  const double kib = static_cast<double>(bytes) * messages / kKiB;
  return {seconds, 1e9 * (processor_seconds() - before) / kib};
}

void measure_tcp(std::map<std::string, double>& figures) {
  for (const size_t bytes : {256 * kKiB, kMiB, 16 * kMiB}) {
    const int messages = static_cast<int>(2048 * kMiB / bytes);
    const auto [raw, raw_processor] =
        with_processor_time(bytes, messages + slots, [&] { return time_raw_tcp(bytes, messages); });
    const auto [channel, channel_processor] = with_processor_time(bytes, messages + 2 * slots, [&] {
      return time_channel(TransportKind::kTcp, bytes, messages, [](std::byte*) {});
    });
    const std::string size = size_name(bytes);
    figures["raw socket " + size + ", GB/s"] = bytes / raw / 1e9;
    figures["raw socket " + size + ", processor ns/KiB"] = raw_processor;
    figures["tcp " + size + ", GB/s"] = bytes / channel / 1e9;
    figures["tcp " + size + ", processor ns/KiB"] = channel_processor;
    figures["tcp / raw socket, " + size] = raw / channel;
  }
}

// What crosses a network is guarded, by sums or by encryption.
void measure_guards(std::map<std::string, double>& figures) {
  for (const size_t bytes : {256 * kKiB, 16 * kMiB}) {
    const int messages = static_cast<int>(1024 * kMiB / bytes);
    std::map<Guard, double> seconds;
    for (const auto& [guard, name] : {std::pair(Guard::kNone, "tcp"),
                                      {Guard::kSummed, "summed tcp"},
                                      {Guard::kEncrypted, "encrypted tcp"}}) {
      const auto [took, processor] = with_processor_time(bytes, messages + 2 * slots, [&] {
        return time_channel(
            TransportKind::kTcp, bytes, messages, [](std::byte*) {}, guard);
      });
      seconds[guard] = took;
      figures[kerf::format("{} {}, GB/s", name, size_name(bytes))] = bytes / took / 1e9;
      figures[kerf::format("{} {}, processor ns/KiB", name, size_name(bytes))] = processor;
    }
    figures["encrypted / summed tcp, " + size_name(bytes)] =
        seconds[Guard::kSummed] / seconds[Guard::kEncrypted];
  }
}

const std::map<std::string, void (*)(std::map<std::string, double>&)> kParts{
    {"hand-over", measure_hand_over},
    {"copy", measure_copy},
    {"guards", measure_guards},
    {"tcp", measure_tcp}};

// All parts, or the one that is named.
Round measure(const std::string& only) {
  Round round;
  for (const auto& [name, part] : kParts)
    if (only.empty() || only == name) part(round.figures);
  return round;
}

// The goals of docs/benchmarks.md; empty for figures without one.
std::string target(const std::string& name) {
  if (name.starts_with("hand-over")) return "<= 15";
  if (name == "one copy / memcpy, 1 MiB") return ">= 0.6";
  if (name == "one copy / memcpy, 16 MiB") return ">= 0.8";
  if (name.starts_with("tcp / raw")) return ">= 0.9";
  return {};
}

void report(const std::vector<Round>& rounds, bool as_json) {
  Json json = Json::object();
  for (const auto& [name, unused] : rounds.front().figures) {
    std::vector<double> values;
    for (const Round& round : rounds) values.push_back(round.figures.at(name));
    const auto [least, most] = std::ranges::minmax(values);
    json[name] = {{"median", median(values)}, {"min", least}, {"max", most}};
    if (!as_json)
      fmt::print("{:40} {:8.2f}   [{:.2f} .. {:.2f}]   {}\n", name, median(values), least, most,
                 target(name));
  }
  if (as_json) fmt::print("{}\n", json.dump(2));
}

}  // namespace
}  // namespace kerf::bench

int main(int argc, char** argv) {
  int rounds = 5;
  bool as_json = false;
  std::string only;
  for (int i = 1; i < argc; ++i) {
    const std::string flag = argv[i];
    if (flag == "--json") {
      as_json = true;
    } else if (flag == "--rounds" && i + 1 < argc) {
      rounds = std::max(1, std::atoi(argv[++i]));
    } else if (flag == "--slots" && i + 1 < argc) {
      kerf::bench::slots = std::clamp(std::atoi(argv[++i]), 1, 1024);
    } else if (flag == "--only" && i + 1 < argc && kerf::bench::kParts.contains(argv[i + 1])) {
      only = argv[++i];
    } else {
      fmt::print(stderr,
                 "usage: data_plane_bench [--rounds N] [--slots N] "
                 "[--only hand-over|copy|guards|tcp] [--json]\n");
      return 2;
    }
  }
  std::vector<kerf::bench::Round> measured;
  for (int i = 0; i < rounds; ++i) measured.push_back(kerf::bench::measure(only));
  kerf::bench::report(measured, as_json);
  return 0;
}
