// safetensors: what is written reads back; anything else is refused, by name.
#include "schedmp/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "runtime/error.h"
#include "runtime/file.h"

namespace kerf::schedmp {
namespace {

class Safetensors : public testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directories(folder_); }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string complaint(const std::string& bytes) {
    runtime::write_file_atomic(file_, bytes);
    try {
      read_safetensors(file_);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kUsage);
      return error.what();
    }
    return "accepted";
  }

  static std::string with_header(const std::string& header, size_t data) {
    const uint64_t length = header.size();
    return std::string(reinterpret_cast<const char*>(&length), 8) + header + std::string(data, 'x');
  }

  const std::filesystem::path folder_ =
      std::filesystem::path(testing::TempDir()) /
      (std::string("kerf-safetensors-") +
       testing::UnitTest::GetInstance()->current_test_info()->name());
  const std::filesystem::path file_ = folder_ / "w.safetensors";
};

constexpr uint64_t kMiB = uint64_t{1} << 20;

// By read and its like; 0 where the system does not say.
uint64_t bytes_this_process_read() {
  std::ifstream io("/proc/self/io");
  std::string name;
  uint64_t bytes = 0;
  io >> name >> bytes;
  return name == "rchar:" ? bytes : 0;
}

std::vector<NamedTensor> sample() {
  return {{"a", ops::DType::kFloat32, {2, 3}, std::string(24, 'a')},
          {"scalar", ops::DType::kFloat32, ops::Shape(), std::string(4, 's')},
          {"empty", ops::DType::kInt64, {0, 5}, ""},
          {"b", ops::DType::kInt64, {2}, std::string(16, 'b')}};
}

TEST_F(Safetensors, ReadBackWhatWasWritten) {
  write_safetensors(file_, sample(), {{"model", "tiny"}});
  const std::vector<NamedTensor> read = read_safetensors(file_);
  ASSERT_EQ(read.size(), sample().size());
  for (size_t i = 0; i < read.size(); ++i) {
    EXPECT_EQ(read[i].name, sample()[i].name);
    EXPECT_EQ(read[i].shape, sample()[i].shape);
    EXPECT_EQ(read[i].bytes, sample()[i].bytes);
  }
}

TEST_F(Safetensors, HoldEveryElementType) {
  const std::vector<std::pair<ops::DType, std::string>> types{
      {ops::DType::kFloat32, "F32"},   {ops::DType::kFloat64, "F64"}, {ops::DType::kFloat16, "F16"},
      {ops::DType::kBFloat16, "BF16"}, {ops::DType::kInt32, "I32"},   {ops::DType::kInt64, "I64"},
      {ops::DType::kBool, "BOOL"},     {ops::DType::kInt8, "I8"},     {ops::DType::kInt16, "I16"},
      {ops::DType::kUint8, "U8"},      {ops::DType::kUint16, "U16"},  {ops::DType::kUint32, "U32"},
      {ops::DType::kUint64, "U64"}};
  for (const auto& [dtype, name] : types) {
    write_safetensors(file_, {{"t", dtype, {3}, std::string(3 * ops::size_of(dtype), 'x')}});
    EXPECT_THAT(runtime::read_file(file_), testing::HasSubstr("\"" + name + "\""));
    EXPECT_EQ(SafetensorsReader(file_).tensors().at(0).spec.dtype, dtype);
  }
}

TEST_F(Safetensors, GiveOneTensorAtATimeAndTellWhatIsNotThere) {
  write_safetensors(file_, sample());
  SafetensorsReader reader(file_);
  EXPECT_EQ(reader.read("b", {ops::DType::kInt64, {2}}), std::string(16, 'b'));
  EXPECT_EQ(reader.read("a", {ops::DType::kFloat32, {2, 3}}), std::string(24, 'a'));
  const auto complaint_of = [&](const std::string& name, const ops::ValueSpec& spec) {
    try {
      (void)reader.read(name, spec);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("read");
  };
  EXPECT_THAT(
      complaint_of("c", {ops::DType::kInt64, {2}}),
      testing::AllOf(testing::HasSubstr("no tensor 'c'"), testing::HasSubstr(file_.string())));
  EXPECT_THAT(complaint_of("b", {ops::DType::kFloat32, {4}}),
              testing::HasSubstr("expected float32 [4]"));
}

TEST_F(Safetensors, AreReadAndWrittenByTheRow) {
  SafetensorsWriter writer(file_, {{"a", {ops::DType::kInt32, {5, 2}}},
                                   {"empty", {ops::DType::kInt32, {0, 2}}},
                                   {"b", {ops::DType::kInt32, ops::Shape()}}});
  std::string rows(40, '\0');
  for (size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<char>(i);
  writer.write(rows.substr(0, 8));
  writer.write(rows.substr(8));
  EXPECT_THROW(writer.write("12345"), Error) << "beyond the tensor";
  EXPECT_THROW(writer.commit(), Error) << "b is missing";
  writer.write("beta");
  writer.commit();
  SafetensorsReader reader(file_);
  const ops::ValueSpec a{ops::DType::kInt32, {5, 2}};
  EXPECT_EQ(reader.read("a", a, {0, 5}), rows);
  EXPECT_EQ(reader.read("a", a, {3, 2}), rows.substr(24));
  EXPECT_EQ(reader.read("a", a, {1, 1}), rows.substr(8, 8));
  EXPECT_EQ(reader.read("a", a, {5, 0}), "");
  EXPECT_EQ(reader.read("empty", {ops::DType::kInt32, {0, 2}}, {0, 0}), "");
  EXPECT_EQ(reader.read("b", {ops::DType::kInt32, ops::Shape()}, {0, 1}), "beta");
  EXPECT_THROW((void)reader.read("a", a, {4, 2}), Error);
}

TEST_F(Safetensors, RefuseEveryTruncation) {
  write_safetensors(file_, sample());
  const std::string whole = runtime::read_file(file_);
  for (size_t length = 0; length < whole.size(); ++length)
    EXPECT_NE(complaint(whole.substr(0, length)), "accepted") << length;
}

TEST_F(Safetensors, HugeFilesOfNothingAreRefusedUnread) {
  EXPECT_NE(complaint(std::string(64, '\0')).find("no header"), std::string::npos);
  std::filesystem::resize_file(file_, uintmax_t{1} << 33);  // sparse
  const uint64_t before = bytes_this_process_read();
  EXPECT_THROW(read_safetensors(file_), Error);
  EXPECT_LE(bytes_this_process_read() - before, kMiB);
}

// Numbers of other types as float32, whole or in part.
template <class T>
std::string bytes_of(const std::vector<T>& numbers) {
  return {reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(T)};
}

TEST_F(Safetensors, FloatsOfOtherTypesAreReadAsFloat32) {
  const std::vector<float> numbers{1, -2, 0.5F, 65504, -0.0F, 6};
  const std::vector<double> doubles(numbers.begin(), numbers.end());
  write_safetensors(file_, {{"half",
                             ops::DType::kFloat16,
                             {3, 2},
                             bytes_of<uint16_t>({0x3C00, 0xC000, 0x3800, 0x7BFF, 0x8000, 0x4600})},
                            {"brain",
                             ops::DType::kBFloat16,
                             {3, 2},
                             bytes_of<uint16_t>({0x3F80, 0xC000, 0x3F00, 0x4780, 0x8000, 0x40C0})},
                            {"double", ops::DType::kFloat64, {3, 2}, bytes_of(doubles)},
                            {"whole", ops::DType::kInt64, {3, 2}, std::string(48, '\0')}});
  SafetensorsReader reader(file_);
  const ops::ValueSpec wanted{ops::DType::kFloat32, {3, 2}};
  const std::string all = bytes_of(numbers);
  EXPECT_EQ(reader.read("half", wanted), all);
  EXPECT_EQ(reader.read("double", wanted), all);
  EXPECT_EQ(reader.read("double", wanted, {1, 2}), all.substr(8));
  EXPECT_EQ(reader.read("half", wanted, {1, 1}, 1), bytes_of<float>({-2, 65504, 6}));
  EXPECT_EQ(reader.read_elements("half", wanted, 2, 3), all.substr(8, 12));
  EXPECT_EQ(reader.read_elements("brain", wanted, 0, 3), all.substr(0, 12));
  EXPECT_THROW(reader.read("whole", wanted), Error) << "integers stay what they are";
  EXPECT_THROW(reader.read("half", {ops::DType::kFloat64, {3, 2}}), Error);
  EXPECT_EQ(reader.read("half", {ops::DType::kFloat16, {3, 2}}).size(), 12U);
}

// Whose type or axes are not known here.
TEST_F(Safetensors, ATensorThatNobodyReadsMayBeOfAnyType) {
  const std::string others =
      R"("scale":{"dtype":"F8_E4M3","shape":[4],"data_offsets":[0,4]},)"
      R"("freqs":{"dtype":"C64","shape":[1],"data_offsets":[4,12]},)"
      R"("deep":{"dtype":"U8","shape":[1,1,1,1,1,1,1,1,1],"data_offsets":[12,13]},)";
  const std::string a = R"("a":{"dtype":"U8","shape":[2],"data_offsets":[13,15]})";
  runtime::write_file_atomic(file_, with_header("{" + others + a + "}", 15));
  SafetensorsReader reader(file_);
  EXPECT_EQ(reader.read("a", {ops::DType::kUint8, {2}}), "xx");
  EXPECT_EQ(reader.tensors().size(), 1U);
  EXPECT_EQ(reader.find("scale"), nullptr);
  EXPECT_EQ(reader.unreadable().size(), 3U);
  const auto complaint_of = [&](const std::string& name) {
    try {
      (void)reader.read(name, {ops::DType::kUint8, {4}});
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_THAT(complaint_of("scale"), testing::HasSubstr("dtype F8_E4M3 is not one of F32"));
  EXPECT_THAT(complaint_of("freqs"), testing::HasSubstr("save it as one of those"));
  EXPECT_THAT(complaint_of("deep"), testing::HasSubstr("9 axes"));
  EXPECT_THAT(complaint(with_header("{" + others + a + "}", 16)),
              testing::HasSubstr("behind the last tensor"))
      << "they count where the file is covered";
}

TEST_F(Safetensors, AWriterHasEachNameOnce) {
  const ops::ValueSpec spec{ops::DType::kUint8, {1}};
  EXPECT_THROW(SafetensorsWriter(file_, {{"a", spec}, {"b", spec}, {"a", spec}}), Error);
  EXPECT_THROW(SafetensorsWriter(file_, {{"__metadata__", spec}}), Error);
}

// Some indices of a tensor's last axis: bytes here and there, of which not many more are read.
TEST_F(Safetensors, AFewColumnsAreReadWithoutMuchBetween) {
  for (const int64_t columns : {300, 6'000}) {
    const ops::ValueSpec spec{ops::DType::kInt32, {500, columns}};
    std::vector<int32_t> numbers(static_cast<size_t>(spec.shape.elements()));
    for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<int32_t>(i);
    write_safetensors(file_, {{"before", ops::DType::kUint8, {3}, "abc"},
                              {"w", spec.dtype, spec.shape, bytes_of(numbers)}});
    SafetensorsReader reader(file_);
    const uint64_t before = bytes_this_process_read();
    const std::string got = reader.read("w", spec, {7, 2}, 1);
    EXPECT_LE(bytes_this_process_read() - before, kMiB) << columns;
    std::vector<int32_t> wanted;
    for (int64_t row = 0; row < 500; ++row)
      for (int64_t column = 7; column < 9; ++column)
        wanted.push_back(static_cast<int32_t>(row * columns + column));
    EXPECT_EQ(got, bytes_of(wanted)) << columns;
  }
}

TEST_F(Safetensors, RefuseHolesOverlapsAndWrongSizes) {
  const std::string a = R"("a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]})";
  EXPECT_EQ(complaint(with_header("{" + a + "}", 4)), "accepted");
  EXPECT_THAT(complaint(with_header("{" + a + "}", 5)),
              testing::HasSubstr("behind the last tensor"));
  EXPECT_THAT(complaint(with_header(
                  "{" + a + R"(,"b":{"dtype":"F32","shape":[1],"data_offsets":[8,12]}})", 12)),
              testing::HasSubstr("hole"));
  EXPECT_THAT(complaint(with_header(
                  "{" + a + R"(,"b":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", 4)),
              testing::HasSubstr("overlap"));
  EXPECT_THAT(
      complaint(with_header(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", 4)),
      testing::HasSubstr("a tensor of 8"));
  EXPECT_THAT(
      complaint(with_header(R"({"a":{"dtype":"F8_E4M3","shape":[4],"data_offsets":[0,4]}})", 4)),
      testing::HasSubstr("F8_E4M3 is not one of F32, F64"));
  EXPECT_NE(complaint(with_header("{" + a + "," + a + "}", 4)), "accepted");
  EXPECT_NE(
      complaint(with_header(
          R"({"a":{"dtype":"F32","shape":[9999999999,9999999999],"data_offsets":[0,4]}})", 4)),
      "accepted");
}

}  // namespace
}  // namespace kerf::schedmp
