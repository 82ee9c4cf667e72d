// Attention sinks while streaming: a text without an end runs through a cache of fixed size that keeps the first keys,
// which heads lean on when nothing else matters, and the last ones. A learned logit (`sink`) is leaned on, too.
//
// Prints a step now and then. Expected last line: "500 steps in a cache of 36 keys agree with the whole text".
#include <cmath>
#include <cstdio>
#include <heed/heed.hpp>
#include <vector>

using heed::index_t;
constexpr index_t heads = 2, steps = 500, head_dim = 16, first_keys = 4, last_keys = 32;
constexpr index_t capacity = first_keys + last_keys;

heed::tensor<float, 4> wavy(index_t seq_len, double phase) {
  heed::tensor<float, 4> filled({index_t{1}, heads, seq_len, head_dim});
  for (index_t i = 0; i < filled.size(); ++i) {
    filled.data()[i] = static_cast<float>(std::sin(phase + 0.7 * static_cast<double>(i * i % 1013)));
  }
  return filled;
}

int fail(char const* what, index_t step) {
  std::printf("MISMATCH: %s, step %d\n", what, static_cast<int>(step));
  return 1;
}

int main() {
  const auto query = wavy(steps, 0.0), key = wavy(steps, 1.0), value = wavy(steps, 2.0);
  const std::vector<float> logits = {1.0f, -2.0f};  // one for each head, as the model learned them
  const heed::sink sink{.logits = logits};

  // The whole text at once: the first keys and a window, as a rule of one's own, because masks that are joined all
  // apply, and this is an "or".
  const auto is_kept = [](heed::position at) {
    const index_t back = at.query + at.offset - at.key;
    return (back >= 0) & ((back < last_keys) | (at.key < first_keys));
  };
  const auto covers = [](heed::block area) {
    const bool ahead = area.key_begin > area.query_end - 1 + area.offset;
    const bool gone = area.key_begin >= first_keys && area.key_end - 1 <= area.query_begin + area.offset - last_keys;
    return ahead || gone ? heed::cover::none : heed::cover::partial;
  };
  heed::tensor<float, 4> whole({index_t{1}, heads, steps, head_dim});
  heed::tensor<float, 3> whole_lse({index_t{1}, heads, steps});
  heed::attention(query, key, value, heed::into(whole).lse(whole_lse), heed::mask_fn(is_kept, covers) & sink);

  // The stream: step t overwrites the oldest key that is not one of the first. Which slot holds which key does not
  // matter: attention knows no order.
  heed::tensor<float, 4> cached_key({index_t{1}, heads, capacity, head_dim}), cached_value = cached_key;
  heed::tensor<float, 4> out({index_t{1}, heads, index_t{1}, head_dim}), weights({index_t{1}, heads, 1, capacity});
  heed::tensor<float, 3> lse({index_t{1}, heads, index_t{1}});
  for (index_t t = 0; t < steps; ++t) {
    const index_t slot = t < first_keys ? t : first_keys + (t - first_keys) % last_keys;
    for (index_t h = 0; h < heads; ++h) {
      for (index_t d = 0; d < head_dim; ++d) {
        cached_key(0, h, slot, d) = key(0, h, t, d);
        cached_value(0, h, slot, d) = value(0, h, t, d);
      }
    }
    const index_t filled = t < capacity ? t + 1 : capacity;
    const auto held = [&](heed::tensor<float, 4> const& cache) {
      return heed::tensor_view<float const, 4>(cache.data(), {index_t{1}, heads, filled, head_dim},
                                               {cache.stride(0), cache.stride(1), cache.stride(2), 1});
    };
    const heed::tensor_view<float const, 4> token(&query(0, 0, t, 0), {index_t{1}, heads, index_t{1}, head_dim},
                                                  {query.stride(0), query.stride(1), query.stride(2), 1});
    const heed::tensor_view<float, 4> seen(weights.data(), {index_t{1}, heads, index_t{1}, filled});
    heed::attention(token, held(cached_key), held(cached_value), heed::into(out).lse(lse).weights(seen), sink);

    for (index_t h = 0; h < heads; ++h) {
      // The weights sum to what the sink leaves of 1.
      double sum = 0, first = 0;
      for (index_t j = 0; j < filled; ++j) sum += seen(0, h, 0, j);
      for (index_t j = 0; j < filled && j < first_keys; ++j) first += seen(0, h, 0, j);
      const double leaned = std::exp(static_cast<double>(logits[static_cast<std::size_t>(h)] - lse(0, h, 0)));
      if (!(std::fabs(sum + leaned - 1) < 1e-5)) return fail("weights and sink do not sum to 1", t);
      if (!(std::fabs(lse(0, h, 0) - whole_lse(0, h, t)) < 1e-5f)) return fail("another lse", t);
      for (index_t d = 0; d < head_dim; ++d) {
        if (!(std::fabs(out(0, h, 0, d) - whole(0, h, t, d)) < 1e-5f)) return fail("another output", t);
      }
      if (t % 100 != 99) continue;
      std::printf("step %3d, head %d: lse %.3f, weight of the first keys %.3f, of the last %.3f, of the sink %.3f\n",
                  static_cast<int>(t), static_cast<int>(h), static_cast<double>(lse(0, h, 0)), first, sum - first,
                  leaned);
    }
  }
  std::printf("%d steps in a cache of %d keys agree with the whole text\n", static_cast<int>(steps),
              static_cast<int>(capacity));
  return 0;
}
