#include "schedmp/training/lbfgs_weights.h"

#include <algorithm>

#include "runtime/error.h"
#include "runtime/time.h"

namespace kerf::schedmp {

namespace {

void check_steady(const partitioner::Model& model, const partitioner::Part& part,
                  const std::vector<SharedTensor>& tensors) {
  for (const SharedTensor& tensor : tensors)
    if (tensor.is_state)
      throw Error(ErrorCode::kUsage,
                  "it is a running statistic, which follows steps, and L-BFGS has none; choose "
                  "another optimizer, or a model without batch norm",
                  model.value(part.locals[static_cast<size_t>(tensor.local)].value).name);
}

}  // namespace

std::vector<std::pair<int, TableSpec>> point_tables(const partitioner::Model& model,
                                                    const std::vector<partitioner::Part>& parts,
                                                    int workers, int replicas) {
  check_apart(model, parts);
  std::vector<std::pair<int, TableSpec>> tables;
  for (const partitioner::Part& part : parts) {
    const std::vector<SharedTensor> tensors = shared_tensors(part);
    if (tensors.empty()) continue;
    check_steady(model, part, tensors);
    TableSpec spec{.name = kerf::format("point of part {}", part.part),
                   .rows = tensors.back().rows.end,
                   .width = kSharedWidth,
                   .groups = {{}}};
    for (int replica = 0; replica < replicas; ++replica)
      spec.groups[0].push_back(replica * workers + part.worker);
    tables.emplace_back(part.part, std::move(spec));
  }
  return tables;
}

int64_t lbfgs_bytes(const TableSpec& point, int worker, int history) {
  const std::optional<TablePlace> place = place_in(point, worker);
  if (!place) return 0;
  const int64_t own =
      TableRows(point, static_cast<int>(point.groups[0].size())).rows_of(place->place);
  const int64_t vectors = change_of_point(history);
  constexpr int64_t kOnTheWay = 4;  // what is sent, in three places, and answers to others
  constexpr int64_t kOfRow = sizeof(double) + (1 + kOnTheWay) * sizeof(float);
  const int64_t bytes = own * vectors * int64_t{sizeof(float)} + point.rows * kOfRow;
  return 2 * table_bytes(point, worker) + bytes * point.width;
}

LbfgsWeights::LbfgsWeights(const partitioner::Model& model,
                           const std::vector<const partitioner::Part*>& parts,
                           Parameters& parameters, ops::Workbench& bench, Tables& tables,
                           const std::vector<std::pair<int, int>>& table_of_part, int history,
                           int replica)
    : model_(model),
      parts_(parts),
      parameters_(parameters),
      bench_(bench),
      replica_(replica),
      vectors_(parts.size()) {
  std::vector<VectorPieces::Stretch> stretches;
  for (size_t part = 0; part < parts_.size(); ++part) {
    const std::optional<int> table = table_of(table_of_part, parts_[part]->part);
    if (!table) continue;
    begin(part, tables, *table);
    stretches.push_back({vectors_[part].point_piece, vectors_[part].gradient_piece});
  }
  pieces_ = std::make_unique<VectorPieces>(stretches, history);
}

void LbfgsWeights::begin(size_t part, Tables& tables, int table) {
  Vectors& vectors = vectors_[part];
  vectors.point = &tables.at(table);
  vectors.gradient = &tables.at(table + 1);
  vectors.rows.emplace(part, *parts_[part], parameters_, bench_);
  const int64_t rows = vectors.point->spec().rows;
  vectors.all = {{0, rows}};
  if (const int64_t own = vectors.point->own_rows(); own > 0)
    vectors.own = {{vectors.point->row(0), vectors.point->row(0) + own}};
  vectors.sum.resize(static_cast<size_t>(rows * kSharedWidth));
  numbers_.assign(vectors.sum.size(), 0);
  for (const SharedTensor& tensor : vectors.rows->tensors())
    vectors.rows->take(tensor, of_rows(numbers_, tensor));
  bench_.stream().synchronize();
  for (const ops::Range& own : vectors.own)
    vectors.point_piece.assign(numbers_.begin() + own.begin * kSharedWidth,
                               numbers_.begin() + own.end * kSharedWidth);
  vectors.gradient_piece.resize(vectors.point_piece.size());
}

int64_t LbfgsWeights::place() {
  int64_t waited_ns = 0;
  for (Vectors& vectors : vectors_)
    if (vectors.point != nullptr) waited_ns += place(vectors);
  parameters_.changed();
  return waited_ns;
}

// Sums begin anew, here and in the table.
int64_t LbfgsWeights::place(Vectors& vectors) {
  const int64_t begin_ns = runtime::now_ns();
  std::ranges::fill(vectors.sum, 0.0);
  vectors.point->assign(vectors.own, vectors.point_piece);
  vectors.point->clock();
  vectors.gradient->assign(vectors.own, std::vector<float>(vectors.gradient_piece.size()));
  vectors.gradient->clock();
  numbers_.resize(vectors.sum.size());
  vectors.point->read(vectors.all, numbers_);
  const int64_t waited_ns = runtime::now_ns() - begin_ns;
  for (const SharedTensor& tensor : vectors.rows->tensors())
    vectors.rows->give(tensor, of_rows(numbers_, tensor));
  bench_.stream().synchronize();
  return waited_ns;
}

void LbfgsWeights::update(size_t part, std::span<const Home> homes, const Step& step) {
  if (step.rows == 0) return;
  Vectors& vectors = vectors_[part];
  vectors.rows->add(homes, static_cast<double>(step.rows), vectors.sum);
}

int64_t LbfgsWeights::collect(int64_t rows) {
  const int64_t begin_ns = runtime::now_ns();
  const double scale = 1 / static_cast<double>(rows);
  for (Vectors& vectors : vectors_) {
    if (vectors.point == nullptr) continue;
    numbers_.resize(vectors.sum.size());
    std::ranges::transform(vectors.sum, numbers_.begin(),
                           [&](double sum) { return static_cast<float>(sum * scale); });
    vectors.gradient->add(vectors.all, numbers_);
    vectors.gradient->clock();
    vectors.gradient->read(vectors.own, vectors.gradient_piece);
  }
  return runtime::now_ns() - begin_ns;
}

template <class Act>
void LbfgsWeights::for_each_piece(int32_t vector, const Act& act) {
  std::span<float> numbers = pieces_->piece(vector);
  for (size_t part = 0; part < parts_.size(); ++part) {
    const Vectors& vectors = vectors_[part];
    if (vectors.point == nullptr) continue;
    for (const SharedTensor& tensor : vectors.rows->tensors()) {
      const ServedElements at = served_of(vectors.point->spec(), vectors.point->worker(), tensor);
      if (at.count == 0) continue;
      act(elements_of(model_, *parts_[part], tensor, at.first),
          numbers.subspan(static_cast<size_t>(at.begin), static_cast<size_t>(at.count)));
    }
    numbers = numbers.subspan(vectors.point_piece.size());
  }
}

// The direction, and where a line search is, are found anew.
std::vector<StoredSlice> LbfgsWeights::slices(Reach reach,
                                              const std::vector<ops::Layout>& layouts) {
  std::vector<StoredSlice> slices = slices_of_replica(
      model_, parts_, replica_, reach, reach == Reach::kAlone, parameters_.slices(reach, layouts));
  for (int32_t vector = kBase; vector < pieces_->vectors(); ++vector) {
    if (vector == kDirection || !pieces_->is_set(vector)) continue;
    const std::string kind = vector == kBase ? kWeights : kind_of_vector(vector);
    for_each_piece(vector, [&](const ElementsOf& what, std::span<const float> numbers) {
      add_numbers(kind, what, numbers, slices);
    });
  }
  return slices;
}

void LbfgsWeights::load(StoredSlices& from) {
  parameters_.load(from, kinds_of_replica(from, replica_, 0));
  for (int32_t vector = kBase; vector < pieces_->vectors(); ++vector) {
    const std::string kind = vector == kBase ? kWeights : kind_of_vector(vector);
    if (vector == kDirection || !from.has(kind)) continue;
    pieces_->note_set(vector);
    for_each_piece(vector, [&](const ElementsOf& what, std::span<float> numbers) {
      read_numbers(from, kind, what, numbers);
    });
  }
  std::span<const float> base = pieces_->piece(kBase);
  for (Vectors& vectors : vectors_) {
    std::ranges::copy(base.first(vectors.point_piece.size()), vectors.point_piece.begin());
    base = base.subspan(vectors.point_piece.size());
  }
}

}  // namespace kerf::schedmp
