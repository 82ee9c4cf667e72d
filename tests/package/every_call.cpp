// Every documented call, once, as a user would write it. It is compiled under a strict user's warnings, as errors: what
// warns here would warn in his file.
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <heed/heed.hpp>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace {

int failures = 0;

void expect(bool fine, char const* what) {
  if (fine) return;
  ++failures;
  std::printf("wrong: %s\n", what);
}

template <class T>
void fill(T& tensor) {
  for (heed::index_t i = 0; i < tensor.size(); ++i) {
    const float value = static_cast<float>((31 * i + 7) % 97 - 48) / 64.0f;
    tensor.data()[i] = static_cast<typename T::value_type>(value);
  }
}

// All elements of `first` equal those of `second`.
template <class T, class U>
bool same(T const& first, U const& second) {
  if (first.size() != second.size()) return false;
  for (heed::index_t i = 0; i < first.size(); ++i) {
    if (static_cast<double>(first.data()[i]) != static_cast<double>(second.data()[i])) return false;
  }
  return true;
}

constexpr int batch_size = 2, num_heads = 4, num_kv_heads = 2, seq_len_q = 5, seq_len_kv = 7, head_dim = 8;

struct operands {
  heed::tensor<float, 4> q{{batch_size, num_heads, seq_len_q, head_dim}};
  heed::tensor<float, 4> k{{batch_size, num_kv_heads, seq_len_kv, head_dim}};
  heed::tensor<float, 4> v{{batch_size, num_kv_heads, seq_len_kv, head_dim}};
  heed::tensor<float, 4> o{{batch_size, num_heads, seq_len_q, head_dim}};
  operands() {
    fill(q);
    fill(k);
    fill(v);
  }
};

void views() {
  std::vector<float> memory(batch_size * seq_len_q * num_heads * head_dim);
  const heed::tensor_view<float, 4> headwise = heed::bhsd(memory.data(), batch_size, num_heads, seq_len_q, head_dim);
  const heed::tensor_view<float, 4> rowwise = heed::bshd(memory.data(), batch_size, seq_len_q, num_heads, head_dim);
  const heed::tensor_view<float, 3> packed(memory.data(), {batch_size, seq_len_q, num_heads * head_dim});
  const heed::tensor_view<float, 4> split = heed::split_heads(packed, num_heads);
  const heed::tensor_view<float, 3> merged = heed::merge_heads(split);
  const heed::tensor_view<float const, 3> read_only = merged;
  expect(&rowwise(1, 2, 3, 4) == &split(1, 2, 3, 4), "bshd and split_heads");
  expect(&merged(1, 3, 2 * head_dim + 4) == &split(1, 2, 3, 4), "merge_heads");
  expect(headwise.size() == read_only.size() && read_only.extent(2) == num_heads * head_dim, "sizes");
  const heed::tensor_view<float, 2> strided(memory.data(), {std::size_t{2}, 3u}, {-1, 0});
  expect(strided.stride(0) == -1 && strided.stride(1) == 0, "strides");
  const heed::tensor_view<double, 1> null{};
  expect(null.data() == nullptr && null.size() == 0, "the null view");
  heed::tensor<heed::half, 1> own({3});
  heed::tensor<heed::half, 1> copy = own;
  const heed::tensor<heed::half, 1> moved = std::move(copy);
  expect(moved.data() != own.data() && static_cast<float>(moved(2)) == 0.0f, "tensor");
  static_assert(std::is_same_v<heed::index_t, std::int64_t>);
}

void forms() {
  operands x;
  heed::attention(x.q, x.k, x.v, x.o);
  const auto allocated = heed::attention(x.q, x.k, x.v);
  expect(same(x.o, allocated), "the allocating form");
  static_assert(std::is_same_v<std::remove_const_t<decltype(allocated)>, heed::tensor<float, 4>>);

  heed::attention(x.q, x.k, x.v, x.o, {.scale = 0.125});
  expect(same(x.o, heed::attention(x.q, x.k, x.v, {.scale = 0.125})), "options");
  heed::attention(x.q, x.k, x.v, x.o, heed::causal{});
  expect(same(x.o, heed::attention(x.q, x.k, x.v, heed::causal{})), "a rule");
  heed::attention(x.q, x.k, x.v, x.o, heed::causal{}, {.anchor = heed::top_left, .precise = true, .threads = 1});
  expect(same(x.o, heed::attention(x.q, x.k, x.v, heed::causal{}, {.anchor = heed::at_offset(0)})), "anchors");
  struct {
    void parallel_for(heed::index_t count, heed::parallel_body body) {
      for (heed::index_t i = 0; i < count; ++i) body(i);
    }
  } executor;
  expect(same(x.o, heed::attention(x.q, x.k, x.v, heed::causal{},
                                   {.anchor = heed::top_left, .threads = 2, .executor = executor})),
         "an executor");
  const std::vector<heed::index_t> offsets{2, 2};
  heed::attention(x.q, x.k, x.v, x.o, heed::causal{}, {.anchor = heed::at_offset(offsets)});
  expect(same(x.o, heed::attention(x.q, x.k, x.v, heed::causal{}, {.anchor = heed::bottom_right})),
         "a list of offsets");
  const heed::attention_options options{.scale = 1.0, .threads = 2};
  heed::attention(x.q, x.k, x.v, x.o, heed::no_mask{}, options);
  heed::attention(x.q.view(), heed::tensor_view<float const, 4>(x.k), x.v, x.o.view(), options);

  const auto [out, weights] = heed::attention_with_weights(x.q, x.k, x.v, heed::causal{}, {.scale = 0.5});
  expect(weights.extent(3) == seq_len_kv && weights(0, 0, 0, seq_len_kv - 1) == 0.0f, "attention_with_weights");
  expect(same(out, heed::attention(x.q, x.k, x.v, heed::causal{}, {.scale = 0.5})), "its output");
}

void masks() {
  operands x;
  const std::vector<heed::index_t> key_lengths{7, 3}, query_lengths{5, 2}, starts{1, 0};
  const std::array<heed::index_t, 2> same_lengths{7, 3};
  heed::tensor<bool, 2> keep({seq_len_q, seq_len_kv});
  heed::tensor<bool, 2> drop({seq_len_q, seq_len_kv});
  for (int i = 0; i < seq_len_q; ++i) {
    for (int j = 0; j < seq_len_kv; ++j) {
      keep(i, j) = (i + j) % 3 != 0;
      drop(i, j) = !keep(i, j);
    }
  }
  expect(same(heed::attention(x.q, x.k, x.v, heed::keep_mask(keep)),
              heed::attention(x.q, x.k, x.v, heed::drop_mask(drop))),
         "keep and drop");
  expect(same(heed::attention(x.q, x.k, x.v, heed::lengths{.key = key_lengths}),
              heed::attention(x.q, x.k, x.v, heed::lengths{.key = std::span(same_lengths)})),
         "lengths");
  const auto all = heed::causal{} & heed::keep_mask(keep.view()) & heed::drop_mask(drop) &
                   heed::lengths{.query = query_lengths, .key = key_lengths, .key_start = starts} & heed::no_mask{};
  heed::attention(x.q, x.k, x.v, x.o, all);
  expect(same(x.o, heed::attention(x.q, x.k, x.v, all)), "masks joined");
  for (int d = 0; d < head_dim; ++d) expect(x.o(1, 0, 3, d) == 0.0f, "a row past its length");
}

void outputs() {
  operands x;
  heed::tensor<float, 3> lse({batch_size, num_heads, seq_len_q});
  heed::tensor<float, 4> weights({batch_size, num_heads, seq_len_q, seq_len_kv});
  heed::attention(x.q, x.k, x.v, heed::into(x.o).lse(lse).weights(weights), heed::causal{});
  float sum = 0;
  for (int j = 0; j < seq_len_kv; ++j) sum += weights(1, 3, 2, j);
  expect(std::fabs(sum - 1.0f) < 1e-6f && std::isfinite(lse(1, 3, 2)), "into");
  heed::attention(x.q, x.k, x.v, heed::into(x.o.view()).lse(lse.view()));
}

template <class Query, class Key>
void element_types() {
  heed::tensor<Query, 2> q({seq_len_q, head_dim}), o({seq_len_q, head_dim});
  heed::tensor<Key, 2> k({seq_len_kv, head_dim}), v({seq_len_kv, head_dim});
  fill(q);
  fill(k);
  fill(v);
  heed::attention(q, k, v, o, heed::causal{});
  expect(std::isfinite(static_cast<double>(o(0, 0))), "element types");
}

void questions() {
  operands x;
  expect(heed::validate(x.q, x.k, x.v, x.o) == heed::errc::ok, "validate");
  expect(heed::validate(x.q, x.k, x.v, x.o, heed::causal{}, {.threads = -1}) == heed::errc::negative_threads,
         "validate finds what is wrong");
  static_assert(noexcept(heed::validate(x.q, x.k, x.v, x.o)));
  expect(heed::validate(x.q, x.k, x.v) == heed::errc{}, "validate of the allocating form");
  const std::string text = heed::explain(x.q, x.k, x.v, x.o, heed::causal{}, {.scale = 0.5});
  expect(text.find("isa: ") != std::string::npos, "explain");
  const std::string_view isa = heed::active_isa();
  expect(isa == "v1" || isa == "v3" || isa == "v4" || isa == "neon", "active_isa");
  try {
    heed::attention(x.q, x.k, x.v, x.o, {.scale = std::nan("")});
    expect(false, "an error");
  } catch (heed::error const& caught) {
    expect(caught.code() == heed::errc::bad_scale, "its code");
    expect(std::string(caught.what()).find("scale") != std::string::npos, "its text");
  }
}

}  // namespace

int main() {
  views();
  forms();
  masks();
  outputs();
  element_types<float, heed::half>();
  element_types<heed::half, heed::bfloat16>();
  element_types<double, float>();
  questions();
  std::printf("%d failures\n", failures);
  return failures == 0 ? 0 : 1;
}
