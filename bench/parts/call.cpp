#include "bench/call.hpp"

#include <cstdlib>
#include <string>

#include "bench/operands.hpp"
#include "heed/heed.hpp"

namespace bench {
namespace {

/// The number on the line "scratch: N" of heed::explain.
double scratch_in(std::string const& explanation) {
  constexpr std::string_view label = "scratch: ";
  const auto begin = explanation.find(label);
  return begin == std::string::npos ? 0.0 : std::strtod(explanation.c_str() + begin + label.size(), nullptr);
}

template <class T, class Rule>
class call_of final : public call {
 public:
  call_of(shape const& at, Rule const& rule) : data_(at), rule_(rule) {}

  void run(int threads) override { heed::attention(query_, key_, value_, out_, rule_, options(threads)); }
  double largest_error() override { return data_.largest_error(rule_); }
  double scratch_bytes(int threads) override {
    return scratch_in(heed::explain(query_, key_, value_, out_, rule_, options(threads)));
  }
  pointers data() override { return {query_.data(), key_.data(), value_.data(), out_.data()}; }

 private:
  static heed::attention_options options(int threads) {
    heed::attention_options some;
    some.threads = threads;
    return some;
  }

  operands<T> data_;
  Rule rule_;
  heed::tensor_view<const T, 4> query_ = data_.query(), key_ = data_.key(), value_ = data_.value();
  heed::tensor_view<T, 4> out_ = data_.out();
};

template <class T>
std::unique_ptr<call> make_call_of(shape const& at) {
  if (at.is_causal) return std::make_unique<call_of<T, heed::causal>>(at, heed::causal{});
  return std::make_unique<call_of<T, heed::no_mask>>(at, heed::no_mask{});
}

}  // namespace

std::unique_ptr<call> make_call(shape const& at) {
  switch (at.type) {
    case element::bfloat16: return make_call_of<heed::bfloat16>(at);
    case element::float16: return make_call_of<heed::half>(at);
    case element::float64: return make_call_of<double>(at);
    default: return make_call_of<float>(at);
  }
}

double error_limit(shape const& at) {
  // Scores, and with them the error of a float, grow with the queries.
  switch (at.type) {
    case element::bfloat16: return 2e-2;
    case element::float16: return 3e-3;
    case element::float64: return 1e-12 * at.query_scale;
    default: return 5e-6 * at.query_scale;
  }
}

std::string_view level() { return heed::active_isa(); }

}  // namespace bench
