// What masks, stages and outputs cost: the time of a call with a rule over that of the same call without one, in turn;
// of masks that hide blocks, over the time that the visible share of the plain call takes.
//
// One cell: --benchmark_filter='^alibi'
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bench/bench.hpp"
#include "bench/operands.hpp"
#include "heed/heed.hpp"

namespace {

using heed::index_t;

constexpr index_t heads = 4, seq_len = 2048;
constexpr double hidden = -std::numeric_limits<double>::infinity();

/// Everything that the rules of the cells read.
struct rule_data {
  heed::tensor<float, 2> bias{{seq_len, seq_len}};
  heed::tensor<bool, 2> half{{seq_len, seq_len}}, all{{seq_len, seq_len}};
  heed::tensor<float, 2> table{{32, heads}};
  std::vector<float> slopes = heed::alibi_slopes(heads), logits = std::vector<float>(heads, 0.5f);
  std::vector<index_t> prefix{512}, half_length{seq_len / 2}, ids;
  heed::tensor<bool, 2> bigbird =
      heed::bigbird_blocks(seq_len / 64, seq_len / 64, {.local = 3, .global = 2, .random = 3});

  rule_data() {
    std::mt19937 generator(7);
    std::normal_distribution<float> normal;
    for (index_t i = 0; i < bias.size(); ++i) bias.data()[i] = normal(generator);
    for (index_t i = 0; i < half.size(); ++i) half.data()[i] = generator() % 2 == 0;
    for (index_t i = 0; i < all.size(); ++i) all.data()[i] = true;
    for (index_t i = 0; i < table.size(); ++i) table.data()[i] = normal(generator);
    for (index_t i = 0; i < seq_len; ++i) ids.push_back(i / 256);
  }
};

/// score of (head, row, key) -> what is softmaxed, in double.
using oracle = std::function<double(double score, index_t head, index_t row, index_t key)>;

class cell {
 public:
  explicit cell(index_t head_dim)
      : operands_({.num_heads = heads, .seq_len = seq_len, .head_dim = head_dim}), data_(new rule_data) {}

  bench::operands<float>& operands() { return operands_; }
  rule_data const& data() const { return *data_; }

  template <class Rule>
  void run(Rule const& rule, heed::attention_options options) {
    options.threads = 1;
    heed::attention(operands_.query(), operands_.key(), operands_.value(), operands_.out(), rule, options);
  }

  /// The plain call with more outputs.
  void run_with_lse() {
    heed::attention(operands_.query(), operands_.key(), operands_.value(), heed::into(operands_.out()).lse(lse_),
                    {.threads = 1});
  }
  void run_with_weights() {
    if (weights_.size() == 0) weights_ = heed::tensor<float, 4>({1, heads, seq_len, seq_len});
    heed::attention(operands_.query(), operands_.key(), operands_.value(),
                    heed::into(operands_.out()).weights(weights_), {.threads = 1});
  }

  /// The largest |out - exact| over some rows.
  double largest_error(oracle const& rule, double sink, heed::dropout const& drop) {
    double largest = 0;
    const auto query = operands_.query(), key = operands_.key(), value = operands_.value(), out = operands_.out();
    const index_t head_dim = query.extent(3);
    for (index_t head = 0; head < heads; ++head) {
      for (index_t row : {index_t{0}, seq_len / 3, seq_len - 1}) {
        std::vector<double> weights;
        for (index_t j = 0; j < seq_len; ++j) {
          double dot = 0;
          for (index_t dim = 0; dim < head_dim; ++dim) dot += double(query(0, head, row, dim)) * key(0, head, j, dim);
          weights.push_back(rule(dot / std::sqrt(double(head_dim)), head, row, j));
        }
        const double highest = (std::max)(sink, *std::max_element(weights.begin(), weights.end()));
        double sum = std::exp(sink - highest);
        for (double& weight : weights) sum += weight = std::exp(weight - highest);
        for (index_t dim = 0; dim < head_dim; ++dim) {
          double exact = 0;
          for (index_t j = 0; j < seq_len; ++j) {
            if (!heed::dropout_keeps(drop, 0, head, row, j)) continue;
            exact += weights[static_cast<std::size_t>(j)] / sum / (1 - drop.p) * value(0, head, j, dim);
          }
          largest = (std::max)(largest, std::abs(exact - out(0, head, row, dim)));
        }
      }
    }
    return largest;
  }

 private:
  bench::operands<float> operands_;
  std::shared_ptr<rule_data> data_;
  heed::tensor<float, 3> lse_{{1, heads, seq_len}};
  heed::tensor<float, 4> weights_;
};

/// Times `call(cell)` against the plain call, of which it needs `visible`.
template <class Call>
void add(std::string const& name, double wanted, double visible, oracle const& exact, Call const& call,
         double sink = hidden, heed::dropout const& drop = {}, index_t head_dim = 64) {
  benchmark::RegisterBenchmark(
      name.c_str(),
      [=](benchmark::State& state) {
        cell one(head_dim);
        const double flops = bench::shape{.num_heads = heads, .seq_len = seq_len, .head_dim = head_dim}.flops();
        for (auto _ : state) {
          (void)_;
          bench::call_meter plain([&] { one.run(heed::no_mask{}, {}); }, flops, 1);
          const bench::measurement found = bench::measure([&] { call(one); }, flops * visible, plain, bench::lenient());
          bench::count(state, found, flops * visible);
          state.counters["cost"] = 1 / found.share;
          state.counters["wanted"] = wanted;
          call(one);  // the yardstick has written to the same out
          bench::count_error(state, one.largest_error(exact, sink, drop), 1e-5);
        }
      })
      ->Iterations(1)
      ->UseManualTime()
      ->Unit(benchmark::kMillisecond);
}

double visible_share(oracle const& exact) {
  double count = 0;
  for (index_t i = 0; i < seq_len; ++i) {
    for (index_t j = 0; j < seq_len; ++j) count += exact(0, 0, i, j) != hidden;
  }
  return count / double(seq_len * seq_len);
}

template <class Rule>
void add_stage(std::string const& name, double wanted, oracle const& exact, Rule const& rule_of,
               heed::attention_options const& options = {}) {
  add(name, wanted, 1, exact, [=](cell& one) { one.run(rule_of(one.data()), options); });
}
template <class Rule>
void add_mask(std::string const& name, double wanted, oracle const& exact, Rule const& rule_of) {
  add(name, wanted, visible_share(exact), exact, [=](cell& one) { one.run(rule_of(one.data()), {}); });
}

void add_all() {
  static const rule_data data;
  const auto distance = [](index_t row, index_t key) { return std::abs(double(row - key)); };
  add_stage(
      "alibi", 1.08,
      [=](double s, index_t h, index_t i, index_t j) { return s - data.slopes[std::size_t(h)] * distance(i, j); },
      [](rule_data const& of) { return heed::alibi{of.slopes}; });
  add_stage(
      "lambda", 1.10, [=](double s, index_t, index_t i, index_t j) { return s - 0.01 * distance(i, j); },
      [](rule_data const&) {
        return heed::score_fn([](auto score, heed::position at) {
          return score - 0.01f * heed::abs(static_cast<float>(at.query + at.offset - at.key));
        });
      });
  add_stage(
      "lambda/tanh", 1.35, [](double s, index_t, index_t, index_t) { return 5 * std::tanh(s / 5); },
      [](rule_data const&) {
        return heed::score_fn([](auto score, heed::position) { return 5 * heed::tanh(score * 0.2f); });
      });
  add_stage(
      "softcap", 1.28, [](double s, index_t, index_t, index_t) { return 30 * std::tanh(s / 30); },
      [](rule_data const&) { return heed::no_mask{}; }, {.softcap = 30});
  add_stage(
      "bias", 1.20, [](double s, index_t, index_t i, index_t j) { return s + data.bias(i, j); },
      [](rule_data const& of) { return heed::bias(of.bias); });
  add_stage(
      "relative_bias", 1.12,
      [](double s, index_t h, index_t i, index_t j) {
        const double away = double(i > j ? i - j : j - i);
        const int large = 8 + int(std::log(float(away) / 8.0f) / std::log(16.0f) * 8);
        const int bucket = (j > i ? 16 : 0) + (away < 8 ? int(away) : (std::min)(large, 15));
        return s + data.table(bucket, h);
      },
      [](rule_data const& of) { return heed::relative_bias{of.table}; });
  add_stage(
      "keep_mask/half", 1.15, [](double s, index_t, index_t i, index_t j) { return data.half(i, j) ? s : hidden; },
      [](rule_data const& of) { return heed::keep_mask(of.half); });
  add_stage(
      "keep_mask/all", 1.15, [](double s, index_t, index_t, index_t) { return s; },
      [](rule_data const& of) { return heed::keep_mask(of.all); });
  const oracle same = [](double s, index_t, index_t, index_t) { return s; };
  add(
      "sink", 1.01, 1, same, [](cell& one) { one.run(heed::sink{one.data().logits}, {}); }, 0.5);
  constexpr heed::dropout tenth{.p = 0.1, .seed = 7};
  add(
      "dropout 0.1", 1.45, 1, same, [=](cell& one) { one.run(heed::no_mask{}, {.drop = tenth}); }, hidden, tenth);
  add(
      "dropout 0.1/D128", 1.25, 1, same, [=](cell& one) { one.run(heed::no_mask{}, {.drop = tenth}); }, hidden, tenth,
      128);
  add("lse", 1.01, 1, same, [](cell& one) { one.run_with_lse(); });
  // The wanted figure leaves out the time that the bytes take on their way to memory.
  add("weights", 1.35, 1, same, [](cell& one) { one.run_with_weights(); });
  add_mask(
      "window", 1.35, [](double s, index_t, index_t i, index_t j) { return j <= i && j >= i - 255 ? s : hidden; },
      [](rule_data const&) { return heed::causal{} & heed::window{.left = 255}; });
  add_mask(
      "documents", 1.20, [](double s, index_t, index_t i, index_t j) { return i / 256 == j / 256 ? s : hidden; },
      [](rule_data const& of) { return heed::documents{.ids = of.ids}; });
  add_mask(
      "prefix", 1.15, [](double s, index_t, index_t i, index_t j) { return j < 512 || j <= i ? s : hidden; },
      [](rule_data const& of) { return heed::prefix{of.prefix}; });
  add_mask(
      "lengths", 1.06, [](double s, index_t, index_t, index_t j) { return j < seq_len / 2 ? s : hidden; },
      [](rule_data const& of) { return heed::lengths{.key = of.half_length}; });
  add_mask(
      "bigbird", 1.35,
      [](double s, index_t, index_t i, index_t j) { return data.bigbird(i / 64, j / 64) ? s : hidden; },
      [](rule_data const& of) {
        return heed::block_sparse{of.bigbird, 64, 64};
      });
}

}  // namespace

int main(int argc, char** argv) {
  return bench::run_benches(
      argc, argv, bench::peak_columns({{"cost", "cost", 1, "%.3f"}, {"wanted", "at most", 1, "%.2f"}}), add_all);
}
