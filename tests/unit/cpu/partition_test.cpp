// How a call is cut into pieces of work: every row of every head in one of them, at the bounds of tiles; and of whole
// calls, the pieces that an account of it tile by tile arrives at.
#include "heed/cpu/partition.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "heed/cpu/forward.hpp"
#include "support/expected_pieces.hpp"

namespace {

using heed::block;
using heed::index_t;
using heed::detail::ceil_div;
using heed::detail::for_each_wave;
using heed::detail::partition;
using heed::detail::piece_list;
using heed::detail::problem;
using heed::detail::rule_view;
using heed::detail::work_part;

struct shape {
  index_t batch, heads, kv_heads, rows;
};

problem problem_of(shape const& of) {
  problem call;
  call.batch_size = of.batch;
  call.num_heads = of.heads;
  call.num_kv_heads = of.kv_heads;
  call.group_size = of.heads / of.kv_heads;
  call.seq_len_q = of.rows;
  return call;
}

/// Shows everything; rows are treated alike unless there is a border at each `rule`th of them.
rule_view rule_of(index_t const* border = nullptr) {
  static constexpr auto answers = [](bool has_borders) {
    heed::detail::rule_answers all{};
    all.narrow = [](void const*, index_t, heed::sequence&) {};
    all.visible_keys = [](void const*, block const& area) { return heed::key_range{area.key_begin, area.key_end}; };
    all.start_of = [](void const*, index_t) { return heed::detail::row_start{}; };
    all.next_border = [](void const* every, block const& area) {
      const index_t step = *static_cast<index_t const*>(every);
      return std::min((area.query_begin / step + 1) * step, area.query_end);
    };
    all.has_borders = has_borders;
    return all;
  };
  static constexpr heed::detail::rule_answers plain = answers(false), cut = answers(true);
  return {border, border == nullptr ? &plain : &cut};
}

index_t tiles_of(work_part const& part, int lanes, rule_view const& rule) {
  index_t tiles = 0;
  const block rows{part.batch, part.head_begin, part.row_begin, part.row_end, 0, 1, 0};
  cut_tiles(rule, rows, lanes, [&](block const&, int vectors) {
    EXPECT_TRUE(vectors >= 1 && vectors <= 3);
    ++tiles;
  });
  return tiles;
}

/// Counts in which pieces each row is, wave by wave.
class coverage {
 public:
  coverage(problem const& call, partition const& cut, int lanes)
      : call_(call),
        cut_(cut),
        lanes_(lanes),
        taken_(static_cast<std::size_t>(call.batch_size * call.num_heads * call.seq_len_q)) {}

  void run() {
    const index_t kv_heads = call_.batch_size * call_.num_kv_heads;
    index_t next_head = 0;
    for_each_wave(call_, cut_, lanes_, [&](index_t first_head, piece_list const& pieces) {
      EXPECT_EQ(first_head, next_head);
      next_head = std::min(kv_heads, first_head + cut_.heads_per_wave);
      expect_wave(pieces, first_head, next_head);
    });
    EXPECT_EQ(next_head, kv_heads);
    EXPECT_TRUE(std::all_of(taken_.begin(), taken_.end(), [](int times) { return times == 1; }));
  }

 private:
  void expect_wave(piece_list const& pieces, index_t first_head, index_t end_head) {
    index_t left = (end_head - first_head) * cut_.groups_per_kv_head * cut_.tiles;
    const index_t alone = (cut_.threads - 1) * cut_.tiles_per_piece;
    for (index_t number = 0; number < pieces.count(); ++number) {
      const work_part part = pieces[number];
      expect_bounds(part, first_head, end_head);
      const index_t tiles = tiles_of(part, lanes_, rule_of());
      EXPECT_LE(tiles, cut_.tiles_per_piece);
      // The last tiles of a wave that threads share are taken one by one, and no more of them than it takes.
      EXPECT_TRUE(tiles == 1 || left > alone);
      EXPECT_TRUE(tiles == cut_.tiles_per_piece || part.row_begin == 0 || left < alone + cut_.tiles_per_piece);
      left -= tiles;
      // With the last rows of a group the work on it begins, and goes on towards the first ones.
      if (previous_.row_begin != 0) {
        EXPECT_EQ(part.row_end, previous_.row_begin);
        EXPECT_EQ(part.head_begin, previous_.head_begin);
      } else {
        EXPECT_EQ(part.row_end, call_.seq_len_q);
      }
      previous_ = part;
      count(part);
    }
    EXPECT_EQ(left, 0);
    EXPECT_EQ(previous_.row_begin, 0);
  }

  void expect_bounds(work_part const& part, index_t first_head, index_t end_head) const {
    const index_t head = part.batch * call_.num_kv_heads + part.kv_head;
    EXPECT_TRUE(head >= first_head && head < end_head);
    EXPECT_GE(part.head_begin, part.kv_head * call_.group_size);
    EXPECT_LE(part.head_end, (part.kv_head + 1) * call_.group_size);
    EXPECT_LT(part.head_begin, part.head_end);
    EXPECT_LE(part.head_end - part.head_begin, cut_.heads_per_group);
    EXPECT_LT(part.row_begin, part.row_end);
    EXPECT_EQ(part.row_begin % lanes_, 0);
    EXPECT_TRUE(part.row_end % lanes_ == 0 || part.row_end == call_.seq_len_q);
    // No tile is of one vector if a head has more of them.
    EXPECT_GE(ceil_div(part.row_end - part.row_begin, lanes_), std::min<index_t>(2, cut_.vectors));
  }

  void count(work_part const& part) {
    ASSERT_TRUE(part.batch < call_.batch_size && part.head_end <= call_.num_heads && part.row_end <= call_.seq_len_q);
    for (index_t head = part.head_begin; head < part.head_end; ++head) {
      const auto first = taken_.begin() + (part.batch * call_.num_heads + head) * call_.seq_len_q;
      std::for_each(first + part.row_begin, first + part.row_end, [](int& times) { ++times; });
    }
  }

  problem const& call_;
  partition const& cut_;
  int lanes_;
  std::vector<int> taken_;
  work_part previous_{};
};

constexpr shape head_counts[] = {{1, 1, 1, 0}, {1, 4, 2, 0}, {2, 5, 1, 0}, {1, 3, 3, 0}, {3, 6, 2, 0}};
constexpr index_t row_counts[] = {1, 3, 7, 17, 59, 65, 97, 129, 1025};

TEST(PieceList, HasEveryRowOnce) {
  for (shape of : head_counts) {
    for (const index_t rows : row_counts) {
      of.rows = rows;
      const problem call = problem_of(of);
      const index_t kv_heads = of.batch * of.kv_heads;
      for (const int lanes : {2, 16}) {
        for (const int threads : {1, 2, 3, 7, 16, 64}) {
          for (const index_t together : {1, 2, 3, 8}) {
            for (const index_t heads_per_wave : {index_t{1}, index_t{2}, kv_heads}) {
              partition cut;
              cut.heads_per_group = std::min(call.group_size, 1 + together % 3);
              cut.groups_per_kv_head = ceil_div(call.group_size, cut.heads_per_group);
              cut.vectors = ceil_div(rows, lanes);
              cut.tiles = ceil_div(cut.vectors, 3);
              cut.tiles_per_piece = std::min(cut.tiles, together);
              cut.threads = threads;
              cut.heads_per_wave = std::min(heads_per_wave, kv_heads);
              coverage(call, cut, lanes).run();
              ASSERT_FALSE(testing::Test::HasFailure())
                  << "B " << of.batch << " H " << of.heads << "/" << of.kv_heads << " S " << rows << " lanes " << lanes
                  << " threads " << threads << " tiles " << together << " heads of a wave " << heads_per_wave;
            }
          }
        }
      }
    }
  }
}

// Nothing is multiplied that 64 bits do not hold.
TEST(PieceList, OfMoreRowsThanThereIsMemoryFor) {
  constexpr index_t lanes = 4, rows = INT64_MAX / 8;
  const problem call = problem_of({1, 1, 1, rows});
  partition cut;
  cut.vectors = ceil_div(rows, lanes);
  cut.tiles = ceil_div(cut.vectors, 3);
  cut.tiles_per_piece = 4;
  cut.threads = 16;
  cut.heads_per_wave = 1;
  const piece_list pieces(call, cut, lanes, 0, 1);
  work_part before = pieces[0];
  EXPECT_EQ(before.row_end, rows);
  for (const index_t number : {index_t{1}, pieces.count() / 2, pieces.count() - 1}) {
    const work_part part = pieces[number];
    before = pieces[number - 1];
    EXPECT_EQ(part.row_end, before.row_begin) << number;
    EXPECT_LT(part.row_begin, part.row_end) << number;
  }
  EXPECT_EQ(pieces[pieces.count() - 1].row_begin, 0);
}

/// A call of [B, H, S, D] operands; nothing of them is read.
template <class Real>
struct whole_call {
  problem call;
  heed::element_kind kind = heed::element_kind_of<Real>;

  whole_call(shape const& of, index_t keys, index_t dim, int threads, bool is_narrow) : call(problem_of(of)) {
    if (is_narrow) kind = heed::element_kind::float16;
    call.seq_len_kv = keys;
    call.head_dim_qk = call.head_dim_v = dim;
    call.options.threads = threads;
    call.query = call.out = operand({of.batch, of.heads, of.rows, dim});
    call.key = call.value = operand({of.batch, of.kv_heads, keys, dim});
  }
  void add_weights() { call.weights = operand({call.batch_size, call.num_heads, call.seq_len_q, call.seq_len_kv}); }

  [[nodiscard]] partition cut() const {
    double flops = 0;
    return heed::detail::partition_of(kernel(), &flops);
  }
  [[nodiscard]] heed::detail::kernel<Real> kernel() const {
    return heed::detail::kernel_of<Real>(call, rule_of(), {}, heed::detail::verbs_of<Real, false>(false));
  }
  [[nodiscard]] heed::test::cut_facts facts(int threads) const {
    const index_t bytes = call.seq_len_kv * call.head_dim_v * static_cast<index_t>(sizeof(Real));
    const bool packs = kind != heed::element_kind_of<Real>;
    return {call.batch_size,
            call.num_kv_heads,
            call.group_size,
            call.seq_len_q,
            call.seq_len_kv,
            2 * call.head_dim_v,
            kernel().verb.lanes,
            static_cast<index_t>(sizeof(Real)),
            threads,
            call.weights.given(),
            bytes,
            bytes,
            packs,
            packs};
  }

 private:
  [[nodiscard]] heed::detail::operand operand(heed::axes<4> const& extents) const {
    heed::detail::operand box;
    box.kind = kind;
    box.rank = 4;
    index_t stride = 1;
    for (int axis = 3; axis >= 0; --axis) {
      box.extents[axis] = extents[static_cast<std::size_t>(axis)];
      box.strides[axis] = stride;
      stride *= box.extents[axis];
    }
    return box;
  }
};

template <class Real>
void expect_the_account(whole_call<Real> const& given, int threads) {
  const partition cut = given.cut();
  const int lanes = given.kernel().verb.lanes;
  EXPECT_GE(cut.threads, 1);
  EXPECT_LE(cut.threads, threads);
  const heed::test::expected_cut expected(given.facts(cut.threads));
  const bool packs = given.kind != heed::element_kind_of<Real> && expected.packs_once();
  EXPECT_EQ(cut.packs_waves, packs);
  EXPECT_EQ(cut.key == heed::detail::placement::packed_once, packs);
  const std::vector<heed::test::head_rows> pieces = expected.pieces();
  std::size_t place = 0;
  for_each_wave(given.call, cut, lanes, [&](index_t, piece_list const& list) {
    for (index_t number = 0; number < list.count(); ++number) {
      const work_part part = list[number];
      for (index_t head = part.head_begin; head < part.head_end; ++head, ++place) {
        ASSERT_LT(place, pieces.size());
        heed::test::head_rows const& right = pieces[place];
        ASSERT_TRUE(part.batch == right.batch && head == right.head && part.row_begin == right.begin &&
                    part.row_end == right.end)
            << "rows " << part.row_begin << " to " << part.row_end << " of head " << head << ", must be " << right.begin
            << " to " << right.end << " of " << right.head;
      }
    }
  });
  EXPECT_EQ(place, pieces.size());
}

template <class Real>
void expect_the_account_of(shape const& of, index_t keys, index_t dim, int threads) {
  for (const bool is_narrow : {false, true}) {
    for (const bool with_weights : {false, true}) {
      whole_call<Real> given(of, keys, dim, threads, is_narrow);
      if (with_weights) given.add_weights();
      expect_the_account(given, threads);
      ASSERT_FALSE(testing::Test::HasFailure())
          << "B " << of.batch << " H " << of.heads << "/" << of.kv_heads << " S " << of.rows << "x" << keys << " D "
          << dim << " threads " << threads << (is_narrow ? " narrow" : "") << (with_weights ? " weights" : "");
    }
  }
}

TEST(PartitionOf, IsTheAccountTileByTile) {
  for (shape of : head_counts) {
    for (const index_t rows : row_counts) {
      of.rows = rows;
      for (const int threads : {1, 2, 3, 7, 16, 64}) {
        for (const index_t dim : {8, 80, 700}) {
          for (const index_t keys : {1, 1000, 9000}) {
            expect_the_account_of<float>(of, keys, dim, threads);
            expect_the_account_of<double>(of, keys, dim, threads);
          }
        }
      }
    }
  }
}

// Of 8 MiB each: two heads to a wave where threads share it.
TEST(PartitionOf, WavesHoldWhatIsPackedOnce) {
  const shape of{1, 10, 5, 1000};
  EXPECT_EQ(whole_call<float>(of, 8192, 128, 1, true).cut().heads_per_wave, 1);
  EXPECT_EQ(whole_call<float>(of, 8192, 128, 4, true).cut().heads_per_wave, 2);
  EXPECT_EQ(whole_call<float>(of, 8192, 128, 4, false).cut().heads_per_wave, 5);
  EXPECT_EQ(whole_call<float>(of, 8192, 128, 1, false).cut().heads_per_wave, 5);
  for (const int threads : {1, 2, 3, 7}) {
    expect_the_account_of<float>(of, 8192, 128, threads);
    expect_the_account_of<double>(of, 8192, 128, threads);
  }
}

TEST(PartitionOf, PiecesHaveRoomForWhatBordersMakeOfThem) {
  for (const index_t rows : row_counts) {
    for (const int threads : {1, 3, 16}) {
      whole_call<float> given({1, 4, 2, rows}, 2000, 64, threads, false);
      const int lanes = given.kernel().verb.lanes;
      const partition cut = given.cut();
      const index_t most = heed::detail::most_vectors(3 * cut.tiles_per_piece);
      for (const index_t border : {index_t{1}, index_t{lanes}, index_t{2} * lanes, index_t{2} * lanes + 1}) {
        for_each_wave(given.call, cut, lanes, [&](index_t, piece_list const& pieces) {
          for (index_t number = 0; number < pieces.count(); ++number) {
            EXPECT_LE(tiles_of(pieces[number], lanes, rule_of(&border)), most) << rows << " rows, border " << border;
          }
        });
      }
    }
  }
}

}  // namespace
