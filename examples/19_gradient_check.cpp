// The gradients, checked by hand: each number of each operand is moved a little up and down, and what the loss does
// must be what attention_backward says.
//
// The call has everything that bends a gradient: grouped heads, a causal mask, a soft cap, a score function, a bias
// that the heads share, a sink, dropout. Expected last line: "attention_backward and differences of the loss agree".
#include <cmath>
#include <cstdio>
#include <heed/heed.hpp>
#include <type_traits>
#include <vector>

using heed::index_t;

heed::tensor<double, 4> wavy(index_t heads, index_t rows, index_t columns, double phase) {
  heed::tensor<double, 4> filled({index_t{2}, heads, rows, columns});
  for (index_t i = 0; i < filled.size(); ++i) {
    filled.data()[i] = std::sin(phase + 0.7 * static_cast<double>(i * i % 1013));
  }
  return filled;
}

int main() {
  heed::tensor<double, 4> query = wavy(4, 5, 8, 0.0), key = wavy(2, 7, 8, 1.0), value = wavy(2, 7, 6, 2.0);
  heed::tensor<double, 2> terms({5, 7});  // of all heads and batch items
  for (index_t i = 0; i < terms.size(); ++i) terms.data()[i] = std::cos(static_cast<double>(i));
  std::vector<float> logits = {0.5f, -0.25f, 1.0f, 0.0f};

  // A lambda that takes any score is differentiated as it is. Dropout is a function of its seed and offset: the
  // backward pass drops what the forward pass dropped.
  const auto bent = heed::score_fn([](auto score, heed::position) { return score + heed::tanh(2 * score) / 2; });
  const auto rule = heed::causal{} & heed::bias(terms) & bent & heed::sink{.logits = logits};
  const heed::attention_options options{.softcap = 2.0, .drop = {.p = 0.25, .seed = 7, .offset = 3}};

  // The loss: half the sum of the squares of out, and a twentieth of that of lse (the z-loss of a router).
  heed::tensor<double, 4> out({2, 4, 5, 6});
  heed::tensor<double, 3> lse({2, 4, 5});
  const auto loss = [&] {
    heed::attention(query, key, value, heed::into(out).lse(lse), rule, options);
    double sum = 0;
    for (index_t i = 0; i < out.size(); ++i) sum += out.data()[i] * out.data()[i] / 2;
    for (index_t i = 0; i < lse.size(); ++i) sum += lse.data()[i] * lse.data()[i] / 20;
    return sum;
  };

  std::printf("loss %.6f\n", loss());
  const heed::tensor<double, 4> d_out = out;  // what this loss gives back for out: out itself
  heed::tensor<double, 3> d_lse = lse;
  for (index_t i = 0; i < d_lse.size(); ++i) d_lse.data()[i] /= 10;

  heed::tensor<double, 4> dq({2, 4, 5, 8}), dk({2, 2, 7, 8}), dv({2, 2, 7, 6});
  heed::tensor<double, 2> d_terms({5, 7});
  heed::tensor<float, 1> d_logits({4});
  heed::attention_backward(query, key, value, heed::saved(out, lse), d_out,
                           heed::gradients(dq, dk, dv).bias(d_terms).sink(d_logits).lse(d_lse), rule, options);

  // The check. A step that a float represents exactly serves both types.
  bool agrees = true;
  const auto check = [&](char const* name, auto* numbers, auto const* gradient, index_t count, double step,
                         double allowed) {
    double worst = 0, largest = 0;
    for (index_t i = 0; i < count; ++i) {
      const auto kept = numbers[i];
      numbers[i] = static_cast<std::remove_cvref_t<decltype(kept)>>(kept + step);
      const double above = loss();
      numbers[i] = static_cast<std::remove_cvref_t<decltype(kept)>>(kept - step);
      const double below = loss();
      numbers[i] = kept;
      worst = std::fmax(worst, std::fabs((above - below) / (2 * step) - gradient[i]));
      largest = std::fmax(largest, std::fabs(static_cast<double>(gradient[i])));
    }
    std::printf("%-6s %3d numbers, gradients up to %.3f, differences agree within %.0e\n", name,
                static_cast<int>(count), largest, worst);
    agrees = agrees && worst < allowed && largest > 0.01;
  };
  check("query", query.data(), dq.data(), query.size(), 0x1p-14, 1e-7);
  check("key", key.data(), dk.data(), key.size(), 0x1p-14, 1e-7);
  check("value", value.data(), dv.data(), value.size(), 0x1p-14, 1e-7);
  check("bias", terms.data(), d_terms.data(), terms.size(), 0x1p-14, 1e-7);
  check("sink", logits.data(), d_logits.data(), d_logits.size(), 0x1p-10, 1e-5);

  // One past the window of its row: hidden, so that it neither has a gradient nor is read.
  agrees = agrees && d_terms(0, 3) == 0 && d_terms(0, 2) != 0;
  if (!agrees) {
    std::printf("MISMATCH: attention_backward differs from differences of the loss\n");
    return 1;
  }
  std::printf("attention_backward and differences of the loss agree\n");
  return 0;
}
