#include "runtime/trace.h"

#include <gmock/gmock.h>

#include <limits>
#include <map>

#include "runtime/control.h"
#include "runtime/file.h"
#include "runtime/json.h"
#include "runtime/wire.h"
#include "tests/support/temporary_folder.h"

namespace kerf::runtime {
namespace {

using Kind = Span::Kind;

class ChromeTrace : public testing::Test {
 protected:
  // The events of the written file, which parse_json takes: strict, so valid for every viewer.
  Json events(const std::vector<WorkerTrace>& workers) {
    write_chrome_trace(folder_ / "trace.json", workers);
    return json_array(parse_json(read_file(folder_ / "trace.json"), "trace.json"), "traceEvents",
                      "trace.json");
  }
  static std::vector<Json> of_phase(const Json& events, const std::string& phase) {
    std::vector<Json> found;
    for (const Json& event : events)
      if (event["ph"] == phase) found.push_back(event);
    return found;
  }

  tests::TemporaryFolder folder_;
};

TEST_F(ChromeTrace, OfNothingIsValid) { EXPECT_EQ(events({}).size(), 0u); }

TEST_F(ChromeTrace, ShowsSpansInMicrosecondsFromTheFirst) {
  const Json all = events({{1,
                            "worker 1 (pid 4711, cpu)",
                            {{"1F3", Kind::kCompute, 0, 5'000'000, 5'001'500, 0},
                             {"conv1", Kind::kCompute, 1, 5'000'250, 5'000'251, 0, 12}}}});
  const auto spans = of_phase(all, "X");
  ASSERT_EQ(spans.size(), 2u);
  EXPECT_EQ(spans[0].dump(),
            R"({"ph":"X","name":"1F3","cat":"compute","pid":1,"tid":0,"ts":0.0,"dur":1.5})");
  EXPECT_EQ(
      spans[1].dump(),
      R"({"ph":"X","name":"conv1","cat":"compute","pid":1,"tid":1,"ts":0.25,"dur":0.001,"args":{"step":12}})");
}

TEST_F(ChromeTrace, NamesWorkersAndRows) {
  const auto names = of_phase(events({{2, "worker 2", {{"a", Kind::kOther, 2, 0, 1, 0}}}}), "M");
  ASSERT_EQ(names.size(), 4u);
  EXPECT_EQ(names[0]["name"], "process_name");
  EXPECT_EQ(names[0]["args"]["name"], "worker 2");
  EXPECT_EQ(names[1]["name"], "process_sort_index");
  EXPECT_EQ(names[2]["name"], "thread_name");
  EXPECT_EQ(names[2]["tid"], 2);
  EXPECT_EQ(names[2]["args"]["name"], "messages");
  EXPECT_EQ(names[3]["name"], "thread_sort_index");
  EXPECT_EQ(names[3]["args"]["sort_index"], 2);
}

TEST_F(ChromeTrace, ShowsWhatWasPredictedAboveWhatWasMeasured) {
  const auto rows = of_phase(events({{0,
                                      "worker 0",
                                      {{"0F0", Kind::kCompute, TraceRow::kActions, 0, 1},
                                       {"0F0", Kind::kOther, TraceRow::kPredicted, 0, 1}}}}),
                             "M");
  std::map<int, int> place;
  for (const Json& row : rows)
    if (row["name"] == "thread_sort_index") place[row["tid"]] = row["args"]["sort_index"];
  EXPECT_LT(place.at(TraceRow::kPredicted), place.at(TraceRow::kActions));
}

TEST_F(ChromeTrace, DrawsAnArrowFromOneEndToTheOther) {
  WorkerTrace from{0, "worker 0", {{"0F0", Kind::kCompute, TraceRow::kActions, 1'000, 2'000}}};
  WorkerTrace to{1, "worker 1", {{"1F0", Kind::kCompute, TraceRow::kActions, 1'500, 3'000}}};
  from.arrows = {{77, false, TraceRow::kActions, 1'900}};
  to.arrows = {{77, true, TraceRow::kActions, 2'500}};
  const Json all = events({from, to});
  const auto starts = of_phase(all, "s");
  const auto ends = of_phase(all, "f");
  ASSERT_EQ(starts.size(), 1u);
  ASSERT_EQ(ends.size(), 1u);
  EXPECT_EQ(starts[0].dump(),
            R"({"ph":"s","name":"message","cat":"flow","id":"4d","pid":0,"tid":0,"ts":0.9})");
  EXPECT_EQ(
      ends[0].dump(),
      R"({"ph":"f","bp":"e","name":"message","cat":"flow","id":"4d","pid":1,"tid":0,"ts":1.5})");
}

TEST_F(ChromeTrace, CountsBytes) {
  WorkerTrace worker{2, "worker 2", {}};
  worker.counters = {{"memory", {{1'000, 64}, {4'000, 128}}}};
  const auto counts = of_phase(events({worker}), "C");
  ASSERT_EQ(counts.size(), 2u);
  EXPECT_EQ(counts[1].dump(),
            R"({"ph":"C","name":"memory","pid":2,"ts":3.0,"args":{"bytes":128}})");
}

TEST_F(ChromeTrace, SurvivesNamesAndTimesFromStrangers) {
  constexpr int64_t kMin = std::numeric_limits<int64_t>::min();
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  std::vector<Span> spans = {{"quote \" slash \\ line \n byte \xff \x01", Kind::kOther, 0, 9, 3, 0},
                             {"far", Kind::kReceive, -5, kMin, kMax, 1},
                             {"near", static_cast<Kind>(99), 7, kMax, kMin, 2}};
  shift(spans, kMax);
  EXPECT_EQ(of_phase(events({{0, "\xc3", spans}}), "X").size(), 3u);
}

TEST_F(ChromeTrace, OfManySpansComesWhole) {
  WorkerTrace worker{0, "worker 0", {}};
  for (int64_t i = 0; i < 20'000; ++i)
    worker.spans.push_back({"0F1", Kind::kCompute, 0, i * 1'000, i * 1'000 + 500, 0});
  EXPECT_EQ(of_phase(events({worker}), "X").size(), 20'000u);
}

TEST(Trace, RecordsNothingWhileOff) {
  Trace trace;
  trace.add({"a", Kind::kOther, 0, 0, 1, 0});
  trace.enable(true);
  trace.add({"b", Kind::kOther, 0, 1, 2, 0});
  const std::vector<Span> spans = trace.take();
  ASSERT_EQ(spans.size(), 1u);
  EXPECT_EQ(spans[0].name, "b");
  EXPECT_TRUE(trace.take().empty());
}

TEST(Trace, CountsWhatExceedsItsLimit) {
  const size_t each = encode(Span{"a"}).size();
  Trace trace(3 * each);
  trace.enable(true);
  for (int i = 0; i < 5; ++i) trace.add({"a", Kind::kOther, 0, i, i + 1, 0});
  EXPECT_EQ(trace.lost(), 2);
  EXPECT_EQ(trace.take().size(), 3u);
  trace.add({"again", Kind::kOther, 0, 6, 7, 0});
  EXPECT_EQ(trace.take().size(), 1u) << "the limit is of what was not taken yet";
}

TEST(Trace, SaysWhatASpanTakesOnTheWire) {
  for (const std::string name : {"", "a", "1F3 send /layer4/conv"})
    EXPECT_EQ(Trace::wire_bytes(name), encode(Span{name}).size());
  EXPECT_EQ(Trace(500).limit(), 500u);
}

TEST(Trace, CountsWhatWasNotMadeAsLostWhileItIsOn) {
  Trace trace;
  trace.add_lost(5);
  EXPECT_EQ(trace.lost(), 0);
  trace.enable(true);
  trace.add_lost(2);
  trace.add_lost(1);
  EXPECT_EQ(trace.lost(), 3);
}

TEST(Trace, FitsAResult) {
  Trace trace;
  trace.enable(true);
  for (int i = 0; i < 30'000; ++i) trace.add({"1F3 send /layer4/conv", Kind::kSend, 2, i, i + 1});
  EXPECT_GT(trace.lost(), 0);
  const auto spans = trace.take();
  EXPECT_GT(spans.size(), 10'000u);
  EXPECT_LT(encode(spans).size(), kMaxControlMessage - (size_t{128} << 10));
}

TEST(Shift, MovesSpansOntoAnotherClock) {
  std::vector<Span> spans = {{"a", Kind::kOther, 0, 100, 150, 0}};
  shift(spans, -30);
  EXPECT_EQ(spans[0].begin_ns, 70);
  EXPECT_EQ(spans[0].end_ns, 120);
}

}  // namespace
}  // namespace kerf::runtime
