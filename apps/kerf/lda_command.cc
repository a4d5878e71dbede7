// kerf lda: the topics of documents, by collapsed Gibbs sampling over blocks of words that rotate.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "apps/data/corpus.h"
#include "apps/kerf/balance_flag.h"
#include "apps/kerf/commands.h"
#include "apps/lda/lda.h"
#include "apps/lda/lda_worker.h"
#include "apps/lda/topic_shares.h"
#include "apps/main/flag_values.h"
#include "apps/main/program_command.h"
#include "apps/report/terminal.h"

namespace kerf::apps {

namespace {

constexpr int kMostTopics = 32'768;
constexpr int kMostWordBlocks = 64;  // per worker
constexpr double kPriorTokens = 10;  // of a document, over all topics
constexpr size_t kTopicsPrinted = 10, kWordsPrinted = 10;

class LdaCommand : public ProgramCommand {
 public:
  std::string name() const override { return "lda"; }
  std::string about() const override {
    return "Latent Dirichlet allocation: draws the topic of every token by collapsed Gibbs "
           "sampling, in proportion to (n_dk + alpha) (n_wk + beta) / (n_k + V beta), over blocks "
           "of words that rotate. The log-likelihood is of topics and words, log p(w, z): with G = "
           "log Gamma, the sum over topics k of G(V beta) - G(n_k + V beta) + sum over words of "
           "G(n_wk + beta) - G(beta), and over documents d of G(K alpha) - G(n_d + K alpha) + sum "
           "over topics of G(n_dk + alpha) - G(alpha).";
  }
  std::string divided() const override { return "Documents"; }
  std::string examples() const override {
    return "Examples:\n"
           "  kerf lda --corpus train.txt --topics 100 --iterations 200 --test test.txt\n"
           "  kerf lda --corpus train.txt --vocabulary words.txt --workers 4 --out model";
  }
  void add_flags(CLI::App& command) override;
  void run(ProgramRun& run) override;

 private:
  void add_files(CLI::App& command);
  void check_numbers();
  void check_files();
  Json told(Lda& program, const std::optional<double>& held, int64_t words) const;

  LdaOptions options_;
  std::optional<double> alpha_;
  std::string test_, vocabulary_, out_;
  std::vector<std::string> names_;  // of words
  TokenCounts tokens_;
  std::optional<Corpus> tested_;
};

void LdaCommand::check_numbers() {
  options_.alpha = alpha_.value_or(kPriorTokens / options_.topics);
  for (const auto& [number, flag] :
       {std::pair(options_.alpha, "--alpha"), {options_.beta, "--beta"}})
    require(number >= kLeastPrior && number <= kMostPrior, flag,
            format("{} is not within {} and {}", number, kLeastPrior, kMostPrior));
}

void LdaCommand::check_files() {
  if (!vocabulary_.empty()) names_ = read_vocabulary(FileBytes(vocabulary_));
  require(vocabulary_.empty() || !names_.empty(), vocabulary_, "it has no words");
  tokens_ = count_tokens(FileBytes(options_.corpus), std::ssize(names_));
  require(tokens_.all >= 1, options_.corpus, "it has no words");
  const auto words = std::ssize(tokens_.of_words);
  require(words <= kMostWordsOfTopics, options_.corpus,
          format("it has {} words; at most {} are divided", words, kMostWordsOfTopics));
  if (!test_.empty()) {
    tested_ = read_documents(FileBytes(test_), words, {0, INT64_MAX});
    require(tokens_to_tell(*tested_) >= 1, test_,
            "it has no document of two tokens, one to see and one to tell");
  }
}

// The commonest words of the largest topics.
std::string largest_topics(const TopicModel& model) {
  const std::vector<int64_t> tokens = model.topic_tokens();
  const auto commonest = commonest_words(model, kWordsPrinted);
  std::vector<size_t> order(tokens.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return tokens[a] > tokens[b]; });
  order.resize(std::min(order.size(), kTopicsPrinted));
  std::string text = "\n";
  for (const size_t topic : order) {
    std::string words;
    for (const int64_t word : commonest[topic]) words += " " + in_line(model.name_of(word));
    text += format("topic {} ({} tokens):{}\n", topic, human_count(tokens[topic]), words);
  }
  return text;
}

Json LdaCommand::told(Lda& program, const std::optional<double>& held, int64_t words) const {
  const HistoryPoint& last = program.points().back();
  Json told{{"log_likelihood", *last.values[Lda::kLogLikelihood]},
            {"log_likelihood_per_token", *last.values[Lda::kPerToken]},
            {"held_out_log_likelihood_per_token", held ? Json(*held) : Json()},
            {"topics", options_.topics},
            {"alpha", options_.alpha},
            {"beta", options_.beta},
            {"words", words},
            {"documents", tokens_.of_documents.size()},
            {"tokens", tokens_.all},
            {"iterations", last.rounds},
            {"iterations_per_second", program.history().rounds_per_second()},
            {"updates", last.updates},
            {"seconds", last.seconds}};
  if (options_.balance) told["documents_of_workers"] = program.documents_of_workers();
  return told;
}

void LdaCommand::run(ProgramRun& run) {
  check_numbers();
  check_files();
  const auto words = std::ssize(tokens_.of_words), documents = std::ssize(tokens_.of_documents);
  const int workers = run.workers(std::min(documents, words / options_.blocks_per_worker),
                                  format("{} documents and {} words in {} a worker", documents,
                                         words, plural(options_.blocks_per_worker, "block")));
  // Rows of counts: at home, and on the way.
  const double bytes = 2.0 * sizeof(int32_t) * static_cast<double>(words) * options_.topics;
  run.expect_memory(std::vector(static_cast<size_t>(workers), bytes / workers),
                    "take fewer --topics");
  make_folder_for(out_);
  options_.most_seconds = run.most_seconds();
  Lda program(options_, tokens_, workers);
  run.drive(program, workers, program.history());
  TopicModel model = program.model();
  model.vocabulary = names_;
  if (!out_.empty()) write_topic_model(out_, model);
  std::optional<double> held;
  if (tested_) held = held_out(model, *tested_);
  const HistoryPoint& last = program.points().back();
  run.answer(
      program.history(), format("Topics, {} of them", options_.topics), told(program, held, words),
      format("{}\n{} in {} over {} ({:.3g} a second): log-likelihood {:.8g}, {:.5f} a token{}{}",
             largest_topics(model), plural(last.rounds, "iteration"), human_seconds(last.seconds),
             plural(workers, "worker"), program.history().rounds_per_second(),
             *last.values[Lda::kLogLikelihood], *last.values[Lda::kPerToken],
             held ? format(", of held-out tokens {:.5f}", *held) : std::string(),
             options_.balance ? divided_in_words("documents", program.documents_of_workers())
                              : std::string()));
}

void LdaCommand::add_files(CLI::App& command) {
  command
      .add_option("--corpus", options_.corpus,
                  "A document a line, WORD:COUNT WORD:COUNT ..., words numbered from 0, each once "
                  "in a document")
      ->required()
      ->type_name("FILE");
  command
      .add_option("--test", test_,
                  "Documents of the same words, to test on: of each, every other token from the "
                  "first is seen, and the others are to be told")
      ->type_name("FILE");
  command.add_option("--vocabulary", vocabulary_, "What words are called: one a line")
      ->type_name("FILE");
  command
      .add_option("--out", out_,
                  "A folder for model.txt, counts.mtx (words x topics) and topics.txt with each "
                  "topic's commonest words")
      ->type_name("FOLDER");
}

void LdaCommand::add_flags(CLI::App& command) {
  add_files(command);
  command.add_option("--topics", options_.topics, "How many topics there are")
      ->check(whole_number<int>(1, kMostTopics))
      ->capture_default_str();
  command
      .add_option("--alpha", alpha_,
                  "Of the Dirichlet prior of a document's topics (default 10 / topics)")
      ->type_name("A");
  command.add_option("--beta", options_.beta, "Of the Dirichlet prior of a topic's words")
      ->capture_default_str();
  command
      .add_option("--iterations", options_.iterations,
                  "In each of which every token's topic is drawn once")
      ->check(whole_number<int64_t>(1))
      ->capture_default_str();
  command.add_option("--blocks", options_.blocks_per_worker, "Blocks of words for each worker")
      ->check(whole_number<int>(1, kMostWordBlocks))
      ->capture_default_str();
  add_balance_flag(command, "documents", options_.balance);
  add_seed_flag(command, options_.seed, "Of the topics that are drawn");
}

}  // namespace

void add_lda_command(CLI::App& app, Chosen& chosen) {
  add_program_command(std::make_shared<LdaCommand>(), app, chosen);
}

}  // namespace kerf::apps
