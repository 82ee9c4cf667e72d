// What a call takes from the heap: nothing once its thread has its scratch, and no more scratch than explain says.
#include <gtest/gtest.h>

#include <cstdlib>
#include <new>
#include <string>
#include <thread>

#include "heed/heed.hpp"
#include "heed/view/layout.hpp"
#include "support/cases.hpp"
#include "support/random.hpp"

namespace {

struct heap_use {
  long calls = 0;
  std::size_t bytes = 0;
};
thread_local heap_use used;  // by this thread

void* take(std::size_t size, std::size_t alignment) {
  ++used.calls;
  used.bytes += size;
  void* const memory = std::aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

void* operator new(std::size_t size) { return take(size, 16); }
void* operator new(std::size_t size, std::align_val_t alignment) { return take(size, std::size_t(alignment)); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }

namespace {

using namespace heed;
using heed::test::for_each_type;

struct shape {
  index_t batch_size, heads, kv_heads, rows, keys, dim;
  bool is_strided;
};
constexpr shape shapes[] = {{1, 1, 1, 8, 8, 64, false},     {2, 4, 2, 100, 130, 64, false},
                            {1, 2, 2, 500, 600, 40, false}, {1, 2, 2, 500, 600, 40, true},
                            {3, 4, 4, 450, 260, 33, true},  {1, 8, 2, 1, 3000, 64, false},
                            {2, 2, 1, 3, 70, 512, true},    {1, 1, 1, 420, 300, 512, true}};

/// The operands of a call, and the call.
template <class T>
class prepared {
 public:
  explicit prepared(shape const& at)
      : at_(at),
        query_(test::random_tensor<T>({at.batch_size, at.rows, at.heads, at.dim}, 1)),
        key_(test::random_tensor<T>({at.batch_size, at.keys, at.kv_heads, at.dim}, 2)),
        out_({at.batch_size, at.rows, at.heads, at.dim}) {}

  template <class Rule>
  void run(Rule const& rule) {
    attention(view(query_, at_.rows, at_.heads), view(key_, at_.keys, at_.kv_heads), view(key_, at_.keys, at_.kv_heads),
              view(out_, at_.rows, at_.heads), rule, {.threads = 1});
  }
  template <class Rule>
  [[nodiscard]] std::size_t told(Rule const& rule) {
    const std::string text =
        explain(view(query_, at_.rows, at_.heads), view(key_, at_.keys, at_.kv_heads),
                view(key_, at_.keys, at_.kv_heads), view(out_, at_.rows, at_.heads), rule, {.threads = 1});
    const auto place = text.find("scratch: ");
    return place == std::string::npos ? 0 : std::strtoull(text.c_str() + place + 9, nullptr, 10);
  }

 private:
  tensor_view<T, 4> view(tensor<T, 4>& box, index_t rows, index_t heads) const {
    return at_.is_strided ? bshd(box.data(), at_.batch_size, rows, heads, at_.dim)
                          : bhsd(box.data(), at_.batch_size, heads, rows, at_.dim);
  }

  shape at_;
  tensor<T, 4> query_, key_, out_;
};

TEST(Memory, ASteadyStateTakesNothingFromTheHeap) {
  for_each_type([]<class T>(T) {
    for (shape const& at : shapes) {
      prepared<T> call(at);
      call.run(no_mask{});
      call.run(causal{});
      const long before = used.calls;
      call.run(no_mask{});
      call.run(causal{});
      EXPECT_EQ(used.calls, before) << at.rows << " x " << at.keys << " x " << at.dim;
    }
  });
}

TEST(Memory, AFreshThreadTakesTheScratchThatExplainTells) {
  for_each_type([]<class T>(T) {
    for (shape const& at : shapes) {
      prepared<T> call(at);
      const std::size_t told = call.told(causal{});
      std::size_t taken = 0;
      std::thread([&] {
        const std::size_t before = used.bytes;
        call.run(causal{});
        taken = used.bytes - before;
      }).join();
      EXPECT_EQ(taken, told) << at.rows << " x " << at.keys << " x " << at.dim;
    }
  });
}

TEST(Memory, ScratchIsBoundedWhateverTheLength) {
  constexpr std::size_t mebibyte = 1024 * 1024;
  for (index_t dim : {64, 128, 256, 512}) {
    for (index_t length : {1000, 30000}) {
      float* const nowhere = reinterpret_cast<float*>(64);  // a dry run reads nothing
      const auto boxes = [&](index_t heads, index_t place, bool is_strided) {
        float* const data = nowhere + place * (index_t{1} << 40);
        return is_strided ? bshd(data, 1, length, heads, dim) : bhsd(data, 1, heads, length, dim);
      };
      for (bool is_strided : {false, true}) {
        const std::string text = explain(boxes(16, 1, is_strided), boxes(4, 2, is_strided), boxes(4, 3, is_strided),
                                         boxes(16, 4, is_strided), {.threads = 1});
        const auto place = text.find("scratch: ");
        ASSERT_NE(place, std::string::npos);
        const std::size_t scratch = std::strtoull(text.c_str() + place + 9, nullptr, 10);
        const bool packs_once = text.find("packed once") != std::string::npos;
        EXPECT_LE(scratch, mebibyte + (packs_once ? 16 * mebibyte : 0)) << text;
      }
    }
  }
}

}  // namespace
