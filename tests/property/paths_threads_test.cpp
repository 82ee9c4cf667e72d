// Few query rows in several splits, and K and V that are packed once, share memory among the threads of a call: from
// many callers at once, from inside rules, on small stacks, and where a rule throws.
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <stdexcept>
#include <thread>
#include <vector>

#include "heed/heed.hpp"
#include "heed/view/layout.hpp"
#include "support/cases.hpp"
#include "support/executors.hpp"
#include "support/paths.hpp"
#include "support/random.hpp"
#include "support/sanitizers.hpp"
#include "support/small_stack.hpp"

namespace {

using namespace heed;
using namespace heed::test;

/// Operands of a call that is shared by several threads; K and V as [B, S, H, D].
template <class T>
struct shared_call {
  tensor<T, 4> q, memory;

  shared_call(index_t heads, index_t kv_heads, index_t rows, index_t keys, index_t dim)
      : q(random_tensor<T>({1, heads, rows, dim}, 1)), memory(random_tensor<T>({1, keys, kv_heads, dim}, 2)) {}

  [[nodiscard]] auto key() const {
    return bshd(memory.data(), 1, memory.extent(1), memory.extent(2), memory.extent(3));
  }
  template <class Rule>
  [[nodiscard]] attended<T> run(Rule const& rule, attention_options const& options) const {
    return attend(q, key(), key(), rule, options);
  }
  template <class Rule>
  [[nodiscard]] std::string told(Rule const& rule, attention_options const& options) const {
    return explain(q, key(), key(), rule, options);
  }
};

template <class T>
shared_call<T> few_rows_call() {
  return {4, 2, 1, 9000, 64};  // nine splits
}
template <class T>
shared_call<T> packed_call() {
  return {4, 2, 401, 300, 64};
}

template <class T>
void expect_the_paths() {
  for (int threads : {2, 3}) {
    const std::string few = few_rows_call<T>().told(no_mask{}, {.threads = threads}),
                      packed = packed_call<T>().told(causal{}, {.threads = threads});
    EXPECT_TRUE(is_decoded(few));
    EXPECT_TRUE(has_line(few, "splits: 9") || active_isa() == "v1") << few;
    EXPECT_TRUE(has_line(few, "threads: " + std::to_string(threads)) || active_isa() == "v1") << few;
    EXPECT_TRUE(is_packed_once(packed)) << packed;
    EXPECT_TRUE(is_on_the_fast_dot<T>(packed));
    EXPECT_TRUE(has_line(packed, "threads: " + std::to_string(threads))) << packed;
  }
}

TEST(PathsThreads, K4_many_callers_at_once_get_their_serial_results) {
  const int turns = HEED_TEST_TSAN || HEED_TEST_UNOPTIMISED ? 2 : 8;
  std::atomic<int> wrong{0};
  const auto work = [&]<class T>(T, int caller) {
    expect_the_paths<T>();
    const auto few = few_rows_call<T>();
    const auto packed = packed_call<T>();
    const auto few_alone = few.run(causal{}, {.threads = 1}), packed_alone = packed.run(causal{}, {.threads = 1});
    for (int turn = 0; turn < turns; ++turn) {
      const attention_options options{.threads = (turn + caller) % 4};
      const auto one = few.run(causal{}, options);
      wrong += !same_bits(few_alone.out, one.out) || !same_bits(few_alone.lse, one.lse);
      const auto other = packed.run(causal{}, options);
      wrong += !same_bits(packed_alone.out, other.out) || !same_bits(packed_alone.lse, other.lse);
    }
  };
  std::vector<std::thread> callers;
  for (int i = 0; i < 8; ++i) {
    callers.emplace_back([&, i] {
      switch (i % 4) {
        case 0: return work(float{}, i);
        case 1: return work(half{}, i);
        case 2: return work(bfloat16{}, i);
        default: return work(double{}, i);
      }
    });
  }
  for (auto& caller : callers) caller.join();
  EXPECT_EQ(wrong, 0);
}

/// Does something of the test's before it answers; hides nothing.
struct acting_mask {
  std::function<void()> const* act;

  [[nodiscard]] cover covers(block const& area) const {
    if (area.key_begin < 512) (*act)();
    return cover::partial;
  }
  [[nodiscard]] bool allows(position const&) const { return true; }
};

TEST(PathsThreads, CallsInsideARuleHaveMemoryOfTheirOwn) {
  for_each_type([]<class T>(T) {
    expect_the_paths<T>();
    const auto few = few_rows_call<T>();
    const auto packed = packed_call<T>();
    const auto few_alone = few.run(causal{}, {.threads = 1}), packed_alone = packed.run(causal{}, {.threads = 1});
    const auto few_whole = few.run(no_mask{}, {.threads = 1}), packed_whole = packed.run(no_mask{}, {.threads = 1});
    std::atomic<int> asked{0}, wrong{0};
    const std::function<void()> act = [&] {
      if (++asked > 10) return;
      wrong += !same_bits(few_alone.out, few.run(causal{}, {.threads = 3}).out);
      wrong += !same_bits(packed_alone.out, packed.run(causal{}, {.threads = 3}).out);
    };
    for (int threads : {1, 2, 3}) {
      asked = 0;
      EXPECT_TRUE(same_bits(few_whole.out, few.run(acting_mask{&act}, {.threads = threads}).out)) << threads;
      EXPECT_GE(asked, 4);
      asked = 0;
      EXPECT_TRUE(same_bits(packed_whole.out, packed.run(acting_mask{&act}, {.threads = threads}).out)) << threads;
      EXPECT_GE(asked, 4);
      thread_per_task pool;
      asked = 0;
      EXPECT_TRUE(same_bits(few_whole.out, few.run(acting_mask{&act}, {.threads = threads, .executor = pool}).out));
      EXPECT_GE(asked, 4);
    }
    EXPECT_EQ(wrong, 0);
  });
}

#if HEED_EXCEPTIONS
TEST(PathsThreads, ARuleThatThrowsLeavesNothingBehind) {
  const auto few = few_rows_call<float>();
  const auto packed = packed_call<float>();
  const auto few_alone = few.run(causal{}, {.threads = 1}), packed_alone = packed.run(causal{}, {.threads = 1});
  for (int threads : {1, 2, 3}) {
    for (int wait : {0, 3, 7}) {
      std::atomic<int> left{wait};
      const std::function<void()> act = [&] {
        if (left-- == 0) throw std::runtime_error("from a mask");
      };
      thread_per_task pool;
      EXPECT_THROW((void)few.run(acting_mask{&act}, {.threads = threads}), std::runtime_error);
      left = wait;
      EXPECT_THROW((void)few.run(acting_mask{&act}, {.threads = threads, .executor = pool}), std::runtime_error);
      left = wait;
      EXPECT_THROW((void)packed.run(acting_mask{&act}, {.threads = threads}), std::runtime_error);
      EXPECT_TRUE(same_bits(few_alone.out, few.run(causal{}, {.threads = threads}).out));
      EXPECT_TRUE(same_bits(packed_alone.out, packed.run(causal{}, {.threads = threads}).out));
    }
  }
}
#endif

TEST(PathsThreads, ExecutorsGiveTheSameBits) {
  for_each_type([]<class T>(T) {
    const auto few = few_rows_call<T>();
    const auto packed = packed_call<T>();
    const auto few_alone = few.run(causal{}, {.threads = 1}), packed_alone = packed.run(causal{}, {.threads = 1});
    const auto check = [&](auto& executor) {
      for (int threads : {2, 7}) {
        const attention_options options{.threads = threads, .executor = executor};
        EXPECT_TRUE(same_bits(few_alone.out, few.run(causal{}, options).out)) << threads;
        EXPECT_TRUE(same_bits(packed_alone.out, packed.run(causal{}, options).out)) << threads;
      }
    };
    reversed_executor reversed;
    check(reversed);
    thread_per_task pool;
    check(pool);
    EXPECT_GT(pool.calls, 0);
  });
}

TEST(PathsThreads, J8_a_stack_of_128_KiB_is_enough) {
#if HEED_TEST_ASAN || HEED_TEST_TSAN
  GTEST_SKIP() << "a sanitizer's frames are not those of the library";
#endif
  const auto check = []<class T>(T, index_t heads, index_t rows, index_t keys, index_t dim) {
    const shared_call<T> call(heads, 1, rows, keys, dim);
    tensor<T, 4> out({1, heads, rows, dim}), weights({1, heads, rows, keys});
    tensor<bool, 1> keep({keys});
    for (index_t j = 0; j < keys; ++j) keep(j) = j % 3 != 0;
    on_a_small_stack([&] {
      attention(call.q, call.key(), call.key(), into(out).weights(weights), causal{} & keep_mask(keep), {.threads = 1});
      attention(call.q, call.key(), call.key(), out, causal{}, {.threads = 2});
    });
    EXPECT_TRUE(same_bits(out, attend(call.q, call.key(), call.key(), causal{}).out));
  };
  check(double{}, 4, 1, 5000, 512);
  check(float{}, 4, 3, 3000, 2000);
  check(half{}, 12, 1, 5000, 512);
  check(bfloat16{}, 1, 4, 3000, 128);
  check(bfloat16{}, 2, 401, 3000, 512);
}

}  // namespace
