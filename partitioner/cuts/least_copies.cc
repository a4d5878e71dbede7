#include "partitioner/cuts/least_copies.h"

#include "partitioner/at.h"
#include "partitioner/cost.h"

namespace kerf::partitioner {
namespace {

using ops::Box;

// Whether it is the one term, as it is.
bool is_read_in_place(const Sum& sum, const Source& term) {
  return sum.terms.size() == 1 && term.box == sum.box;
}

// What is added to something reads that, too: three bytes for one instead of two.
double factor_of(const Sum& sum, const Source& term) {
  const Source& first = sum.terms.front();
  return &term != &first && term.box == first.box ? 1.5 : 1;
}

}  // namespace

LeastCopies::LeastCopies(const Sums& sums, const Plan& plan, bool trains)
    : sums_(sums),
      sources_(sums.sources()),
      model_(sources_.model()),
      sizes_(plan.sizes().counted(plan.batch)),
      accumulates_(plan.micro_batches > 1),
      afterwards_(plan.binding.size()) {
  for (ValueId value = 0; value < model_.values(); ++value) {
    const bool activation = model_.value(value).role == Role::kActivation;
    if (activation) forward(value);
    if (trains && activation) backward(value);
    if (trains && !activation) at_homes(value);
  }
}

// Read once and written once.
CopiedBytes LeastCopies::copied(ValueId value, const Box& box) const {
  const ops::ValueSpec& spec = model_.value(value).spec;
  CopiedBytes bytes;
  for (const auto& [samples, count] : sizes_) {
    const auto elements =
        static_cast<double>(ops::local_shape(box, spec.shape, samples).elements());
    const double each = 2 * elements * static_cast<double>(ops::size_of(spec.dtype));
    if (samples == sizes_.begin()->first) bytes.first = each;
    bytes.all += count * each;
  }
  return bytes;
}

void LeastCopies::add(OfPart& to, ValueId value, int part, const Box& box, double factor) const {
  const CopiedBytes bytes = copied(value, box);
  CopiedBytes& sum = to[{value, part}];
  sum.first += factor * bytes.first;
  sum.all += factor * bytes.all;
}

// A part sums slices for others as soon as it has made its summand.
void LeastCopies::forward(ValueId value) {
  for (const Sum& sum : sums_.of(value, false)) {
    const bool slice = sum.kind == Sum::Kind::kSlice;
    const ops::Share* own = sources_.held(value, sum.part);
    const bool has_it = !slice && own != nullptr && !own->partial() && own->box.contains(sum.box);
    for (const Source& term : sum.terms) {
      if (!has_it && !is_read_in_place(sum, term))
        add(slice ? to_send_ : to_read_, value, sum.part, term.box, factor_of(sum, term));
      const bool cut = term.leg != Leg::kAllGather && term.part != sum.part &&
                       !(sources_.held(value, term.part)->box == term.box);
      if (cut) add(to_send_, value, term.part, term.box, 1);
    }
  }
}

// A kernel may write the first of the terms of its own part straight into the sum.
void LeastCopies::backward(ValueId value) {
  for (const Sum& sum : sums_.of(value, true))
    for (const Source& term : sum.terms) {
      if (term.part == sum.part) continue;
      const double bytes = copied(value, term.box).all;
      if (!is_read_in_place(sum, term)) afterwards_[at(sum.part)] += factor_of(sum, term) * bytes;
      const bool cut = sum.kind == Sum::Kind::kNeeded && term.leg == Leg::kDirect &&
                       term.contributions.size() == 1 && !(made_by(term) == term.box);
      if (cut) afterwards_[at(term.part)] += bytes;
    }
}

// Homes, accumulators over several micro-batches and what is read of others' homes outlive the
// messages.
void LeastCopies::at_homes(ValueId value) {
  for (const bool gradient : {true, false})
    for (const Sum& sum : sums_.of(value, gradient))
      for (const Source& term : sum.terms) {
        if (term.part == sum.part) continue;
        const double bytes = copied(value, term.box).first;
        afterwards_[at(sum.part)] += (gradient ? factor_of(sum, term) : 1) * bytes;
        if (!gradient || (term.contributions.size() == 1 && accumulates_))
          afterwards_[at(term.part)] += bytes;
      }
}

// What the node that gives this contribution makes of it on its part.
Box LeastCopies::made_by(const Source& contribution) const {
  const Use& use = contribution.contributions[0].use;
  for (const int i : sources_.computations_of(use.node))
    if (const Computation& made = sources_.computations()[at(i)]; made.part == contribution.part)
      return made.inputs[at(use.input)];
  return contribution.box;
}

}  // namespace kerf::partitioner
