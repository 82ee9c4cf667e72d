// heed, and what the C++ benches measure with, behind C functions for rivals.py.
//
// g++ -O2 -std=c++20 -shared -fPIC -pthread -I . -I include bench/rivals/shim.cpp -o shim.so
#include <cstdio>
#include <exception>
#include <functional>
#include <span>
#include <string>
#include <type_traits>

#include "bench/machine.hpp"
#include "bench/memory.hpp"
#include "bench/peak.hpp"
#include "heed/heed.hpp"

namespace {

struct request {
  void const *query, *key, *value;
  void* out;
  float* lse;
  void const* d_out;
  void *dq, *dk, *dv;
  float const* slopes;   // of ALiBi, or null
  double softcap, drop;  // 0: none
  long batch_size, num_heads, num_kv_heads, query_len, seq_len, head_dim;
  int type;  // 0 float, 1 bfloat16, 2 half, 3 double
  int is_causal, is_bshd;
  int passes;  // 0 forward, 1 backward, 2 both
  int threads;
};

using prepared = std::function<void()>;

heed::dropout dropout_of(double p) { return {.p = p, .seed = 20240607, .offset = 0}; }

template <class T>
auto box(request const& on, T* data, long rows, long heads) {
  return on.is_bshd != 0 ? heed::bshd(data, on.batch_size, rows, heads, on.head_dim)
                         : heed::bhsd(data, on.batch_size, heads, rows, on.head_dim);
}

heed::attention_options options_of(request const& on) {
  heed::attention_options options;
  options.threads = on.threads;
  if (on.softcap != 0) options.softcap = on.softcap;
  if (on.drop != 0) options.drop = dropout_of(on.drop);
  return options;
}

template <class T, class Rule>
prepared prepare_forward(request const& on, Rule const& rule) {
  const auto query = box(on, static_cast<T const*>(on.query), on.query_len, on.num_heads);
  const auto key = box(on, static_cast<T const*>(on.key), on.seq_len, on.num_kv_heads);
  const auto value = box(on, static_cast<T const*>(on.value), on.seq_len, on.num_kv_heads);
  const auto out = box(on, static_cast<T*>(on.out), on.query_len, on.num_heads);
  return [=, options = options_of(on)] { heed::attention(query, key, value, out, rule, options); };
}

/// A backward pass alone, of one forward pass, or both in turn.
template <class T, class Rule>
prepared prepare_backward(request const& on, Rule const& rule) {
  const auto query = box(on, static_cast<T const*>(on.query), on.query_len, on.num_heads);
  const auto key = box(on, static_cast<T const*>(on.key), on.seq_len, on.num_kv_heads);
  const auto value = box(on, static_cast<T const*>(on.value), on.seq_len, on.num_kv_heads);
  const auto d_out = box(on, static_cast<T const*>(on.d_out), on.query_len, on.num_heads);
  const auto out = box(on, static_cast<T*>(on.out), on.query_len, on.num_heads);
  const heed::tensor_view<float, 3> lse(on.lse, {on.batch_size, on.num_heads, on.query_len});
  const auto dq = box(on, static_cast<T*>(on.dq), on.query_len, on.num_heads);
  const auto dk = box(on, static_cast<T*>(on.dk), on.seq_len, on.num_kv_heads);
  const auto dv = box(on, static_cast<T*>(on.dv), on.seq_len, on.num_kv_heads);
  const auto forward = [=, options = options_of(on)] {
    heed::attention(query, key, value, heed::into(out).lse(lse), rule, options);
  };
  const auto backward = [=, options = options_of(on)] {
    heed::attention_backward(query, key, value, heed::saved(out, lse), d_out, heed::gradients(dq, dk, dv), rule,
                             options);
  };
  if (on.passes == 2) return [=] { forward(), backward(); };
  forward();
  return backward;
}

/// An empty function is a cell that it does not know.
template <class T>
prepared prepare(request const& on) {
  if (on.passes != 0) {
    if constexpr (std::is_same_v<T, heed::bfloat16>) {
      if (on.is_causal == 0) return prepare_backward<T>(on, heed::no_mask{});
    }
    return {};
  }
  if (on.is_causal != 0) return prepare_forward<T>(on, heed::causal{});
  return prepare_forward<T>(on, heed::no_mask{});
}

/// The cells with rules are all of float.
template <>
prepared prepare<float>(request const& on) {
  const bool has_alibi = on.slopes != nullptr, is_causal = on.is_causal != 0;
  if (has_alibi && (is_causal || on.passes != 0)) return {};
  if (has_alibi) {
    const std::span<float const> slopes(on.slopes, static_cast<std::size_t>(on.num_heads));
    return prepare_forward<float>(on, heed::alibi{.slopes = slopes});
  }
  if (on.passes != 0) {
    return is_causal ? prepare_backward<float>(on, heed::causal{}) : prepare_backward<float>(on, heed::no_mask{});
  }
  return is_causal ? prepare_forward<float>(on, heed::causal{}) : prepare_forward<float>(on, heed::no_mask{});
}

template <class T>
double peak(bench::precision type) {
  static bench::peak_meter meter(bench::peak_loop_of(heed::active_isa(), type), 1);
  return meter.read();
}

}  // namespace

extern "C" {

/// A call that heed_run repeats; heed_release ends it. Null, after a message, where it cannot be done.
void* heed_prepare(request const* on) {
  try {
    prepared call;
    switch (on->type) {
      case 1: call = prepare<heed::bfloat16>(*on); break;
      case 2: call = prepare<heed::half>(*on); break;
      case 3: call = prepare<double>(*on); break;
      default: call = prepare<float>(*on);
    }
    if (call) return new prepared(call);
    std::fprintf(stderr, "the shim does not know this rule\n");
  } catch (std::exception const& error) {
    std::fprintf(stderr, "%s\n", error.what());
  }
  return nullptr;
}

/// 0, or 1 after a message.
int heed_run(void* call) {
  try {
    (*static_cast<prepared*>(call))();
    return 0;
  } catch (std::exception const& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}

/// Which scores [batch_size, num_heads, query_len, seq_len] the cells with dropout keep.
void heed_kept(bool* keep, long batch_size, long num_heads, long query_len, long seq_len, double drop) {
  for (long batch = 0; batch < batch_size; ++batch) {
    for (long head = 0; head < num_heads; ++head) {
      for (long query = 0; query < query_len; ++query) {
        for (long key = 0; key < seq_len; ++key) {
          *keep++ = heed::dropout_keeps(dropout_of(drop), batch, head, query, key);
        }
      }
    }
  }
}

void heed_release(void* call) { delete static_cast<prepared*>(call); }

/// flop/s of one core now, in float or double.
double peak_of_float() { return peak<float>(bench::precision::float32); }
double peak_of_double() { return peak<double>(bench::precision::float64); }

/// Bytes/s that one thread reads now; afterwards nothing else is in the caches.
double read_bandwidth() {
  static const bench::bandwidth_meter meter(heed::active_isa());
  return meter.read();
}

char const* machine() {
  static const std::string text =
      bench::processor_name() + "; level " + std::string(heed::active_isa()) + "; " + bench::compiler_name();
  return text.c_str();
}
}
