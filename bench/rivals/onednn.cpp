// For oneDNN 2, Debian's libdnnl-dev.
#include "bench/rivals/onednn.hpp"

#include <cmath>
#include <memory>
#include <stdexcept>
#include <vector>

#include "oneapi/dnnl/dnnl.hpp"

namespace bench {
namespace {

using dnnl::memory;

/// All heads at once where their scores stay in the caches, else some rows of one head at a time.
class attention {
 public:
  explicit attention(head_block const& on)
      : on_(on),
        rows_(on.rows <= 512 ? on.rows : 256),
        batch_(on.rows <= 512 ? on.heads : 1),
        query_(box(rows_, on.dim)),
        key_({{batch_, on.dim, on.rows}, type, memory::dims{on.rows * on.dim, 1, on.dim}}, engine_, nullptr),
        value_(box(on.rows, on.dim)),
        out_(box(rows_, on.dim)),
        scores_({{batch_, rows_, on.rows}, type, memory::format_tag::abc}, engine_) {
    if (on.rows % rows_ != 0) throw std::invalid_argument("oneDNN: rows must be a multiple of 256");
    dnnl::primitive_attr scaled;
    scaled.set_output_scales(0, {1 / std::sqrt(static_cast<float>(on.dim))});
    score_ = dnnl::matmul({{query_.get_desc(), key_.get_desc(), scores_.get_desc()}, scaled, engine_});
    soften_ = dnnl::softmax_forward({{dnnl::prop_kind::forward_inference, scores_.get_desc(), 2}, engine_});
    weigh_ = dnnl::matmul({{scores_.get_desc(), value_.get_desc(), out_.get_desc()}, engine_});
  }

  void run() {
    for (memory::dim head = 0; head < on_.heads; head += batch_) {
      const memory::dim begin = head * on_.rows * on_.dim;
      set(key_, on_.key + begin);
      set(value_, on_.value + begin);
      for (memory::dim row = 0; row < on_.rows; row += rows_) {
        set(query_, on_.query + begin + row * on_.dim);
        out_.set_data_handle(on_.out + begin + row * on_.dim);
        score_.execute(stream_, {{DNNL_ARG_SRC, query_}, {DNNL_ARG_WEIGHTS, key_}, {DNNL_ARG_DST, scores_}});
        soften_.execute(stream_, {{DNNL_ARG_SRC, scores_}, {DNNL_ARG_DST, scores_}});
        weigh_.execute(stream_, {{DNNL_ARG_SRC, scores_}, {DNNL_ARG_WEIGHTS, value_}, {DNNL_ARG_DST, out_}});
      }
    }
    stream_.wait();
  }

 private:
  static constexpr auto type = memory::data_type::f32;

  memory box(memory::dim rows, memory::dim columns) const {
    return {{{batch_, rows, columns}, type, memory::format_tag::abc}, engine_, nullptr};
  }
  // oneDNN has no constant memory, but does not write to a source.
  static void set(memory& where, float const* data) { where.set_data_handle(const_cast<float*>(data)); }

  head_block on_;
  dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream_{engine_};
  memory::dim rows_, batch_;
  memory query_, key_, value_, out_, scores_;
  dnnl::matmul score_, weigh_;
  dnnl::softmax_forward soften_;
};

}  // namespace

std::function<void()> onednn_attention(head_block const& on) {
  return [one = std::make_shared<attention>(on)] { one->run(); };
}

}  // namespace bench
