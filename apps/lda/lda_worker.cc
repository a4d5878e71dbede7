#include "apps/lda/lda_worker.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "apps/lda/own_documents.h"
#include "ops/random.h"
#include "runtime/error.h"
#include "schedmp/variables/measured_pace.h"

namespace kerf::apps {

namespace {

constexpr int64_t kTokensAtATime = int64_t{1} << 20;  // between two signs of life

ops::RandomKey key_of(uint64_t seed, int64_t sweep, int worker) {
  return {.seed = seed, .purpose = ops::kSamplingPurpose, .step = sweep, .micro_batch = worker};
}

}  // namespace

void LdaWorker::start(runtime::Workplace& workplace, const LdaJob& job) {
  activity_ = &workplace.activity;
  worker_ = workplace.worker;
  topics_ = job.topics;
  seed_ = job.seed;
  file_ = job.corpus;
  words_ = job.blocks;
  sampler_.emplace(topics_, std::ssize(words_.order), job.alpha, job.beta);
  logs_of_words_.emplace(job.beta);
  logs_of_topics_.emplace(job.alpha);
  logs_of_documents_.emplace(job.alpha * topics_);
  std::vector<int64_t> sizes;
  for (int block = 0; block < words_.blocks(); ++block)
    sizes.push_back(numbers_of_block(words_.size(block), topics_));
  blocks_.emplace(workplace, std::move(sizes));
}

// With documents of the words of a block at home, which is left as it was: zeros. read() replaces
// the documents.
double LdaWorker::pace() {
  activity_->doing("measuring its pace");
  const int number = blocks_->home_block(0);
  take_documents(sample_of_documents(words_.words(number)));
  const std::span<int32_t> values = blocks_->at_home(0);
  const Block block = split(number, values);
  count(block);
  const double seconds = schedmp::measured_pace([&] {
    sweep(block, 1);
    activity_->progress();
  });
  std::ranges::fill(values, 0);
  return seconds;
}

// Once: a task that is told again, or comes from a snapshot of this half, finds it done.
void LdaWorker::read(const LdaTask& task) {
  if (reading_) return;
  KERF_CHECK(task.first >= 0 && task.count >= 0 && task.first <= INT64_MAX - task.count,
             "documents from {} on, {}", task.first, task.count);
  activity_->doing("reading its documents");
  take_documents(
      own_documents(file_, std::ssize(words_.order), task, [this] { activity_->progress(); }));
  reading_ = task;
}

void LdaWorker::take_documents(const Corpus& corpus) {
  own_.assign(static_cast<size_t>(whole_lanes(topics_)), 0);
  told_.assign(static_cast<size_t>(words_.blocks()), own_);
  sort_tokens(corpus);
  draw_first_topics();
}

// Block by block, word by word, document by document: sorted by counting.
void LdaWorker::sort_tokens(const Corpus& corpus) {
  cells_.clear();
  std::vector<int64_t> next(words_.order.size());  // by word: how many, then where
  for (const WordCount& each : corpus.entries) next[static_cast<size_t>(each.word)] += each.count;
  int64_t end = 0;
  for (int block = 0; block < words_.blocks(); ++block) {
    Cell& cell = cells_.emplace_back();
    cell.begin = end;
    int32_t index = 0;
    for (const int32_t word : words_.words(block)) {
      const int64_t count = std::exchange(next[static_cast<size_t>(word)], end);
      end += count;
      if (count > 0) cell.runs.push_back({index, end});
      ++index;
    }
  }
  tokens_.resize(static_cast<size_t>(end));
  lengths_.assign(static_cast<size_t>(corpus.documents()), 0);
  for (int64_t document = 0; document < corpus.documents(); ++document)
    for (const WordCount& each : corpus.document(document)) {
      int64_t& place = next[static_cast<size_t>(each.word)];
      std::fill_n(tokens_.begin() + place, each.count, Token{static_cast<int32_t>(document), 0});
      place += each.count;
      lengths_[static_cast<size_t>(document)] += each.count;
    }
}

void LdaWorker::draw_first_topics() {
  documents_.emplace(lengths_, topics_);
  uniforms_.resize(tokens_.size());
  ops::fill_uniform(key_of(seed_, 0, worker_), 0, uniforms_);
  for (size_t i = 0; i < tokens_.size(); ++i) {
    const auto topic = static_cast<int32_t>(uniforms_[i] * static_cast<float>(topics_));
    tokens_[i].topic = std::min(topic, topics_ - 1);
    documents_->add(tokens_[i].document, tokens_[i].topic);
    ++own_[static_cast<size_t>(tokens_[i].topic)];
  }
  int64_t longest = 0;
  for (const Cell& cell : cells_)
    for_each_run(cell, [&](int32_t, int64_t begin, int64_t end) {
      longest = std::max(longest, end - begin);
    });
  uniforms_ = std::vector<float>(static_cast<size_t>(longest));
}

template <class Act>
void LdaWorker::for_each_run(const Cell& cell, const Act& act) const {
  int64_t begin = cell.begin;
  for (const Cell::Run& run : cell.runs) {
    act(run.word, begin, run.end);
    begin = run.end;
  }
}

LdaWorker::Block LdaWorker::split(int number, std::span<int32_t> values) const {
  const size_t totals = own_.size();
  return {static_cast<size_t>(number), values.first(values.size() - totals), values.last(totals)};
}

std::span<int32_t> LdaWorker::row(const Block& block, int64_t word) const {
  return block.rows.subspan(static_cast<size_t>(word) * own_.size(), own_.size());
}

LdaResult LdaWorker::update(const LdaTask& task) {
  LdaResult result;
  switch (task.work) {
    case LdaWork::kPace:
      result.seconds = pace();
      break;
    case LdaWork::kRead:
      read(task);
      turn(task, result);
      break;
    case LdaWork::kSweep:
      look_at_documents(result);
      turn(task, result);
      break;
    case LdaWork::kLook:
      look_at_documents(result);
      for (int place = 0; place < blocks_->home_blocks(); ++place)
        look_at_words(split(blocks_->home_block(place), blocks_->at_home(place)), result);
      break;
    case LdaWork::kRows:
      tell_rows(task, result);
  }
  return result;
}

void LdaWorker::turn(const LdaTask& task, LdaResult& result) {
  activity_->doing("a turn of the blocks");
  for (int i = 0; i < blocks_->blocks(); ++i) {
    const int number = blocks_->block();
    const Block block = split(number, blocks_->take());
    if (task.work == LdaWork::kRead) {
      count(block);
    } else {
      if (i < blocks_->home_blocks()) look_at_words(block, result);
      sweep(block, task.sweep);
    }
    blocks_->give();
    activity_->progress();
  }
}

int64_t LdaWorker::own_tokens(const Block& block) const {
  const Cell& cell = cells_[block.number];
  return cell.runs.empty() ? 0 : cell.runs.back().end - cell.begin;
}

void LdaWorker::count(const Block& block) {
  for_each_run(cells_[block.number], [&](int32_t word, int64_t begin, int64_t end) {
    const std::span<int32_t> counts = row(block, word);
    for (int64_t i = begin; i < end; ++i)
      ++counts[static_cast<size_t>(tokens_[static_cast<size_t>(i)].topic)];
  });
  for (size_t k = 0; k < own_.size(); ++k) block.totals[k] += own_[k];
  told_[block.number] = own_;
}

void LdaWorker::sweep(const Block& block, int64_t number) {
  std::vector<int32_t>& told = told_[block.number];
  for (size_t k = 0; k < own_.size(); ++k) block.totals[k] += own_[k] - told[k];
  sampler_->set_totals(block.totals);
  const ops::RandomKey key = key_of(seed_, number, worker_);
  int64_t alive = 0;
  for_each_run(cells_[block.number], [&](int32_t word, int64_t begin, int64_t end) {
    const auto count = static_cast<size_t>(end - begin);
    const std::span<float> uniforms = std::span(uniforms_).first(count);
    ops::fill_uniform(key, begin, uniforms);
    sampler_->draw(std::span(tokens_).subspan(static_cast<size_t>(begin), count), uniforms,
                   row(block, word), *documents_);
    if (end / kTokensAtATime != std::exchange(alive, end / kTokensAtATime)) activity_->progress();
  });
  const std::span<const int32_t> totals = sampler_->totals();
  for (size_t k = 0; k < own_.size(); ++k) {
    own_[k] += totals[k] - block.totals[k];
    block.totals[k] = totals[k];
  }
  told = own_;
}

void LdaWorker::look_at_documents(LdaResult& result) const {
  result.topics_of_documents.assign(own_.begin(), own_.begin() + topics_);
  result.topics_of_words.resize(own_.size());
  for (int64_t document = 0; document < documents_->documents(); ++document) {
    for (const int32_t count : documents_->counts(document))
      result.of_documents += logs_of_topics_->of(count);
    result.of_documents -= logs_of_documents_->of(lengths_[static_cast<size_t>(document)]);
  }
}

void LdaWorker::look_at_words(const Block& block, LdaResult& result) const {
  for (int64_t word = 0; word < words_.size(static_cast<int>(block.number)); ++word) {
    const std::span<const int32_t> counts = row(block, word);
    for (size_t k = 0; k < counts.size(); ++k) {
      result.topics_of_words[k] += counts[k];
      if (counts[k] > 0) result.of_words += logs_of_words_->of(counts[k]);
    }
  }
}

void LdaWorker::tell_rows(const LdaTask& task, LdaResult& result) {
  const int number = blocks_->home_block(task.place);
  const Block block = split(number, blocks_->at_home(task.place));
  const std::span<const int32_t> words = words_.words(number);
  KERF_CHECK(task.first >= 0 && task.count >= 0 && task.first + task.count <= std::ssize(words));
  for (int64_t word = task.first; word < task.first + task.count; ++word) {
    const std::span<const int32_t> counts = row(block, word);
    for (int32_t topic = 0; topic < topics_; ++topic)
      if (const int32_t count = counts[static_cast<size_t>(topic)]; count > 0) {
        result.words.push_back(words[static_cast<size_t>(word)]);
        result.topics.push_back(topic);
        result.counts.push_back(count);
      }
  }
}

}  // namespace kerf::apps
