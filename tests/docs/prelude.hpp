// What the C++ fragments of the README files take for granted: operands, outputs and lists with the names they use.
#pragma once

#include <cstdio>
#include <heed/heed.hpp>
#include <string>
#include <vector>

inline heed::tensor<float, 4> q({2, 8, 5, 64}), k({2, 2, 7, 64}), v({2, 2, 7, 64}), o({2, 8, 5, 64});
inline heed::tensor<float, 4>&query = q, &key = k, &value = v, &out = o;
inline heed::tensor<float, 3> lse({2, 8, 5});
inline heed::tensor<float, 4> weights({2, 8, 5, 7});
inline heed::tensor<float, 4> out1({2, 8, 5, 64}), out2({2, 8, 5, 64}), scores({2, 8, 5, 7});
inline heed::tensor<float, 3> lse1({2, 8, 5}), lse2({2, 8, 5});
inline heed::tensor<float, 4> d_out({2, 8, 5, 64}), dq({2, 8, 5, 64}), dk({2, 2, 7, 64}), dv({2, 2, 7, 64});
inline heed::tensor<float, 4> d_scores({2, 8, 5, 7});
inline heed::tensor<float, 3> d_lse({2, 8, 5});
inline heed::tensor<float, 2> table({32, 8}), d_table({32, 8});
inline heed::tensor<bool, 2> map({1, 1});
inline std::vector<float> slopes(8), logits(8);
inline heed::tensor<bool, 2> mask({5, 7}), keep({5, 7}), drop({5, 7});
inline std::vector<heed::index_t> key_lengths{7, 3}, query_lengths{5, 2}, offsets{2, 2};
inline std::vector<heed::index_t> ids{0, 0, 0, 1, 1, 1, 1}, prompt_lengths{3, 5};
