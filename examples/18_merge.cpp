// A prompt that four users share: its keys are read once for all of them, each user's own keys once for that user, and
// merge makes of the two results the one over all keys.
//
// Expected last line: "4 users share one prompt; merged, it is the attention over prompt and own text".
#include <cmath>
#include <cstdio>
#include <heed/heed.hpp>
#include <vector>

using heed::index_t;
constexpr index_t users = 4, heads = 2, prompt_len = 100, longest = 9, head_dim = 16;

heed::tensor<float, 4> wavy(index_t batch_size, index_t seq_len, double phase) {
  heed::tensor<float, 4> filled({batch_size, heads, seq_len, head_dim});
  for (index_t i = 0; i < filled.size(); ++i) {
    filled.data()[i] = static_cast<float>(std::sin(phase + 0.7 * static_cast<double>(i * i % 1013)));
  }
  return filled;
}

// Prompt and own text of a user in one buffer: what merge spares us.
heed::tensor<float, 4> joined(heed::tensor<float, 4> const& prompt, heed::tensor<float, 4> const& own) {
  heed::tensor<float, 4> both({users, heads, prompt_len + longest, head_dim});
  for (index_t u = 0; u < users; ++u) {
    for (index_t h = 0; h < heads; ++h) {
      for (index_t j = 0; j < prompt_len + longest; ++j) {
        for (index_t d = 0; d < head_dim; ++d) {
          both(u, h, j, d) = j < prompt_len ? prompt(0, h, j, d) : own(u, h, j - prompt_len, d);
        }
      }
    }
  }
  return both;
}

int main() {
  const auto prompt_key = wavy(1, prompt_len, 1.0), prompt_value = wavy(1, prompt_len, 2.0);
  const auto own_key = wavy(users, longest, 3.0), own_value = wavy(users, longest, 4.0);
  auto query = wavy(users, 1, 0.0);
  const std::vector<index_t> own = {9, 0, 5, 1};  // keys that each user has of its own

  // The users' queries [users, heads, 1, dim] seen as rows of one batch item, [1, heads, users, dim]: they share the
  // keys, so they are one call's rows. Outputs are seen the same way.
  const auto as_rows = [](heed::tensor_view<float, 4> all) {
    return heed::tensor_view<float, 4>(all.data(), {index_t{1}, heads, users, head_dim},
                                       {all.stride(2), all.stride(1), all.stride(0), index_t{1}});
  };
  heed::tensor<float, 4> shared_out({users, heads, index_t{1}, head_dim}), own_out = shared_out;
  heed::tensor<float, 3> shared_lse({users, heads, index_t{1}}), own_lse = shared_lse;
  const heed::tensor_view<float, 3> shared_lse_rows(shared_lse.data(), {index_t{1}, heads, users},
                                                    {index_t{1}, index_t{1}, heads});
  heed::attention(as_rows(query), prompt_key, prompt_value, heed::into(as_rows(shared_out)).lse(shared_lse_rows));
  heed::attention(query, own_key, own_value, heed::into(own_out).lse(own_lse), heed::lengths{.key = own});

  // Each part is weighed by its lse. The result may take the place of an input.
  heed::merge(heed::into(own_out).lse(own_lse), heed::partial(shared_out, shared_lse), heed::partial(own_out, own_lse));

  std::vector<index_t> total = own;
  for (index_t& keys : total) keys += prompt_len;
  heed::tensor<float, 4> whole({users, heads, index_t{1}, head_dim});
  heed::tensor<float, 3> whole_lse({users, heads, index_t{1}});
  heed::attention(query, joined(prompt_key, own_key), joined(prompt_value, own_value), heed::into(whole).lse(whole_lse),
                  heed::lengths{.key = total});

  for (index_t u = 0; u < users; ++u) {
    double worst = 0;
    for (index_t h = 0; h < heads; ++h) {
      worst = std::fmax(worst, std::fabs(whole_lse(u, h, 0) - own_lse(u, h, 0)));
      for (index_t d = 0; d < head_dim; ++d) {
        worst = std::fmax(worst, std::fabs(whole(u, h, 0, d) - own_out(u, h, 0, d)));
      }
      // Who has written nothing yet has the prompt's result, to the bit.
      if (own[static_cast<std::size_t>(u)] == 0 && own_out(u, h, 0, 0) != shared_out(u, h, 0, 0)) worst = 1;
    }
    std::printf("user %d, %d keys of the prompt and %d own ones: largest difference %.1e\n", static_cast<int>(u),
                static_cast<int>(prompt_len), static_cast<int>(own[static_cast<std::size_t>(u)]), worst);
    if (!(worst < 2e-6)) {
      std::printf("MISMATCH: merged results differ from those over all keys\n");
      return 1;
    }
  }
  std::printf("%d users share one prompt; merged, it is the attention over prompt and own text\n",
              static_cast<int>(users));
  return 0;
}
