// Calls into the headers, the same in two translation units: what is defined in a header but is not inline, or differs
// between the units, shows when they are linked.
#pragma once

#include <string>

namespace {

// One number that depends on every call.
double use_everything() {
  heed::tensor<float, 2> query({2, 2}), key({3, 2}), value({3, 2}), out({2, 2});
  heed::tensor<float, 1> lse({2});
  query(0, 0) = query(1, 1) = 1.0f;
  key(0, 0) = key(1, 0) = key(1, 1) = key(2, 1) = 1.0f;
  value(0, 0) = value(2, 0) = value(2, 1) = 1.0f;
  value(1, 1) = 2.0f;
  heed::attention(query, key, value, heed::into(out).lse(lse));
  double sum = static_cast<double>(out(0, 0)) + static_cast<double>(out(1, 1)) + static_cast<double>(lse(0));

  const auto whole = heed::attention(query, key, value, heed::causal{}, {.scale = 0.5, .threads = 1});
  const auto both = heed::attention_with_weights(query, key, value);
  sum += static_cast<double>(whole(0, 0, 0, 0)) + static_cast<double>(both.weights(0, 0, 0, 0));
  sum += static_cast<double>(static_cast<float>(heed::half(0.5f))) +
         static_cast<double>(static_cast<float>(heed::bfloat16(0.5f)));

  heed::tensor<float, 2> dq({2, 2}), dk({3, 2});
  const auto targets = heed::gradients(dq, dk, nullptr);
  heed::attention_backward(query, key, value, heed::saved(out, lse), out, targets);
  sum += static_cast<double>(dq(0, 0)) + static_cast<double>(dk(1, 1));

  if (heed::validate(query, key, value, out) != heed::errc::ok) return -1.0;
  if (heed::explain(query, key, value, out).find("isa") == std::string::npos) return -2.0;
  if (heed::active_isa().empty()) return -3.0;
  return sum;
}

}  // namespace
