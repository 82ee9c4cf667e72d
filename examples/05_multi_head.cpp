// Multi-head attention as a layer has it: one projection gives [batch, seq_len, 3 * heads * head_dim], and nothing is
// transposed or copied on the way in or out.
//
// Expected last line: "4 heads read from and written to packed buffers; no copy".
#include <cmath>
#include <cstdio>
#include <heed/heed.hpp>

using heed::index_t;
constexpr index_t batch_size = 2, seq_len = 9, heads = 4, head_dim = 8, model_dim = heads * head_dim;

// Part 0, 1 or 2 (query, key, value) of the packed projection, still [batch, seq_len, model_dim].
heed::tensor_view<float const, 3> part(heed::tensor<float, 3> const& packed, index_t which) {
  return {packed.data() + which * model_dim, {batch_size, seq_len, model_dim}, {packed.stride(0), packed.stride(1), 1}};
}

// One head as a contiguous [batch, seq_len, head_dim] copy: the slow way, to check against.
heed::tensor<float, 3> copy_of_head(heed::tensor_view<float const, 3> packed, index_t head) {
  heed::tensor<float, 3> copy({batch_size, seq_len, head_dim});
  for (index_t b = 0; b < batch_size; ++b) {
    for (index_t s = 0; s < seq_len; ++s) {
      for (index_t d = 0; d < head_dim; ++d) copy(b, s, d) = packed(b, s, head * head_dim + d);
    }
  }
  return copy;
}

int main() {
  heed::tensor<float, 3> projected({batch_size, seq_len, 3 * model_dim});
  for (index_t i = 0; i < projected.size(); ++i) {
    projected.data()[i] = static_cast<float>(std::sin(0.1 * static_cast<double>(i * i % 977)));
  }

  // [B, S, H*D] seen as [B, H, S, D]. The output is written through such a view, so it is ready for the next layer.
  const auto query = heed::split_heads(part(projected, 0), heads);
  const auto key = heed::split_heads(part(projected, 1), heads);
  const auto value = heed::split_heads(part(projected, 2), heads);
  heed::tensor<float, 3> out({batch_size, seq_len, model_dim});
  heed::attention(query, key, value, heed::split_heads(out, heads), heed::causal{});

  std::printf("query: extents [%d, %d, %d, %d], strides [%d, %d, %d, %d]\n", static_cast<int>(query.extent(0)),
              static_cast<int>(query.extent(1)), static_cast<int>(query.extent(2)), static_cast<int>(query.extent(3)),
              static_cast<int>(query.stride(0)), static_cast<int>(query.stride(1)), static_cast<int>(query.stride(2)),
              static_cast<int>(query.stride(3)));
  if (query.data() != projected.data() || key.data() != projected.data() + model_dim) {
    std::printf("MISMATCH: split_heads copied\n");
    return 1;
  }

  // merge_heads is the way back: the same memory as [B, S, H*D].
  const auto merged = heed::merge_heads(heed::split_heads(out, heads));
  if (merged.data() != out.data() || merged.extent(2) != model_dim || merged.stride(1) != model_dim) {
    std::printf("MISMATCH: merge_heads is not the inverse of split_heads\n");
    return 1;
  }

  // Each head alone, from contiguous copies.
  double worst = 0;
  for (index_t h = 0; h < heads; ++h) {
    const auto single = heed::attention(copy_of_head(part(projected, 0), h), copy_of_head(part(projected, 1), h),
                                        copy_of_head(part(projected, 2), h), heed::causal{});
    for (index_t b = 0; b < batch_size; ++b) {
      for (index_t s = 0; s < seq_len; ++s) {
        for (index_t d = 0; d < head_dim; ++d) {
          worst = std::fmax(worst, std::fabs(single(b, 0, s, d) - merged(b, s, h * head_dim + d)));
        }
      }
    }
  }
  if (!(worst < 1e-6)) {
    std::printf("MISMATCH: a head differs from the same head computed alone by %g\n", worst);
    return 1;
  }
  std::printf("%d heads read from and written to packed buffers; no copy\n", static_cast<int>(heads));
  return 0;
}
