// The backward pass: share of the peak, time over the forward pass of the same run, and what rules cost on the way
// back.
//
// One cell: --benchmark_filter='^float/full/S2048/D64'
#include "heed/reference/backward.hpp"

#include <cmath>

#include "bench/bench.hpp"
#include "bench/operands.hpp"
#include "heed/heed.hpp"

namespace {

using heed::index_t;

/// Operands, what a forward pass leaves, and the gradients.
template <class T>
class cell {
 public:
  explicit cell(bench::shape const& at)
      : shape_(at),
        operands_(at),
        d_out_(extents(operands_.query())),
        dq_(extents(operands_.query())),
        dk_(extents(operands_.key())),
        dv_(extents(operands_.key())),
        lse_({at.batch_size, at.num_heads, at.queries()}) {
    std::mt19937 generator(11);
    std::normal_distribution<float> normal;
    for (index_t i = 0; i < d_out_.size(); ++i) d_out_.data()[i] = static_cast<T>(normal(generator));
  }

  template <class Rule>
  void forward(Rule const& rule, heed::attention_options options = {}) {
    options.threads = shape_.threads;
    auto out = operands_.out();
    heed::attention(operands_.query(), operands_.key(), operands_.value(), heed::into(out).lse(lse_), rule, options);
  }
  template <class Rule>
  void backward(Rule const& rule, heed::attention_options options = {}) {
    run(heed::gradients(dq_, dk_, dv_), rule, options);
  }
  /// With the gradient of a bias, too.
  template <class Rule>
  void backward(Rule const& rule, heed::tensor<float, 4>& d_bias) {
    run(heed::gradients(dq_, dk_, dv_).bias(d_bias), rule, {});
  }

  /// The largest error of a gradient of the last rows, and of what the keys get of all rows, over 1 + |exact|; in
  /// double.
  template <class Rule>
  double largest_error(Rule const& rule, heed::attention_options const& options = {}) {
    const auto exact =
        heed::reference::solve_backward(operands_.query(), operands_.key(), operands_.value(), d_out_, rule, options);
    double largest = 0;
    const auto compare = [&](auto const& found, auto const& right) {
      for (index_t i = 0; i < found.size(); ++i) {
        const double error =
            std::abs(static_cast<double>(found.data()[i]) - right.data()[i]) / (1 + std::abs(right.data()[i]));
        largest = error > largest || std::isnan(error) ? error : largest;
      }
    };
    compare(dq_, exact.dq);
    compare(dk_, exact.dk);
    compare(dv_, exact.dv);
    return largest;
  }

 private:
  static heed::axes<4> extents(heed::tensor_view<T, 4> const& of) {
    return {of.extent(0), of.extent(1), of.extent(2), of.extent(3)};
  }
  template <class Rule>
  void run(heed::gradient_targets const& targets, Rule const& rule, heed::attention_options options) {
    options.threads = shape_.threads;
    heed::attention_backward(operands_.query(), operands_.key(), operands_.value(), heed::saved(operands_.out(), lse_),
                             d_out_, targets, rule, options);
  }

  bench::shape shape_;
  bench::operands<T> operands_;
  heed::tensor<T, 4> d_out_, dq_, dk_, dv_;
  heed::tensor<std::conditional_t<std::is_same_v<T, double>, double, float>, 3> lse_;
};

/// Ten operations for each score and head dimension, where a forward pass takes four.
double backward_flops(bench::shape const& at) { return 2.5 * at.flops(); }

/// Exact gradients take long: a shorter sequence of the same kind is compared.
template <class T, class Rule>
double error_of(bench::shape at, Rule const& rule, heed::attention_options const& options = {}) {
  if (at.seq_len > 512) at.seq_len = 512;
  cell<T> one(at);
  one.forward(rule, options);
  one.backward(rule, options);
  return one.largest_error(rule, options);
}

template <class T, class Rule>
void add_cell(bench::shape const& at, Rule const& rule) {
  benchmark::RegisterBenchmark(
      at.name().c_str(),
      [=](benchmark::State& state) {
        cell<T> one(at);
        one.forward(rule);
        const double flops = backward_flops(at);
        for (auto _ : state) {
          (void)_;
          bench::peak_meter peak(bench::peak_loop_of(bench::level(), bench::accumulates_in(at)), at.threads);
          bench::count(state, bench::measure([&] { one.backward(rule); }, flops, peak), flops);
        }
        bench::call_meter forward([&] { one.forward(rule); }, at.flops(), at.threads);
        const auto beside = bench::measure([&] { one.backward(rule); }, at.flops(), forward, bench::lenient());
        state.counters["over_forward"] = 1 / beside.share;
        bench::count_error(state, error_of<T>(at, rule), sizeof(T) == 2 ? 0.05 : 1e-4);
      })
      ->Iterations(1)
      ->UseManualTime();
}

template <class T>
void add_both(bench::shape at) {
  if (at.is_causal) {
    add_cell<T>(at, heed::causal{});
  } else {
    add_cell<T>(at, heed::no_mask{});
  }
}

constexpr bench::shape ruled{.num_heads = 4, .seq_len = 2048, .head_dim = 64};

/// What `backward(cell)` takes over a plain call.
template <class Rule, class Call>
void add_rule(std::string const& name, double wanted, Rule const& rule, Call const& backward,
              heed::attention_options const& options = {}) {
  benchmark::RegisterBenchmark(name.c_str(),
                               [=](benchmark::State& state) {
                                 cell<float> one(ruled), plain(ruled);
                                 one.forward(rule, options);
                                 plain.forward(heed::no_mask{});
                                 const double flops = backward_flops(ruled);
                                 for (auto _ : state) {
                                   (void)_;
                                   bench::call_meter yardstick([&] { plain.backward(heed::no_mask{}); }, flops, 1);
                                   const auto found =
                                       bench::measure([&] { backward(one); }, flops, yardstick, bench::lenient());
                                   bench::count(state, found, flops);
                                   state.counters["cost"] = 1 / found.share;
                                   state.counters["wanted"] = wanted;
                                 }
                                 bench::count_error(state, error_of<float>(ruled, rule, options), 1e-4);
                               })
      ->Iterations(1)
      ->UseManualTime();
}

heed::tensor<float, 4> bias_terms({1, 4, 2048, 2048}), d_bias({1, 4, 2048, 2048});

void add_rules() {
  // Of a shorter sequence the corner of the terms: a view of the rows and keys that there are.
  const auto lambda = heed::score_fn([](auto score, heed::position) { return score + score * score * 0.01f; });
  add_rule("rule/lambda", 1.15, lambda, [=](cell<float>& one) { one.backward(lambda); });
  add_rule("rule/softcap", 1.25, heed::no_mask{},
           [](cell<float>& one) { one.backward(heed::no_mask{}, {.softcap = 30}); }, {.softcap = 30});
  add_rule("rule/dropout", 1.45, heed::no_mask{},
           [](cell<float>& one) { one.backward(heed::no_mask{}, {.drop = {.p = 0.1, .seed = 7}}); },
           {.drop = {.p = 0.1, .seed = 7}});
  benchmark::RegisterBenchmark("rule/bias",
                               [](benchmark::State& state) {
                                 cell<float> one(ruled), plain(ruled);
                                 const heed::bias rule(bias_terms);
                                 one.forward(rule);
                                 plain.forward(heed::no_mask{});
                                 const double flops = backward_flops(ruled);
                                 for (auto _ : state) {
                                   (void)_;
                                   bench::call_meter yardstick([&] { plain.backward(heed::no_mask{}); }, flops, 1);
                                   const auto found = bench::measure([&] { one.backward(rule, d_bias); }, flops,
                                                                     yardstick, bench::lenient());
                                   bench::count(state, found, flops);
                                   state.counters["cost"] = 1 / found.share;
                                   state.counters["wanted"] = 1.20;
                                 }
                               })
      ->Iterations(1)
      ->UseManualTime();
}

void add_all() {
  for (bool is_causal : {false, true}) {
    for (index_t head_dim : {64, 128}) {
      for (index_t seq_len : {128, 512, 1024, 2048}) {
        add_both<float>(
            {.num_heads = bench::heads_for(seq_len), .seq_len = seq_len, .head_dim = head_dim, .is_causal = is_causal});
      }
    }
  }
  for (index_t head_dim : {64, 128}) {
    add_both<heed::bfloat16>({.type = bench::element::bfloat16, .seq_len = 2048, .head_dim = head_dim});
    add_both<double>({.type = bench::element::float64, .seq_len = 1024, .head_dim = head_dim});
  }
  if (std::thread::hardware_concurrency() > 1) {
    for (bool is_causal : {false, true}) {
      for (int threads : {1, 2}) {
        add_both<float>({.seq_len = 4096, .head_dim = 64, .is_causal = is_causal, .threads = threads});
      }
    }
  }
  add_rules();
}

}  // namespace

int main(int argc, char** argv) {
  return bench::run_benches(
      argc, argv,
      bench::peak_columns(
          {{"over_forward", "over forward", 1, "%.2f"}, {"cost", "cost", 1, "%.3f"}, {"wanted", "at most", 1, "%.2f"}}),
      add_all);
}
