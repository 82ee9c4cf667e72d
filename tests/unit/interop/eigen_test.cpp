// as_view: the right addresses, strides and constness for every kind of Eigen object, and attention through them.
#include "heed/interop/eigen.hpp"

#include <gtest/gtest.h>

#include <Eigen/Core>
#include <cmath>
#include <cstring>
#include <type_traits>
#include <unsupported/Eigen/CXX11/Tensor>
#include <utility>
#include <vector>

#include "heed/attention.hpp"
#include "heed/mask/dense.hpp"

namespace {

using Eigen::Dynamic;
using heed::as_view;
using heed::index_t;
using heed::tensor_view;

template <class T>
using row_major = Eigen::Matrix<T, Dynamic, Dynamic, Eigen::RowMajor>;
template <class T>
using col_major = Eigen::Matrix<T, Dynamic, Dynamic, Eigen::ColMajor>;
template <class T, int Rank, int Layout>
using eigen_tensor = Eigen::Tensor<T, Rank, Layout>;

template <class Object, class T, std::size_t Rank>
constexpr bool gives = std::is_same_v<decltype(as_view(std::declval<Object>())), tensor_view<T, Rank>>;

// What owns its memory is const when the object is const.
static_assert(gives<Eigen::MatrixXf&, float, 2> && gives<Eigen::MatrixXf const&, float const, 2>);
static_assert(gives<Eigen::ArrayXXd&, double, 2> && gives<Eigen::ArrayXXd const&, double const, 2>);
static_assert(gives<Eigen::Matrix3f&, float, 2> && gives<Eigen::Matrix3f const&, float const, 2>);
static_assert(gives<Eigen::VectorXf&, float, 1> && gives<Eigen::RowVectorXf const&, float const, 1>);
static_assert(gives<Eigen::Array<bool, Dynamic, Dynamic> const&, bool const, 2>);
// What refers to memory is const when either the object or what it refers to is.
static_assert(gives<Eigen::Map<Eigen::MatrixXf>&, float, 2> && gives<Eigen::Map<Eigen::MatrixXf>, float, 2>);
static_assert(gives<Eigen::Map<Eigen::MatrixXf> const&, float const, 2>);
static_assert(gives<Eigen::Map<Eigen::MatrixXf const>, float const, 2>);
static_assert(gives<Eigen::Ref<Eigen::MatrixXf>&, float, 2> && gives<Eigen::Ref<Eigen::MatrixXf>, float, 2>);
static_assert(gives<Eigen::Ref<Eigen::MatrixXf> const&, float const, 2>);
static_assert(gives<Eigen::Ref<Eigen::MatrixXf const>&, float const, 2>);
static_assert(gives<Eigen::Ref<Eigen::MatrixXf const> const&, float const, 2>);
static_assert(gives<decltype(std::declval<Eigen::MatrixXf&>().block(0, 0, 1, 1)), float, 2>);
static_assert(gives<decltype(std::declval<Eigen::MatrixXf const&>().block(0, 0, 1, 1)), float const, 2>);
static_assert(gives<decltype(std::declval<Eigen::MatrixXf&>().topRows<2>()), float, 2>);
static_assert(gives<decltype(std::declval<Eigen::MatrixXf&>().row(0)), float, 1>);
static_assert(gives<decltype(std::declval<Eigen::MatrixXf const&>().col(0)), float const, 1>);
static_assert(gives<decltype(std::declval<Eigen::MatrixXf&>().transpose()), float, 2>);
static_assert(gives<decltype(std::declval<Eigen::MatrixXf const&>().transpose()), float const, 2>);
static_assert(gives<Eigen::Tensor<float, 4>&, float, 4> && gives<Eigen::Tensor<float, 4> const&, float const, 4>);
static_assert(gives<Eigen::TensorFixedSize<double, Eigen::Sizes<2, 3>>&, double, 2>);
static_assert(gives<Eigen::TensorMap<Eigen::Tensor<float, 3>>&, float, 3>);
static_assert(gives<Eigen::TensorMap<Eigen::Tensor<float, 3>>, float, 3>);
static_assert(gives<Eigen::TensorMap<Eigen::Tensor<float, 3>> const&, float const, 3>);
static_assert(gives<Eigen::TensorMap<Eigen::Tensor<float, 3> const>, float const, 3>);
static_assert(gives<Eigen::TensorMap<Eigen::Tensor<float const, 3>>&, float const, 3>);
// A vector seen as a matrix.
static_assert(std::is_same_v<decltype(as_view<2>(std::declval<Eigen::VectorXf&>())), tensor_view<float, 2>>);
// Elements.
static_assert(heed::element_kind_of<Eigen::half> == heed::element_kind::float16);
static_assert(heed::element_kind_of<Eigen::bfloat16 const> == heed::element_kind::bfloat16);
static_assert(heed::floating_element<Eigen::half> && heed::floating_element<Eigen::bfloat16>);

// Different numbers in every place.
template <class Object>
void count_up(Object&& object) {
  for (index_t i = 0; i < object.rows(); ++i) {
    for (index_t j = 0; j < object.cols(); ++j) {
      object(i, j) = static_cast<typename std::decay_t<Object>::Scalar>(10 * i + j);
    }
  }
}

template <class Object>
void expect_same_places(Object&& object) {
  const auto view = as_view<2>(object);
  ASSERT_EQ(view.extent(0), object.rows());
  ASSERT_EQ(view.extent(1), object.cols());
  for (index_t i = 0; i < object.rows(); ++i) {
    for (index_t j = 0; j < object.cols(); ++j) {
      EXPECT_EQ(&view(i, j), &object.coeffRef(i, j)) << "at (" << i << ", " << j << ")";
    }
  }
}

TEST(AsView, SeesMatricesAndArraysOfBothOrders) {
  row_major<float> rows(3, 5);
  expect_same_places(rows);
  EXPECT_EQ(as_view(rows).stride(0), 5);
  EXPECT_EQ(as_view(rows).stride(1), 1);
  col_major<double> columns(3, 5);
  expect_same_places(columns);
  EXPECT_EQ(as_view(columns).stride(0), 1);
  EXPECT_EQ(as_view(columns).stride(1), 3);
  Eigen::Matrix<float, 2, 7, Eigen::RowMajor> fixed;
  expect_same_places(fixed);
  Eigen::Array<int, 4, Dynamic> half_fixed(4, 3);
  expect_same_places(half_fixed);
  Eigen::ArrayXXf array(2, 2);
  expect_same_places(array);
}

TEST(AsView, SeesMapsWithAnyStride) {
  std::vector<float> memory(200);
  expect_same_places(Eigen::Map<col_major<float>>(memory.data(), 3, 4));
  using any = Eigen::Stride<Dynamic, Dynamic>;
  Eigen::Map<col_major<float>, 0, any> columns(memory.data(), 3, 4, any(30, 2));
  expect_same_places(columns);
  EXPECT_EQ(as_view(columns).stride(0), 2);
  EXPECT_EQ(as_view(columns).stride(1), 30);
  Eigen::Map<row_major<float>, 0, any> rows(memory.data(), 3, 4, any(30, 2));
  expect_same_places(rows);
  EXPECT_EQ(as_view(rows).stride(0), 30);
  Eigen::Map<row_major<float>, 0, Eigen::OuterStride<>> outer(memory.data(), 3, 4, Eigen::OuterStride<>(9));
  expect_same_places(outer);
  Eigen::Map<row_major<float>, 0, Eigen::OuterStride<>> repeated(memory.data(), 3, 4, Eigen::OuterStride<>(0));
  expect_same_places(repeated);
  EXPECT_EQ(as_view(repeated).stride(0), 0);
  Eigen::Map<Eigen::VectorXf, 0, Eigen::InnerStride<3>> vector(memory.data(), 5);
  EXPECT_EQ(as_view(vector).stride(0), 3);
  EXPECT_EQ(as_view(vector).extent(0), 5);
  expect_same_places(vector);
}

TEST(AsView, SeesBlocksRefsAndTransposes) {
  col_major<float> columns(6, 7);
  row_major<float> rows(6, 7);
  expect_same_places(columns.block(1, 2, 3, 4));
  expect_same_places(rows.block(1, 2, 3, 4));
  expect_same_places(rows.bottomRows<2>());
  expect_same_places(columns.transpose());
  expect_same_places(rows.block(1, 2, 3, 4).transpose());
  expect_same_places(columns.transpose().middleCols(2, 2));
  expect_same_places(rows.array());
  expect_same_places(columns(Eigen::seq(1, 3), Eigen::all));
  Eigen::Ref<row_major<float>> ref(rows);
  expect_same_places(ref);
  Eigen::Ref<row_major<float>, 0, Eigen::Stride<Dynamic, Dynamic>> strided(columns.transpose());
  expect_same_places(strided);
  Eigen::Ref<row_major<float> const> reference(rows.topRows(2));
  EXPECT_EQ(as_view(reference).data(), rows.data());
  EXPECT_EQ(as_view(reference).stride(0), 7);
}

TEST(AsView, SeesVectorsAsRankOne) {
  row_major<float> rows(4, 5);
  count_up(rows);
  const auto row = as_view(rows.row(2));
  const auto column = as_view(rows.col(3));
  const auto diagonal = as_view(rows.diagonal());
  EXPECT_EQ(row.extent(0), 5);
  EXPECT_EQ(row.stride(0), 1);
  EXPECT_EQ(row(4), 24.0f);
  EXPECT_EQ(column.extent(0), 4);
  EXPECT_EQ(column.stride(0), 5);
  EXPECT_EQ(column(1), 13.0f);
  EXPECT_EQ(diagonal(2), 22.0f);
  const auto one_row = as_view<2>(rows.row(2));
  EXPECT_EQ(one_row.extent(0), 1);
  EXPECT_EQ(one_row.extent(1), 5);
  EXPECT_EQ(one_row(0, 4), 24.0f);
  const auto one_column = as_view<2>(rows.col(3));
  EXPECT_EQ(one_column.extent(1), 1);
  EXPECT_EQ(one_column(3, 0), 33.0f);
}

TEST(AsView, OfAnEmptyMatrixIsEmpty) {
  Eigen::MatrixXf none;
  EXPECT_EQ(as_view(none).size(), 0);
  Eigen::MatrixXf no_rows(0, 4);
  EXPECT_EQ(as_view(no_rows).extent(1), 4);
}

template <int Layout>
void check_tensors() {
  eigen_tensor<float, 1, Layout> one(7);
  eigen_tensor<float, 2, Layout> two(7, 3);
  eigen_tensor<double, 3, Layout> three(2, 5, 3);
  eigen_tensor<float, 4, Layout> four(2, 3, 4, 5);
  for (index_t i = 0; i < 7; ++i) EXPECT_EQ(&as_view(one)(i), &one(i));
  for (index_t i = 0; i < 7; ++i) EXPECT_EQ(&as_view(two)(i, 2), &two(i, 2));
  for (index_t i = 0; i < 5; ++i) EXPECT_EQ(&as_view(three)(1, i, 2), &three(1, i, 2));
  const auto view = as_view(four);
  for (index_t b = 0; b < 2; ++b) {
    for (index_t h = 0; h < 3; ++h) {
      for (index_t s = 0; s < 4; ++s) {
        for (index_t d = 0; d < 5; ++d) EXPECT_EQ(&view(b, h, s, d), &four(b, h, s, d));
      }
    }
  }
  Eigen::TensorMap<eigen_tensor<float, 3, Layout>> map(four.data(), 6, 4, 5);
  EXPECT_EQ(&as_view(map)(5, 2, 1), &map(5, 2, 1));
  Eigen::TensorFixedSize<float, Eigen::Sizes<2, 3>, Layout> fixed;
  EXPECT_EQ(&as_view(fixed)(1, 1), &fixed(1, 1));
  EXPECT_EQ(as_view(fixed).extent(1), 3);
}

TEST(AsView, SeesColumnMajorTensors) { check_tensors<Eigen::ColMajor>(); }
TEST(AsView, SeesRowMajorTensors) { check_tensors<Eigen::RowMajor>(); }

// Attention as Eigen writes it, in double.
template <class Query, class Key, class Value>
Eigen::MatrixXd products(Query const& query, Key const& key, Value const& value,
                         Eigen::Array<bool, Dynamic, Dynamic> const& keep, Eigen::VectorXd* lse = nullptr) {
  const double scale = 1.0 / std::sqrt(static_cast<double>(query.cols()));
  const Eigen::MatrixXd score = scale * (query.template cast<double>() * key.template cast<double>().transpose());
  const Eigen::ArrayXXd weight = keep.select(score.array().exp(), Eigen::ArrayXXd::Zero(score.rows(), score.cols()));
  const Eigen::VectorXd sum = weight.rowwise().sum();
  if (lse != nullptr) *lse = sum.array().log();
  return sum.cwiseInverse().asDiagonal() * (weight.matrix() * value.template cast<double>());
}

Eigen::Array<bool, Dynamic, Dynamic> all_visible(index_t rows, index_t keys) {
  return Eigen::Array<bool, Dynamic, Dynamic>::Constant(rows, keys, true);
}

TEST(AttentionThroughEigen, TakesEveryOrderAndStride) {
  const col_major<float> query = Eigen::MatrixXf::Random(19, 24);
  const row_major<float> wide = Eigen::MatrixXf::Random(30, 100);
  const auto key = wide.block(3, 5, 23, 24);
  const Eigen::Map<row_major<float> const, 0, Eigen::Stride<Dynamic, Dynamic>> value(
      wide.data(), 23, 11, Eigen::Stride<Dynamic, Dynamic>(100, 3));
  const Eigen::MatrixXd right = products(query, key, value, all_visible(19, 23));

  row_major<float> out(19, 11);
  heed::attention(as_view(query), as_view(key), as_view(value), as_view(out));
  EXPECT_LT((out.cast<double>() - right).cwiseAbs().maxCoeff(), 2e-6);

  // A block of a larger matrix, transposed: what lies around it stays.
  col_major<float> large = col_major<float>::Constant(15, 23, 7.0f);
  heed::attention(as_view(query), as_view(key), as_view(value), as_view(large.block(2, 1, 11, 19).transpose()));
  EXPECT_LT((large.block(2, 1, 11, 19).transpose().cast<double>() - right).cwiseAbs().maxCoeff(), 2e-6);
  large.block(2, 1, 11, 19).setConstant(7.0f);
  EXPECT_TRUE((large.array() == 7.0f).all());
}

TEST(AttentionThroughEigen, InDoubleWithAMaskAndLse) {
  const Eigen::MatrixXd query = Eigen::MatrixXd::Random(6, 5);
  const Eigen::MatrixXd key = Eigen::MatrixXd::Random(9, 5);
  const Eigen::MatrixXd value = Eigen::MatrixXd::Random(9, 4);
  Eigen::Array<bool, Dynamic, Dynamic> keep = Eigen::ArrayXXd::Random(6, 9) > -0.3;
  keep.col(0).setConstant(true);
  Eigen::VectorXd right_lse(6);
  const Eigen::MatrixXd right = products(query, key, value, keep, &right_lse);
  ASSERT_GT((right - products(query, key, value, all_visible(6, 9))).cwiseAbs().maxCoeff(), 0.01);

  Eigen::MatrixXd out(6, 4);
  Eigen::VectorXd lse(6);
  heed::attention(as_view(query), as_view(key), as_view(value), heed::into(as_view(out)).lse(as_view(lse)),
                  heed::keep_mask(as_view(keep)));
  EXPECT_LT((out - right).cwiseAbs().maxCoeff(), 1e-14);
  EXPECT_LT((lse - right_lse).cwiseAbs().maxCoeff(), 1e-14);

  const Eigen::Array<bool, Dynamic, Dynamic> drop = !keep;
  Eigen::MatrixXd again(6, 4);
  heed::attention(as_view(query), as_view(key), as_view(value), as_view(again), heed::drop_mask(as_view(drop)));
  EXPECT_EQ(again, out);
}

TEST(AttentionThroughEigen, TakesOneRowAsAQuery) {
  const Eigen::MatrixXf query = Eigen::MatrixXf::Random(4, 8);
  const Eigen::MatrixXf key = Eigen::MatrixXf::Random(10, 8);
  const Eigen::MatrixXd right = products(query, key, key, all_visible(4, 10));
  Eigen::MatrixXf out = Eigen::MatrixXf::Zero(4, 8);
  heed::attention(as_view<2>(query.row(2)), as_view(key), as_view(key), as_view<2>(out.row(1)));
  EXPECT_LT((out.row(1).cast<double>() - right.row(2)).cwiseAbs().maxCoeff(), 2e-6);
  EXPECT_TRUE((out.row(0).array() == 0.0f).all() && (out.row(2).array() == 0.0f).all());
}

// The same bits in Eigen's two-byte types and in ours: the same answer, bit by bit.
template <class Theirs, class Ours>
void check_two_byte_type(double epsilon) {
  const row_major<Theirs> query = Eigen::MatrixXf::Random(17, 16).cast<Theirs>();
  const row_major<Theirs> key = Eigen::MatrixXf::Random(21, 16).cast<Theirs>();
  const row_major<Theirs> value = Eigen::MatrixXf::Random(21, 16).cast<Theirs>();
  const Eigen::MatrixXd right = products(query.template cast<float>(), key.template cast<float>(),
                                         value.template cast<float>(), all_visible(17, 21));
  row_major<Theirs> out(17, 16);
  heed::attention(as_view(query), as_view(key), as_view(value), as_view(out));
  EXPECT_LT((out.template cast<float>().template cast<double>() - right).cwiseAbs().maxCoeff(), epsilon);

  const auto copy = [](row_major<Theirs> const& from) {
    heed::tensor<Ours, 2> to({from.rows(), from.cols()});
    std::memcpy(static_cast<void*>(to.data()), from.data(), static_cast<std::size_t>(from.size()) * sizeof(Ours));
    return to;
  };
  heed::tensor<Ours, 2> ours({17, 16});
  heed::attention(copy(query), copy(key), copy(value), ours);
  EXPECT_EQ(std::memcmp(ours.data(), out.data(), static_cast<std::size_t>(out.size()) * sizeof(Ours)), 0);

  const auto allocated = heed::attention(as_view(query), as_view(key), as_view(value));
  static_assert(std::is_same_v<decltype(allocated), heed::tensor<Theirs, 4> const>);
  EXPECT_EQ(std::memcmp(allocated.data(), out.data(), static_cast<std::size_t>(out.size()) * sizeof(Theirs)), 0);
}

TEST(AttentionThroughEigen, TakesHalf) { check_two_byte_type<Eigen::half, heed::half>(0x1p-11); }
TEST(AttentionThroughEigen, TakesBfloat16) { check_two_byte_type<Eigen::bfloat16, heed::bfloat16>(0x1p-8); }

template <int Layout>
void check_tensor_attention() {
  eigen_tensor<float, 4, Layout> query(2, 4, 6, 8), key(2, 2, 9, 8), value(2, 2, 9, 3), out(2, 4, 6, 3);
  eigen_tensor<float, 3, Layout> lse(2, 4, 6);
  query.setRandom();
  key.setRandom();
  value.setRandom();
  heed::attention(as_view(query), as_view(key), as_view(value), heed::into(as_view(out)).lse(as_view(lse)));
  const auto head = [](auto const& tensor, index_t b, index_t h) {
    Eigen::MatrixXf matrix(tensor.dimension(2), tensor.dimension(3));
    for (index_t i = 0; i < matrix.rows(); ++i) {
      for (index_t j = 0; j < matrix.cols(); ++j) matrix(i, j) = tensor(b, h, i, j);
    }
    return matrix;
  };
  for (index_t b = 0; b < 2; ++b) {
    for (index_t h = 0; h < 4; ++h) {
      Eigen::VectorXd right_lse(6);
      const Eigen::MatrixXd right =
          products(head(query, b, h), head(key, b, h / 2), head(value, b, h / 2), all_visible(6, 9), &right_lse);
      EXPECT_LT((head(out, b, h).template cast<double>() - right).cwiseAbs().maxCoeff(), 2e-6);
      for (index_t i = 0; i < 6; ++i) EXPECT_NEAR(lse(b, h, i), right_lse(i), 2e-6);
    }
  }
}

TEST(AttentionThroughEigen, TakesColumnMajorTensors) { check_tensor_attention<Eigen::ColMajor>(); }
TEST(AttentionThroughEigen, TakesRowMajorTensors) { check_tensor_attention<Eigen::RowMajor>(); }

}  // namespace
