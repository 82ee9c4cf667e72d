// heed, and what the C++ benches measure with, behind C functions for rivals.py.
//
// g++ -O2 -std=c++20 -shared -fPIC -pthread -I . -I include bench/rivals/shim.cpp -o shim.so
#include <cstdio>
#include <exception>
#include <functional>
#include <string>

#include "bench/machine.hpp"
#include "bench/memory.hpp"
#include "bench/peak.hpp"
#include "heed/heed.hpp"

namespace {

struct request {
  void const *query, *key, *value;
  void* out;
  long batch_size, num_heads, num_kv_heads, query_len, seq_len, head_dim;
  int type;  // 0 float, 1 bfloat16, 2 half, 3 double
  int is_causal, is_bshd, threads;
};

using prepared = std::function<void()>;

template <class T>
prepared prepare(request const& on) {
  const auto box = [&on](auto* data, long rows, long heads) {
    return on.is_bshd != 0 ? heed::bshd(data, on.batch_size, rows, heads, on.head_dim)
                           : heed::bhsd(data, on.batch_size, heads, rows, on.head_dim);
  };
  const auto query = box(static_cast<T const*>(on.query), on.query_len, on.num_heads);
  const auto key = box(static_cast<T const*>(on.key), on.seq_len, on.num_kv_heads);
  const auto value = box(static_cast<T const*>(on.value), on.seq_len, on.num_kv_heads);
  const auto out = box(static_cast<T*>(on.out), on.query_len, on.num_heads);
  heed::attention_options options;
  options.threads = on.threads;
  if (on.is_causal != 0) return [=] { heed::attention(query, key, value, out, heed::causal{}, options); };
  return [=] { heed::attention(query, key, value, out, heed::no_mask{}, options); };
}

template <class T>
double peak(bench::precision type) {
  static bench::peak_meter meter(bench::peak_loop_of(heed::active_isa(), type), 1);
  return meter.read();
}

}  // namespace

extern "C" {

/// A call that heed_run repeats; heed_release ends it.
void* heed_prepare(request const* on) {
  switch (on->type) {
    case 1: return new prepared(prepare<heed::bfloat16>(*on));
    case 2: return new prepared(prepare<heed::half>(*on));
    case 3: return new prepared(prepare<double>(*on));
    default: return new prepared(prepare<float>(*on));
  }
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
