// The same work in two translation units that are compiled for different processors: the same templates, the same
// functions of heed, with whatever of them the compiler does not inline. No standard container here: what the two units
// would share of those is not heed's.
#pragma once

#include <heed/heed.hpp>

namespace {

constexpr heed::index_t batch_size = 2, num_heads = 4, num_kv_heads = 2, seq_len_q = 19, seq_len_kv = 37, head_dim = 16;

template <class Element, std::size_t Rank>
void fill(heed::tensor<Element, Rank>& tensor, heed::index_t factor) {
  for (heed::index_t i = 0; i < tensor.size(); ++i) {
    tensor.data()[i] = static_cast<Element>(static_cast<float>((factor * i + 20) % 97 - 48) / 64.0f);
  }
}

template <class Element, std::size_t Rank>
double sum_of(heed::tensor<Element, Rank> const& tensor) {
  double sum = 0;
  for (heed::index_t i = 0; i < tensor.size(); ++i) {
    sum += static_cast<double>(1 + i % 7) * static_cast<double>(tensor.data()[i]);
  }
  return sum;
}

template <class Element, class KeyElement>
double attend() {
  heed::tensor<Element, 4> query({batch_size, num_heads, seq_len_q, head_dim});
  heed::tensor<KeyElement, 4> key({batch_size, num_kv_heads, seq_len_kv, head_dim}), value = key;
  fill(query, 31);
  fill(key, 5);
  fill(value, 7);
  heed::tensor<Element, 4> out({batch_size, num_heads, seq_len_q, head_dim});
  heed::tensor<float, 3> lse({batch_size, num_heads, seq_len_q});
  heed::tensor<float, 4> weights({batch_size, num_heads, seq_len_q, seq_len_kv});
  heed::tensor<bool, 2> keep({seq_len_q, seq_len_kv});
  for (heed::index_t i = 0; i < keep.size(); ++i) keep.data()[i] = i % 5 != 0;
  const heed::index_t query_lengths[] = {19, 11}, key_lengths[] = {37, 20}, starts[] = {0, 3}, offsets[] = {18, 9};

  heed::attention(query, key, value, heed::into(out).lse(lse).weights(weights),
                  heed::causal{} & heed::keep_mask(keep) &
                      heed::lengths{.query = query_lengths, .key = key_lengths, .key_start = starts},
                  {.scale = 0.5, .anchor = heed::at_offset(offsets), .threads = 2});
  double sum = sum_of(out) + sum_of(weights);
  heed::attention(query, key, value, out, heed::drop_mask(keep) & heed::no_mask{}, {.anchor = heed::top_left});
  sum += sum_of(out);
  const auto both = heed::attention_with_weights(query, key, value, heed::causal{}, {.anchor = heed::at_offset(2)});
  return sum + sum_of(both.out) + sum_of(both.weights);
}

double views() {
  heed::tensor<float, 3> packed({batch_size, seq_len_q, num_heads * head_dim});
  fill(packed, 31);
  heed::tensor<float, 3> other = packed;
  const heed::tensor<float, 3> moved = static_cast<heed::tensor<float, 3>&&>(other);
  heed::tensor<float, 4> rowwise({batch_size, seq_len_q, num_heads, head_dim});
  const auto heads = heed::split_heads(moved, num_heads);
  heed::attention(heads, heads, heads, heed::bshd(rowwise.data(), batch_size, seq_len_q, num_heads, head_dim));
  const auto merged = heed::merge_heads(heed::bhsd(rowwise.data(), 1, 1, batch_size * seq_len_q, num_heads * head_dim));
  return sum_of(rowwise) + static_cast<double>(merged(0, 1, 2));
}

double gradients() {
  heed::tensor<float, 4> query({1, 2, seq_len_q, head_dim}), key({1, 1, seq_len_kv, head_dim}), out = query;
  heed::tensor<float, 4> dq = query, dk = key, dv = key;
  heed::tensor<float, 3> lse({1, 2, seq_len_q});
  heed::tensor<float, 2> terms({seq_len_q, seq_len_kv}), d_terms = terms, table({8, 2}), d_table = table;
  heed::tensor<float, 1> d_slopes({2}), d_logits({2});
  const float numbers[] = {0.5f, 0.25f};
  fill(query, 31);
  fill(key, 5);
  fill(terms, 3);
  const auto rule = heed::bias(terms) & heed::alibi{numbers} & heed::relative_bias{table} & heed::sink{numbers} &
                    heed::score_fn([](auto score, heed::position) { return score + heed::tanh(score); });
  const heed::attention_options options{.softcap = 3.0, .drop = {.p = 0.25, .seed = 1}, .threads = 1};
  heed::attention(query, key, key, heed::into(out).lse(lse), rule, options);
  heed::attention_backward(query, key, key, heed::saved(out, lse), query,
                           heed::gradients(dq, dk, dv).bias(d_terms).slopes(d_slopes).table(d_table).sink(d_logits),
                           rule, options);
  return sum_of(dq) + sum_of(dk) + sum_of(dv) + sum_of(d_terms) + sum_of(d_slopes) + sum_of(d_table) + sum_of(d_logits);
}

double questions() {
  heed::tensor<float, 2> query({2, 3}), key({2, 4}), out({2, 3});
  double sum = 0;
  if (heed::validate(query, key, key, query) == heed::errc::ok) sum = -1e9;
  try {
    heed::attention(query, key, key, query);
    sum = -1e9;
  } catch (heed::error const& refused) {
    sum += static_cast<double>(refused.what()[0]) + static_cast<double>(refused.code());
  }
  if (heed::explain(query, query, query, out).empty() || heed::active_isa().empty()) sum = -1e9;
  return sum;
}

double work() {
  return attend<float, heed::half>() + attend<heed::half, float>() + attend<double, heed::bfloat16>() +
         attend<heed::bfloat16, double>() + views() + gradients() + questions();
}

}  // namespace
