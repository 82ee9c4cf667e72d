// The same work in two translation units that are compiled for different processors: the same templates, the same
// functions of heed, with whatever of them the compiler does not inline.
#pragma once

#include <heed/heed.hpp>
#include <vector>

namespace {

template <class Element>
double attend(heed::index_t seq_len) {
  heed::tensor<Element, 4> query({1, 2, seq_len, 16}), key({1, 1, seq_len, 16}), value({1, 1, seq_len, 16});
  heed::tensor<Element, 4> out({1, 2, seq_len, 16});
  for (heed::index_t i = 0; i < query.size(); ++i) {
    query.data()[i] = static_cast<Element>(static_cast<float>((31 * i + 1) % 97 - 48) / 64.0f);
  }
  for (heed::index_t i = 0; i < key.size(); ++i) {
    key.data()[i] = static_cast<Element>(static_cast<float>((5 * i + 20) % 97 - 48) / 64.0f);
    value.data()[i] = static_cast<Element>(static_cast<float>((7 * i + 30) % 97 - 48) / 64.0f);
  }
  const std::vector<heed::index_t> lengths{seq_len - 1};
  heed::attention(query, key, value, out, heed::causal{} & heed::lengths{.key = lengths}, {.scale = 0.5});
  double sum = 0;
  for (heed::index_t i = 0; i < out.size(); ++i) {
    sum += static_cast<double>(1 + i % 7) * static_cast<double>(out.data()[i]);
  }
  return sum;
}

double work() {
  double sum = attend<float>(37) + attend<heed::half>(19) + attend<double>(23);
  heed::tensor<float, 2> query({2, 3}), key({2, 4});
  if (heed::validate(query, key, key, query) == heed::errc::ok) sum = -1e9;
  try {
    heed::attention(query, key, key, query);
  } catch (heed::error const& refused) {
    sum += static_cast<double>(refused.what()[0]);
  }
  if (heed::explain(query, query, query, key).empty()) sum = -1e9;
  return sum;
}

}  // namespace
