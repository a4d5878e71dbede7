// What control messages carry, one struct per ControlType that has a payload. Encoded by wire.h.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/activity.h"
#include "runtime/channel.h"
#include "runtime/reach.h"
#include "runtime/worker.h"

namespace kerf::runtime {

// kRegister.
struct Registration {
  Identity identity;
  int32_t pid = 0;
  int32_t wish = -1;  // the number it wants; -1: any
  std::string device;
  Reach reach = {};
  int32_t keeper = 0;  // the process that starts another when this one dies; 0: none does

  template <class Archive>
  void serialize(Archive& archive) {
    archive(identity, pid, wish, device, reach, keeper);
  }
};

// kWelcome.
struct Welcome {
  int32_t worker = 0;
  int32_t workers = 1;
  int32_t threads = 1;
  std::vector<TransportKind> transports;  // that its endpoint is to be for
  bool local = false;  // started by the scheduler, which shows what the worker fails with
  // Of a worker of another host: the bytes that it may have asked of the scheduler's store without
  // an answer. 0: it is on the scheduler's host, and opens the run's files itself.
  int64_t store_window = 0;

  template <class Archive>
  void serialize(Archive& archive) {
    archive(worker, workers, threads, transports, local, store_window);
  }
};

// kAddress: of its two endpoints.
struct Addresses {
  std::string channels;
  std::string service;

  template <class Archive>
  void serialize(Archive& archive) {
    archive(channels, service);
  }
};

// kStart.
struct Start {
  Wiring wiring;
  Wiring service;  // of the endpoint for what workers serve to each other; no peers: of none
  std::string program;
  std::string job;

  template <class Archive>
  void serialize(Archive& archive) {
    archive(wiring, service, program, job);
  }
};

// What a worker's data plane mended or refused, and what its trace had no room for, since it began.
struct Mended {
  int64_t resent = 0;
  int64_t dropped = 0;
  int64_t spans_lost = 0;

  Mended& operator+=(const Mended& more) {
    resent += more.resent;
    dropped += more.dropped;
    spans_lost += more.spans_lost;
    return *this;
  }

  template <class Archive>
  void serialize(Archive& archive) {
    archive(resent, dropped, spans_lost);
  }
};

// kReport. The clock offset is the best estimate so far: add it to the worker's clock.
struct Report {
  int64_t sent_ns = 0;  // the worker's clock
  int64_t clock_offset_ns = 0;
  int64_t round_trip_ns = 0;  // of the best estimate; 0: none yet
  ActivityReport activity;
  Mended mended = {};  // when it last looked, between tasks

  template <class Archive>
  void serialize(Archive& archive) {
    archive(sent_ns, clock_offset_ns, round_trip_ns, activity, mended);
  }
};

// kClock.
struct ClockAnswer {
  int64_t sent_ns = 0;  // of the report that is answered
  int64_t scheduler_ns = 0;

  template <class Archive>
  void serialize(Archive& archive) {
    archive(sent_ns, scheduler_ns);
  }
};

ControlMessage clock_answer(const Report& report);  // at once

// kFailed.
struct Failure {
  int32_t code = 0;
  std::string message;
  std::string where;

  template <class Archive>
  void serialize(Archive& archive) {
    archive(code, message, where);
  }
};

// kBye is Mended. kWork and kResults are std::vector<std::string>; kRefuse is plain text.

// Payloads of kWork or kResults that carry `items` in order: 256 KiB each, or a single larger item.
std::vector<std::string> encode_batches(std::vector<std::string> items);

}  // namespace kerf::runtime
