// Lines of a model's text that are a name and a number: "rank 12".
#pragma once

#include <string_view>

#include "apps/data/text_lines.h"
#include "runtime/format.h"

namespace kerf::apps {

// Of the next line, all of it. Throws Error{kUsage} at "FILE:LINE" unless the name is this one, and
// the number from `least` to `most`.
template <class Number>
Number named_number(TextLines& lines, std::string_view name, Number least, Number most) {
  Fields fields(lines.next().value_or(""));
  const Fields before = fields;
  if (fields.word() != name) lines.expected(format("'{}' and a number", name), before);
  const Fields behind = fields;
  Number number{};
  if (!fields.take(number) || !fields.done() || !(number >= least && number <= most))
    lines.expected(format("a number from {} to {}", least, most), behind);
  return number;
}

}  // namespace kerf::apps
