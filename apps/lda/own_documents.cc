#include "apps/lda/own_documents.h"

#include <vector>

#include "ops/random.h"
#include "runtime/error.h"

namespace kerf::apps {

namespace {

constexpr int64_t kSampleDocuments = 128, kSampleTokens = int64_t{1} << 13;

}  // namespace

Corpus own_documents(const std::string& file, int64_t words, const LdaTask& task,
                     const Working& working) {
  Corpus corpus =
      read_documents(FileBytes(file, working), words, {task.first, task.first + task.count});
  int64_t tokens = 0;
  for (const WordCount& each : corpus.entries) tokens += each.count;
  if (corpus.documents() != task.count || tokens != task.tokens)
    throw Error(ErrorCode::kUsage,
                format("another corpus than the scheduler's: documents {} to {} have {} tokens, "
                       "not {}",
                       task.first + 1, task.first + task.count, tokens, task.tokens),
                file);
  return corpus;
}

Corpus sample_of_documents(std::span<const int32_t> words) {
  std::vector<float> uniforms(kSampleTokens);
  ops::fill_uniform({.purpose = ops::kSamplingPurpose}, 0, uniforms);
  Corpus sample;
  for (const float each : uniforms)
    sample.entries.push_back(
        {words[static_cast<size_t>(static_cast<double>(each) * static_cast<double>(words.size()))],
         1});
  for (int64_t document = 1; document <= kSampleDocuments; ++document)
    sample.begins.push_back(document * kSampleTokens / kSampleDocuments);
  return sample;
}

}  // namespace kerf::apps
