#include "apps/classifier/linear_model.h"

#include <array>
#include <cmath>
#include <optional>
#include <string_view>

#include "apps/data/sparse_entries.h"
#include "apps/data/text_lines.h"
#include "runtime/error.h"
#include "runtime/file.h"

namespace kerf::apps {

namespace {

constexpr std::string_view kLogisticHead =
    "kerf logistic: the larger label with the probability 1 / (1 + e^-(w . x)), w a line for each "
    "feature that has a weight";
constexpr std::string_view kSvmHead =
    "kerf svm: the larger label where w . x > 0, w a line for each feature that has a weight";
constexpr std::array kLosses = {LinearLoss::kLogistic, LinearLoss::kHinge,
                                LinearLoss::kSquaredHinge};

// Features, few of which may have a weight: 128 MB.
constexpr int64_t kMostUnasked = int64_t{1} << 24;

std::string_view head_of(LinearLoss loss) {
  return loss == LinearLoss::kLogistic ? kLogisticHead : kSvmHead;
}

// Reads a model line by line.
class LinearModelLines {
 public:
  explicit LinearModelLines(const ByteSource& file) : lines_(file) {}

  LinearModel read() {
    const std::string_view head = lines_.next().value_or("");
    if (head != kLogisticHead && head != kSvmHead)
      lines_.refuse("this is no model of kerf logistic or kerf svm: its first line is another");
    const bool logistic = head == kLogisticHead;
    LinearModel model;
    Fields labels = behind("labels");
    const std::string two = "two finite numbers, the smaller first";
    model.labels.negative = number(labels, two, [](double) { return true; });
    model.labels.positive =
        number(labels, two, [&](double label) { return label > model.labels.negative; });
    end(labels);
    model.c = only("C", "a finite number above 0", [](double c) { return c > 0; });
    model.loss = loss(logistic);
    model.bias = only("bias", "a finite number of 0 or more", [](double b) { return b >= 0; });
    read_features(model);
    read_weights(model);
    return model;
  }

 private:
  Fields behind(std::string_view name) {
    const auto line = lines_.next();
    if (!line) lines_.refuse(format("expected '{}', found the end of the file", name));
    Fields fields(*line);
    const Fields before = fields;
    if (fields.word() != name) lines_.expected(format("'{}'", name), before);
    return fields;
  }
  template <class Fine>
  double number(Fields& fields, const std::string& what, const Fine& fine) {
    const Fields before = fields;
    double value = 0;
    if (!fields.take(value) || !std::isfinite(value) || !fine(value)) lines_.expected(what, before);
    return value;
  }
  void end(Fields& fields) {
    if (!fields.done()) lines_.expected("nothing more in the line", fields);
  }
  template <class Fine>
  double only(std::string_view name, const std::string& what, const Fine& fine) {
    Fields fields = behind(name);
    const double value = number(fields, what, fine);
    end(fields);
    return value;
  }
  LinearLoss loss(bool logistic) {
    Fields fields = behind("loss");
    const Fields before = fields;
    const std::string_view name = fields.word();
    for (const LinearLoss each : kLosses)
      if (name == to_string(each) && logistic == (each == LinearLoss::kLogistic)) {
        end(fields);
        return each;
      }
    lines_.expected(logistic ? "'logistic'" : "'hinge' or 'squared-hinge'", before);
  }
  int64_t index(Fields& fields, int64_t least, int64_t most) {
    const Fields before = fields;
    int64_t value = 0;
    if (!fields.take(value) || value < least || value > most)
      lines_.expected(format("a whole number from {} to {}", least, most), before);
    return value;
  }
  void read_features(LinearModel& model) {
    Fields fields = behind("features");
    model.features = index(fields, 1, kMostIndices);
    end(fields);
    if (model.features > kMostUnasked && !may_claim(model.features, lines_.file().size()))
      lines_.refuse(format("{} features are more than a file of {} bytes may claim", model.features,
                           lines_.file().size()));
    model.weights.resize(static_cast<size_t>(model.features) + (model.bias > 0 ? 1 : 0));
  }
  void read_weights(LinearModel& model) {
    int64_t last = 0;
    while (const auto line = lines_.next()) {
      Fields fields(*line);
      last = index(fields, last + 1, std::ssize(model.weights));
      model.weights[static_cast<size_t>(last - 1)] =
          number(fields, "a finite number as the weight", [](double) { return true; });
      end(fields);
    }
  }

  TextLines lines_;
};

}  // namespace

std::string to_string(LinearLoss loss) {
  switch (loss) {
    case LinearLoss::kLogistic:
      return "logistic";
    case LinearLoss::kHinge:
      return "hinge";
    case LinearLoss::kSquaredHinge:
      return "squared-hinge";
  }
  throw Error(ErrorCode::kInternal, format("no loss has the number {}", static_cast<int>(loss)));
}

double LinearModel::score(std::span<const int32_t> indices, std::span<const double> values) const {
  double sum = bias > 0 ? bias * weights.back() : 0;
  for (size_t i = 0; i < indices.size(); ++i)
    if (indices[i] < features) sum += values[i] * weights[static_cast<size_t>(indices[i])];
  return sum;
}

void write_linear_model(const std::filesystem::path& path, const LinearModel& model) {
  std::string text = format("{}\nlabels {} {}\nC {}\nloss {}\nbias {}\nfeatures {}\n",
                            head_of(model.loss), model.labels.negative, model.labels.positive,
                            model.c, to_string(model.loss), model.bias, model.features);
  for (size_t i = 0; i < model.weights.size(); ++i)
    if (model.weights[i] != 0) text += format("{} {}\n", i + 1, model.weights[i]);
  runtime::write_file_atomic(path, text);
}

LinearModel read_linear_model(const ByteSource& file) { return LinearModelLines(file).read(); }

double accuracy_of(const LinearModel& model, const LabelledRows& rows) {
  int64_t right = 0;
  for (int64_t i = 0; i < rows.rows.columns; ++i) {
    const double score = model.score(rows.rows.rows_of(i), rows.rows.values_of(i));
    right += model.label_of(score) == rows.labels[static_cast<size_t>(i)] ? 1 : 0;
  }
  return static_cast<double>(right) / static_cast<double>(rows.rows.columns);
}

}  // namespace kerf::apps
