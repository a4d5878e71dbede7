// kerf lda: the topics of documents, by collapsed Gibbs sampling over blocks of words that rotate.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "apps/data/corpus.h"
#include "apps/kerf/answer.h"
#include "apps/kerf/commands.h"
#include "apps/kerf/drive.h"
#include "apps/kerf/flag_values.h"
#include "apps/kerf/run_flags.h"
#include "apps/lda/lda.h"
#include "apps/lda/lda_worker.h"
#include "apps/lda/topic_shares.h"
#include "apps/report/convergence_picture.h"
#include "apps/report/table.h"
#include "apps/report/terminal.h"
#include "runtime/file.h"

namespace kerf::apps {

namespace {

constexpr int kMostTopics = 32'768;
constexpr int64_t kMostWordsOfJob = int64_t{1} << 23;  // which all workers are told the blocks of
constexpr int kMostWordBlocks = 64;                    // per worker
constexpr double kPriorTokens = 10;                    // of a document, over all topics
constexpr size_t kTopicsPrinted = 10, kWordsPrinted = 10;

struct LdaCommand {
  LdaOptions options;
  CrewFlags crew_flags;
  std::optional<double> alpha;
  int workers = 2;
  std::string test;
  std::string vocabulary;
  std::string out;
  std::string picture;
  bool json = false;

  int run();

 private:
  void check_numbers();
  void check_files();
  void check_workers() const;
  void tell(const Lda& program, const TopicModel& model, const schedmp::LoopReport& loop) const;

  std::vector<std::string> names;  // of words
  TokenCounts tokens;
  std::optional<Corpus> tested;
};

void LdaCommand::check_numbers() {
  options.alpha = alpha.value_or(kPriorTokens / options.topics);
  for (const auto& [number, flag] : {std::pair(options.alpha, "--alpha"), {options.beta, "--beta"}})
    require(number >= 1e-6 && number <= 1e6, flag, format("{} is not within 1e-6 and 1e6", number));
  require(std::isfinite(options.most_seconds) && options.most_seconds >= 0, "--max-seconds",
          format("{} is not 0 or more", options.most_seconds));
  require(options.iterations >= 1, "--iterations", "it is not at least 1");
  check_range(std::optional(options.blocks_per_worker), "--blocks", kMostWordBlocks);
}

void LdaCommand::check_files() {
  if (!vocabulary.empty()) names = read_vocabulary(FileBytes(vocabulary));
  require(vocabulary.empty() || !names.empty(), vocabulary, "it has no words");
  tokens = count_tokens(FileBytes(options.corpus), std::ssize(names));
  require(tokens.all >= 1, options.corpus, "it has no words");
  const auto words = std::ssize(tokens.of_words);
  require(words <= kMostWordsOfJob, options.corpus,
          format("it has {} words; at most {} are divided", words, kMostWordsOfJob));
  if (!test.empty()) {
    tested = read_documents(FileBytes(test), words, {0, INT64_MAX});
    require(tokens_to_tell(*tested) >= 1, test,
            "it has no document of two tokens, one to see and one to tell");
  }
  require(picture.empty() || can_hold_file(picture), "--picture",
          format("there is no folder for {}", picture));
  if (out.empty()) return;
  std::error_code failed;
  std::filesystem::create_directories(out, failed);
  require(std::filesystem::is_directory(out), out,
          format("this is no folder and cannot become one: {}", failed.message()));
}

void LdaCommand::check_workers() const {
  const auto words = std::ssize(tokens.of_words), documents = std::ssize(tokens.of_documents);
  const int64_t most =
      std::min<int64_t>({kMostWorkers, documents, words / options.blocks_per_worker});
  require(workers >= 1 && workers <= most, "--workers",
          format("{} is not within 1 and {}: {} documents and {} words in {} a worker are divided "
                 "over them",
                 workers, most, documents, words, plural(options.blocks_per_worker, "block")));
  // Blocks that are here and in the slots of a channel; of a token its document and topic, and a
  // place among the document's topics with its count.
  const int64_t blocks = 2 * options.blocks_per_worker + 1;
  const int64_t words_of_block = words / (int64_t{workers} * options.blocks_per_worker) + 1;
  const auto rows = static_cast<double>(numbers_of_block(words_of_block, options.topics) * blocks *
                                        static_cast<int64_t>(sizeof(int32_t)));
  const double of_tokens = static_cast<double>(tokens.all) / workers *
                           static_cast<double>(sizeof(Token) + 2 * sizeof(int32_t));
  check_host_memory(crew_flags, std::vector(static_cast<size_t>(workers), rows + of_tokens),
                    "take fewer --topics");
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

void LdaCommand::tell(const Lda& program, const TopicModel& model,
                      const schedmp::LoopReport& loop) const {
  const LdaPoint& last = program.history().back();
  const double a_second =
      last.seconds > 0 ? static_cast<double>(last.iterations) / last.seconds : 0;
  std::optional<double> told;
  if (tested) told = held_out(model, *tested);
  answer(
      json,
      [&] {
        return Json{{"log_likelihood", last.log_likelihood},
                    {"log_likelihood_per_token", last.per_token},
                    {"held_out_log_likelihood_per_token", told ? Json(*told) : Json()},
                    {"topics", options.topics},
                    {"alpha", options.alpha},
                    {"beta", options.beta},
                    {"words", model.words()},
                    {"documents", tokens.of_documents.size()},
                    {"tokens", tokens.all},
                    {"iterations", last.iterations},
                    {"iterations_per_second", a_second},
                    {"rounds", loop.rounds},
                    {"updates", last.updates},
                    {"seconds", last.seconds},
                    {"history", to_json(program.history())}};
      },
      [&](bool) {
        const std::string held = told ? format(", of held-out tokens {:.5f}", *told) : "";
        return lda_table(program.history()) + largest_topics(model) +
               format(
                   "\n{} in {} over {} ({:.3g} a second): log-likelihood {:.8g}, {:.5f} a "
                   "token{}\n",
                   plural(last.iterations, "iteration"), human_seconds(last.seconds),
                   plural(workers, "worker"), a_second, last.log_likelihood, last.per_token, held);
      });
}

int LdaCommand::run() {
  check_range(std::optional(options.topics), "--topics", kMostTopics);
  check_numbers();
  check_files();
  check_workers();
  LdaProgress progress(progress_on_stderr(), options.iterations);
  Lda program(options, tokens, workers, [&](const LdaPoint& point) { progress.tell(point); });
  const schedmp::LoopReport loop = drive(program, crew_flags, {.workers = workers}, progress).loop;
  TopicModel model = program.model();
  model.vocabulary = names;
  if (!out.empty()) write_topic_model(out, model);
  if (!picture.empty())
    runtime::write_file_atomic(picture,
                               draw_convergence(as_convergence(program.history()),
                                                format("Topics, {} of them", options.topics)));
  tell(program, model, loop);
  return 0;
}

void add_prior_flags(CLI::App& command, LdaCommand& state) {
  command
      .add_option("--alpha", state.alpha,
                  "Of the Dirichlet prior of a document's topics (default 10 / topics)")
      ->type_name("A");
  command.add_option("--beta", state.options.beta, "Of the Dirichlet prior of a topic's words")
      ->capture_default_str();
}

void add_files(CLI::App& command, LdaCommand& state) {
  command
      .add_option("--corpus", state.options.corpus,
                  "A document a line, WORD:COUNT WORD:COUNT ..., words numbered from 0, each once "
                  "in a document")
      ->required()
      ->type_name("FILE");
  command
      .add_option("--test", state.test,
                  "Documents of the same words, to test on: of each, every other token from the "
                  "first is seen, and the others are to be told")
      ->type_name("FILE");
  command.add_option("--vocabulary", state.vocabulary, "What words are called: one a line")
      ->type_name("FILE");
  command
      .add_option("--out", state.out,
                  "A folder for model.txt, counts.mtx (words x topics) and topics.txt with each "
                  "topic's commonest words")
      ->type_name("FOLDER");
  command.add_option("--picture", state.picture, "Draw here how the log-likelihood rose over time")
      ->type_name("FILE.svg");
}

}  // namespace

void add_lda_command(CLI::App& app, Chosen& chosen) {
  CLI::App* command = app.add_subcommand(
      "lda",
      "Latent Dirichlet allocation: draws the topic of every token by collapsed Gibbs sampling, in "
      "proportion to (n_dk + alpha) (n_wk + beta) / (n_k + V beta), over blocks of words that "
      "rotate. The log-likelihood is of topics and words, log p(w, z): with G = log Gamma, the sum "
      "over topics k of G(V beta) - G(n_k + V beta) + sum over words of G(n_wk + beta) - G(beta), "
      "and over documents d of G(K alpha) - G(n_d + K alpha) + sum over topics of G(n_dk + alpha) "
      "- G(alpha).");
  auto state = std::make_shared<LdaCommand>();
  LdaOptions& options = state->options;
  add_files(*command, *state);
  command->add_option("--topics", options.topics, "How many topics there are")
      ->check(whole_number<int>())
      ->capture_default_str();
  add_prior_flags(*command, *state);
  command
      ->add_option("--iterations", options.iterations,
                   "In each of which every token's topic is drawn once")
      ->check(whole_number<int64_t>())
      ->capture_default_str();
  command->add_option("--max-seconds", options.most_seconds, "Stop after so long; 0: never")
      ->capture_default_str();
  command->add_option("--blocks", options.blocks_per_worker, "Blocks of words for each worker")
      ->check(whole_number<int>())
      ->capture_default_str();
  add_seed_flag(*command, options.seed, "Of the topics that are drawn");
  command->add_option("--workers", state->workers, "Documents are divided over them")
      ->check(whole_number<int>())
      ->capture_default_str();
  add_crew_flags(*command, state->crew_flags);
  add_json_flag(*command, state->json);
  command->footer(
      "Examples:\n"
      "  kerf lda --corpus train.txt --topics 100 --iterations 200 --test test.txt\n"
      "  kerf lda --corpus train.txt --vocabulary words.txt --workers 4 --out model");
  run_when_chosen(*command, chosen, state);
}

}  // namespace kerf::apps
