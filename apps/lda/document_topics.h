// How many tokens of each document have which topic: of a document the topics that it has, a few of
// all of them, roughly the commonest first, which who looks for a token's topic finds soonest. They
// lie in whole vectors; a place that is free has a count of 0. One thread.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "apps/lda/topic_lanes.h"

namespace kerf::apps {

class DocumentTopics {
 public:
  // lengths: of the documents, in tokens: as many may be added.
  DocumentTopics(const std::vector<int64_t>& lengths, int topics);

  int64_t documents() const { return std::ssize(sizes_); }
  // Topics of the document, and their counts beside them.
  std::span<const int32_t> topics(int64_t document) const { return of(topics_, document); }
  std::span<const int32_t> counts(int64_t document) const { return of(counts_, document); }
  // The same with the free places up to a whole vector.
  const int32_t* topic_lanes(int64_t document) const {
    return topics_.data() + begins_[static_cast<size_t>(document)];
  }
  const int32_t* count_lanes(int64_t document) const {
    return counts_.data() + begins_[static_cast<size_t>(document)];
  }
  int32_t size(int64_t document) const { return sizes_[static_cast<size_t>(document)]; }

  void add(int64_t document, int32_t topic) {
    int32_t* const topics = topics_.data() + begins_[static_cast<size_t>(document)];
    int32_t* const counts = counts_.data() + begins_[static_cast<size_t>(document)];
    int32_t& size = sizes_[static_cast<size_t>(document)];
    const auto place = std::find(topics, topics + size, topic) - topics;
    if (place == size) topics[size++] = topic;
    ++counts[place];
    if (place > 0 && counts[place] > counts[place - 1]) {
      std::swap(topics[place], topics[place - 1]);
      std::swap(counts[place], counts[place - 1]);
    }
  }
  // A token that it has.
  void take(int64_t document, int32_t topic) {
    int32_t* const topics = topics_.data() + begins_[static_cast<size_t>(document)];
    int32_t* const counts = counts_.data() + begins_[static_cast<size_t>(document)];
    int32_t& size = sizes_[static_cast<size_t>(document)];
    const auto place = std::find(topics, topics + size, topic) - topics;
    if (--counts[place] > 0) return;
    --size;
    topics[place] = topics[size];
    counts[place] = counts[size];
    counts[size] = 0;
  }

  // What a snapshot holds of it.
  template <class Archive>
  void serialize(Archive& archive) {
    archive(sizes_, topics_, counts_);
  }

 private:
  std::span<const int32_t> of(const std::vector<int32_t>& all, int64_t document) const {
    return std::span(all).subspan(static_cast<size_t>(begins_[static_cast<size_t>(document)]),
                                  static_cast<size_t>(size(document)));
  }

  std::vector<int64_t> begins_;
  std::vector<int32_t> sizes_;
  std::vector<int32_t> topics_, counts_;
};

}  // namespace kerf::apps
