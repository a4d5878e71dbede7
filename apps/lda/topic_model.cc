#include "apps/lda/topic_model.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <utility>

#include "apps/data/byte_source.h"
#include "apps/data/corpus.h"
#include "apps/data/matrix_market.h"
#include "apps/data/named_number.h"
#include "apps/data/text_lines.h"
#include "apps/data/transposed.h"
#include "runtime/error.h"
#include "runtime/file.h"

namespace kerf::apps {

namespace {

constexpr size_t kWordsWritten = 20;  // of a topic
constexpr std::string_view kModelHead = "kerf lda:";

// What model.txt says.
struct ModelLines {
  int64_t topics = 0;
  int64_t words = 0;
  int64_t tokens = 0;
  double alpha = 0;
  double beta = 0;
};

ModelLines read_lines(const ByteSource& file) {
  TextLines lines(file);
  if (!lines.next().value_or("").starts_with(kModelHead))
    lines.refuse(format("it is no topic model (expected one that begins with '{}')", kModelHead));
  ModelLines told;
  told.topics = named_number<int64_t>(lines, "topics", 1, kMostIndices);
  told.words = named_number<int64_t>(lines, "words", 1, kMostWordsOfTopics);
  told.tokens = named_number<int64_t>(lines, "tokens", 1, INT32_MAX);
  told.alpha = named_number<double>(lines, "alpha", kLeastPrior, kMostPrior);
  told.beta = named_number<double>(lines, "beta", kLeastPrior, kMostPrior);
  if (const auto more = lines.next()) lines.expected("nothing behind beta", Fields(*more));
  return told;
}

void expect_counts(const SparseColumns& counts, const ModelLines& told, const std::string& file) {
  const auto refuse = [&](const std::string& what) { throw Error(ErrorCode::kUsage, what, file); };
  if (counts.rows != told.words || counts.columns != told.topics)
    refuse(format("it is {} x {}; model.txt says {} words and {} topics", counts.rows,
                  counts.columns, told.words, told.topics));
  double sum = 0;
  for (const double count : counts.values) {
    if (count < 1 || count > INT32_MAX || count != std::floor(count))
      refuse(format("{} is no count from 1 to {}", count, INT32_MAX));
    sum += count;
  }
  if (sum != static_cast<double>(told.tokens))
    refuse(format("its counts add up to {}; model.txt says {} tokens", sum, told.tokens));
}

std::string topics_text(const TopicModel& model) {
  const std::vector<int64_t> tokens = model.topic_tokens();
  const auto commonest = commonest_words(model, kWordsWritten);
  std::string text;
  for (size_t topic = 0; topic < tokens.size(); ++topic) {
    text += format("{} {}", topic, tokens[topic]);
    for (const int64_t word : commonest[topic]) text += " " + model.name_of(word);
    text += "\n";
  }
  return text;
}

}  // namespace

std::vector<int64_t> TopicModel::topic_tokens() const {
  std::vector<int64_t> tokens(static_cast<size_t>(topics()));
  for (size_t i = 0; i < counts.row.size(); ++i)
    tokens[static_cast<size_t>(counts.row[i])] += static_cast<int64_t>(counts.values[i]);
  return tokens;
}

std::string TopicModel::name_of(int64_t word) const {
  return vocabulary.empty() ? format("{}", word) : vocabulary[static_cast<size_t>(word)];
}

std::vector<std::vector<int64_t>> commonest_words(const TopicModel& model, size_t most) {
  const SparseColumns by_topic = transposed(model.counts);
  std::vector<std::vector<int64_t>> words;
  for (int64_t topic = 0; topic < by_topic.columns; ++topic) {
    const auto rows = by_topic.rows_of(topic);
    const auto counts = by_topic.values_of(topic);
    std::vector<size_t> order(rows.size());
    std::iota(order.begin(), order.end(), size_t{0});
    const size_t kept = std::min(most, order.size());
    std::partial_sort(order.begin(), order.begin() + static_cast<ptrdiff_t>(kept), order.end(),
                      [&](size_t a, size_t b) {
                        return std::pair(counts[b], rows[a]) < std::pair(counts[a], rows[b]);
                      });
    std::vector<int64_t>& of_topic = words.emplace_back();
    for (size_t i = 0; i < kept; ++i) of_topic.push_back(rows[order[i]]);
  }
  return words;
}

void write_topic_model(const std::filesystem::path& folder, const TopicModel& model) {
  std::filesystem::remove(folder / "model.txt");  // of an earlier model, whose parts go first
  const std::vector<int64_t> tokens = model.topic_tokens();
  write_matrix_market(folder / "counts.mtx", transposed(model.counts));
  runtime::write_file_atomic(folder / "topics.txt", topics_text(model));
  if (!model.vocabulary.empty())
    runtime::write_file_atomic(folder / "words.txt",
                               format("{}\n", fmt::join(model.vocabulary, "\n")));
  else
    std::filesystem::remove(folder / "words.txt");  // of an earlier model
  runtime::write_file_atomic(
      folder / "model.txt",
      format("{} a word's probability in a topic = (count + beta) / (tokens of the topic + words x "
             "beta), counts in counts.mtx\ntopics {}\nwords {}\ntokens {}\nalpha {}\nbeta {}\n",
             kModelHead, model.topics(), model.words(),
             std::accumulate(tokens.begin(), tokens.end(), int64_t{0}), model.alpha, model.beta));
}

TopicModel read_topic_model(const std::filesystem::path& folder) {
  const ModelLines told = read_lines(FileBytes(folder / "model.txt"));
  const FileBytes file(folder / "counts.mtx");
  const SparseColumns counts = read_matrix_market(file, {0, read_matrix_market_size(file).rows});
  expect_counts(counts, told, file.origin());
  TopicModel model;
  model.alpha = told.alpha;
  model.beta = told.beta;
  model.counts = transposed(counts);
  if (!std::filesystem::exists(folder / "words.txt")) return model;
  const FileBytes words(folder / "words.txt");
  model.vocabulary = read_vocabulary(words);
  if (std::ssize(model.vocabulary) != told.words)
    throw Error(ErrorCode::kUsage,
                format("it has {} words; model.txt says {}", model.vocabulary.size(), told.words),
                words.origin());
  return model;
}

}  // namespace kerf::apps
