// Kills a worker of `kerf` at one of its messages: a library for LD_PRELOAD, which sees what
// workers hand to ZeroMQ (zmq_send: frames of the control plane) and to the kernel (sendmsg:
// packets of the data plane). docs/protocol.md has their headers. Other processes it leaves alone.
//
//   KERF_DIE_AT="1 control 8 3 before"   worker 1 dies before its fourth frame of type 8
//   KERF_DIE_AT="0 data 3 0 after"       worker 0 dies when its first packet of kind 3 is out
//   KERF_DIE_ONCE=FILE                   made by who dies: where it is there, nobody does
//   KERF_MESSAGES=FILE                   where each message, and the death, gets a line
//   KERF_DIE_SCHEDULER=1                 the scheduler is looked at as well, as worker 1000
//   KERF_FRAMES=FILE                     where each frame of the control plane gets a line
//
// A line is "nanoseconds pid worker plane kind n", of the monotonic clock; n counts from 0 within
// the process. Of a write of several packets only those before the death go out. A frame that
// was handed to ZeroMQ is given kCarried for its way, since a thread of ZeroMQ carries it. A line
// of a frame is "pid worker connection kind sequence acknowledged count": the connection is the
// same word at both of its ends, `acknowledged` the next sequence that this end expects from the
// other, and `count` what the payload begins with behind that: of tasks and results their number.
//
// Threads: any; a message at a time, under lock().
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>
#include <zmq.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <mutex>
#include <optional>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace {

constexpr auto kCarried = std::chrono::milliseconds(20);
constexpr int kMoreFollows = 0x8000;

// What a plane's messages begin with, and where the header has more.
struct Plane {
  const char* name;
  const char* magic;
  size_t header_bytes;
  size_t kind_at;
};
constexpr Plane kControl{"control", "KERF", 32, 6};
constexpr Plane kData{"data", "KRFd", 96, 6};
constexpr size_t kBodyBytesAt = 80;  // of a packet
constexpr size_t kSequenceAt = 16;   // of a frame

struct Message {
  std::string plane;
  int kind = 0;
  int64_t n = 0;

  bool operator==(const Message&) const = default;
};

// The kind of the message that begins here, if one does.
std::optional<int> kind_at(const void* data, size_t bytes, const Plane& plane) {
  if (bytes < plane.header_bytes || std::memcmp(data, plane.magic, 4) != 0) return {};
  uint16_t kind = 0;
  std::memcpy(&kind, static_cast<const char*>(data) + plane.kind_at, sizeof kind);
  return kind & ~kMoreFollows;
}

std::string environment(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

constexpr int kScheduler = 1000;

int appended_file(const char* name) {
  const std::string path = environment(name);
  if (path.empty()) return -1;
  return ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
}

std::string hexadecimal(const void* data, size_t bytes) {
  constexpr const char* kDigits = "0123456789abcdef";
  std::string text;
  for (size_t i = 0; i < bytes; ++i) {
    const auto byte = static_cast<const unsigned char*>(data)[i];
    text += {kDigits[byte >> 4], kDigits[byte & 15]};
  }
  return text;
}

// The number of the worker that this process is; -1: it is none that is looked at.
int own_number() {
  std::ifstream file("/proc/self/cmdline");
  std::vector<std::string> words;
  for (std::string word; std::getline(file, word, '\0');) words.push_back(word);
  if (words.size() < 2) return -1;
  if (words[1] != "worker") return environment("KERF_DIE_SCHEDULER").empty() ? -1 : kScheduler;
  const auto index = std::find(words.begin(), words.end(), "--index");
  return words.end() - index < 2 ? -1 : std::stoi(index[1]);
}

class Watch {
 public:
  Watch() : worker_(own_number()), once_(environment("KERF_DIE_ONCE")) {
    if (worker_ < 0) return;
    std::istringstream at(environment("KERF_DIE_AT"));
    int worker = -1;
    std::string when;
    if (at >> worker >> aim_.plane >> aim_.kind >> aim_.n >> when && worker == worker_)
      when_ = when;
    list_ = appended_file("KERF_MESSAGES");
    frames_ = appended_file("KERF_FRAMES");
  }

  bool counts() const { return worker_ >= 0; }
  // The next one of this kind, if `ahead` others of it go before.
  Message next(const Plane& plane, int kind, int64_t ahead = 0) {
    return {plane.name, kind, counted_[{plane.name, kind}] + ahead};
  }
  void count(const Message& message) {
    ++counted_[{message.plane, message.kind}];
    tell(message);
  }
  bool dies(const char* when, const Message& message) const {
    return when_ == when && aim_ == message && ::access(once_.c_str(), F_OK) != 0;
  }
  void die() {
    if (::open(once_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600) < 0) return;
    tell({"died", 0, 0});
    ::kill(::getpid(), SIGKILL);
  }

  // What goes by this socket from now on is of that connection.
  void connect(void* socket, const void* name, size_t bytes) {
    connections_[socket] = hexadecimal(name, bytes);
  }
  void tell_frame(void* socket, const void* data, size_t bytes) {
    if (frames_ < 0) return;
    uint64_t sequence = 0;
    uint64_t acknowledged = 0;
    uint32_t count = 0;
    const auto* const frame = static_cast<const char*>(data);
    std::memcpy(&sequence, frame + kSequenceAt, sizeof sequence);
    const size_t payload = kControl.header_bytes;
    if (bytes >= payload + sizeof acknowledged)
      std::memcpy(&acknowledged, frame + payload, sizeof acknowledged);
    if (bytes >= payload + sizeof acknowledged + sizeof count)
      std::memcpy(&count, frame + payload + sizeof acknowledged, sizeof count);
    std::ostringstream line;
    line << ::getpid() << ' ' << worker_ << ' ' << connections_[socket] << ' '
         << kind_at(data, bytes, kControl).value() << ' ' << sequence << ' ' << acknowledged << ' '
         << count << '\n';
    const std::string text = line.str();
    static_cast<void>(!::write(frames_, text.data(), text.size()));
  }

  std::unique_lock<std::mutex> lock() { return std::unique_lock(mutex_); }

 private:
  void tell(const Message& message) {
    if (list_ < 0) return;
    std::ostringstream line;
    line << std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1) << ' '
         << ::getpid() << ' ' << worker_ << ' ' << message.plane << ' ' << message.kind << ' '
         << message.n << '\n';
    const std::string text = line.str();
    static_cast<void>(!::write(list_, text.data(), text.size()));
  }

  std::mutex mutex_;
  const int worker_;
  const std::string once_;
  std::string when_;  // empty: it does not die
  Message aim_;
  int list_ = -1;
  int frames_ = -1;
  std::map<std::pair<std::string, int>, int64_t> counted_;
  std::map<void*, std::string> connections_;  // by socket
};

Watch& watch() {
  static Watch watch;
  return watch;
}

// Before main(), which may give the process another title in place of its command line.
[[gnu::constructor]] void look_at_own_number() { watch(); }

template <class Function>
Function* next_of(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

// A packet in what one call writes.
struct Packet {
  size_t begin = 0;
  size_t end = 0;
  Message message;
};

// A packet's header is a piece of its own, unless a part of it has gone before.
std::vector<Packet> packets_of(const msghdr& message) {
  std::vector<Packet> packets;
  std::map<int, int64_t> ahead;
  size_t at = 0;
  for (size_t i = 0; i < message.msg_iovlen; ++i) {
    const iovec& piece = message.msg_iov[i];
    if (const auto kind = kind_at(piece.iov_base, piece.iov_len, kData)) {
      uint32_t body = 0;
      std::memcpy(&body, static_cast<const char*>(piece.iov_base) + kBodyBytesAt, sizeof body);
      packets.push_back(
          {at, at + kData.header_bytes + body, watch().next(kData, *kind, ahead[*kind]++)});
    }
    at += piece.iov_len;
  }
  return packets;
}

// The pieces of the first `bytes`.
std::vector<iovec> first_of(const msghdr& message, size_t bytes) {
  std::vector<iovec> pieces;
  for (size_t i = 0; i < message.msg_iovlen && bytes > 0; ++i) {
    iovec piece = message.msg_iov[i];
    piece.iov_len = std::min(piece.iov_len, bytes);
    bytes -= piece.iov_len;
    pieces.push_back(piece);
  }
  return pieces;
}

}  // namespace

extern "C" int zmq_send(void* socket, const void* data, size_t bytes, int flags) {
  static auto* const send = next_of<decltype(zmq_send)>("zmq_send");
  const auto kind = kind_at(data, bytes, kControl);
  if (!watch().counts()) return send(socket, data, bytes, flags);
  const auto lock = watch().lock();
  if (!kind) {  // of a router's message the frame before names the connection
    if ((flags & ZMQ_SNDMORE) != 0) watch().connect(socket, data, bytes);
    return send(socket, data, bytes, flags);
  }
  const Message message = watch().next(kControl, *kind);
  if (watch().dies("before", message)) watch().die();
  watch().tell_frame(socket, data, bytes);  // or a kill may come between
  const int sent = send(socket, data, bytes, flags);
  watch().count(message);
  if (watch().dies("after", message)) {
    std::this_thread::sleep_for(kCarried);
    watch().die();
  }
  return sent;
}

extern "C" int zmq_setsockopt(void* socket, int option, const void* value, size_t bytes) {
  static auto* const set = next_of<decltype(zmq_setsockopt)>("zmq_setsockopt");
  if (watch().counts() && option == ZMQ_ROUTING_ID) {
    const auto lock = watch().lock();
    watch().connect(socket, value, bytes);
  }
  return set(socket, option, value, bytes);
}

extern "C" ssize_t sendmsg(int socket, const msghdr* message, int flags) {
  static auto* const send = next_of<decltype(sendmsg)>("sendmsg");
  if (!watch().counts()) return send(socket, message, flags);
  const auto lock = watch().lock();
  const std::vector<Packet> packets = packets_of(*message);
  msghdr part = *message;
  std::vector<iovec> pieces;
  const auto cut = [&](size_t bytes) {
    pieces = first_of(*message, bytes);
    part.msg_iov = pieces.data();
    part.msg_iovlen = pieces.size();
  };
  for (const Packet& packet : packets) {
    if (watch().dies("before", packet.message)) {
      cut(packet.begin);
      if (packet.begin > 0) static_cast<void>(!send(socket, &part, flags));
      watch().die();
    }
    if (watch().dies("after", packet.message)) cut(packet.end);
  }
  const ssize_t sent = send(socket, &part, flags);
  for (const Packet& packet : packets) {
    if (sent <= 0 || packet.begin >= static_cast<size_t>(sent)) break;
    watch().count(packet.message);
    if (watch().dies("after", packet.message)) watch().die();
  }
  return sent;
}
