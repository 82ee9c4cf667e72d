// .npy: what NumPy wrote is read, what is written NumPy would read, and every conversion rounds at most once.
#include "heed/interop/npy.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <string>
#include <vector>

namespace {

using heed::index_t;
using heed::npy_array;
using heed::npy_type;
using heed::npy_version;

const std::string numpy_files = std::string(HEED_TEST_DATA_DIR) + "/npy/";

std::vector<unsigned char> bytes_of(std::string const& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// A folder that is gone with the test.
class folder {
 public:
  folder() {
    std::string name = (std::filesystem::temp_directory_path() / "heed-npy-XXXXXX").string();
    path_ = ::mkdtemp(name.data());
  }
  ~folder() { std::filesystem::remove_all(path_); }
  std::string file(std::string const& name) const { return (path_ / name).string(); }
  std::ptrdiff_t files() const { return std::distance(std::filesystem::directory_iterator(path_), {}); }

 private:
  std::filesystem::path path_;
};

template <class F>
heed::errc code_of(F const& f) {
  try {
    f();
  } catch (heed::error const& error) {
    return error.code();
  }
  return heed::errc::ok;
}

template <class F>
std::string text_of(F const& f) {
  try {
    f();
  } catch (heed::error const& error) {
    return error.what();
  }
  return "no error";
}

// The value that make.py gave to element `i`.
template <class T>
T made(index_t i) {
  if constexpr (std::is_same_v<T, bool>) return i % 3 == 0;
  if constexpr (std::is_same_v<T, std::uint8_t>) return static_cast<std::uint8_t>(i * 11);
  if constexpr (std::is_same_v<T, std::int32_t>) return static_cast<std::int32_t>((i - 5) * 100000000);
  if constexpr (std::is_same_v<T, std::int64_t>) return (i - 5) * 400000000000000000;
  return static_cast<T>(static_cast<double>(i - 5) / 4);
}

template <class T>
class NpyOf : public testing::Test {};
using element_types = testing::Types<heed::half, float, double, std::int32_t, std::int64_t, std::uint8_t, bool>;
TYPED_TEST_SUITE(NpyOf, element_types);

template <class T>
constexpr bool one_byte = sizeof(T) == 1;

TYPED_TEST(NpyOf, ReadsWhatNumPyWrote) {
  const std::string code = heed::detail::npy_code(heed::detail::npy_type_of<TypeParam>());
  for (std::string order : {"_little", "_big"}) {
    if (order == "_big" && one_byte<TypeParam>) continue;
    for (std::string layout : {"_c", "_fortran"}) {
      const std::string path = numpy_files + code + order + layout + ".npy";
      SCOPED_TRACE(path);
      const npy_array array = heed::load_npy(path);
      EXPECT_EQ(array.code(), code);
      EXPECT_EQ(array.shape, (std::vector<index_t>{2, 3, 4}));
      const auto values = array.template as<TypeParam, 3>();
      for (index_t i = 0; i < 24; ++i) ASSERT_EQ(values.data()[i], made<TypeParam>(i)) << i;
    }
  }
}

TYPED_TEST(NpyOf, WritesWhatNumPyWrites) {
  const std::string code = heed::detail::npy_code(heed::detail::npy_type_of<TypeParam>());
  heed::tensor<TypeParam, 3> values({2, 3, 4});
  for (index_t i = 0; i < 24; ++i) values.data()[i] = made<TypeParam>(i);
  for (bool big : {false, true}) {
    if (big && one_byte<TypeParam>) continue;
    for (bool fortran : {false, true}) {
      const std::string path = numpy_files + code + (big ? "_big" : "_little") + (fortran ? "_fortran.npy" : "_c.npy");
      EXPECT_EQ(heed::format_npy(values, {.fortran_order = fortran, .big_endian = big}), bytes_of(path)) << path;
    }
  }
}

TYPED_TEST(NpyOf, ComesBackFromEveryOrderAndVersion) {
  heed::tensor<TypeParam, 4> values({3, 2, 5, 4});
  for (index_t i = 0; i < values.size(); ++i) values.data()[i] = made<TypeParam>(i % 24);
  for (npy_version version : {npy_version::v1, npy_version::v2, npy_version::v3}) {
    for (bool big : {false, true}) {
      for (bool fortran : {false, true}) {
        const auto image = heed::format_npy(values, {fortran, big, version});
        EXPECT_EQ(image[6], static_cast<unsigned char>(version));
        EXPECT_EQ((image.size() - static_cast<std::size_t>(values.size()) * sizeof(TypeParam)) % 64, 0u);
        const auto back = heed::parse_npy(image).template as<TypeParam, 4>();
        for (index_t i = 0; i < values.size(); ++i) ASSERT_EQ(back.data()[i], values.data()[i]) << i;
      }
    }
  }
}

TYPED_TEST(NpyOf, IsWrittenFromAnyStrides) {
  std::vector<char> memory(sizeof(TypeParam) * 200);
  TypeParam* const data = reinterpret_cast<TypeParam*>(memory.data());
  for (index_t i = 0; i < 200; ++i) data[i] = made<TypeParam>(i % 23);
  const heed::tensor_view<TypeParam const, 3> views[] = {
      {data + 100, {2, 3, 4}, {40, -8, 2}},  // steps backward, and over elements
      {data + 7, {5, 3, 2}, {0, 11, 1}},     // repeats an axis
      {data, {4, 0, 3}, {1, 1, 1}},          // nothing
  };
  for (auto const& view : views) {
    for (bool fortran : {false, true}) {
      const auto back = heed::parse_npy(heed::format_npy(view, {.fortran_order = fortran})).template as<TypeParam, 3>();
      for (index_t a = 0; a < view.extent(0); ++a) {
        for (index_t b = 0; b < view.extent(1); ++b) {
          for (index_t c = 0; c < view.extent(2); ++c) ASSERT_EQ(back(a, b, c), view(a, b, c)) << a << b << c;
        }
      }
    }
  }
}

TEST(Npy, ReadsEveryVersionOfNumPy) {
  const auto expected = heed::load_npy(numpy_files + "f4_little_c.npy");
  for (char version : {'1', '2', '3'}) {
    const std::string path = numpy_files + "version" + version + ".npy";
    EXPECT_EQ(bytes_of(path)[6], version - '0');
    const auto array = heed::load_npy(path);
    EXPECT_EQ(array.bytes, expected.bytes);
    EXPECT_EQ(array.shape, expected.shape);
  }
}

TEST(Npy, ReadsShapesOfZeroAndFiveAxesButMakesNoTensorOfThem) {
  const auto scalar = heed::load_npy(numpy_files + "zero_axes.npy");
  EXPECT_EQ(scalar.rank(), 0u);
  EXPECT_EQ(scalar.bytes.size(), 8u);
  EXPECT_EQ(code_of([&] { (void)scalar.as<double, 1>(); }), heed::errc::wrong_rank);
  const auto five = heed::load_npy(numpy_files + "five_axes.npy");
  EXPECT_EQ(five.shape_text(), "(1, 1, 1, 1, 2)");
  const std::string text = text_of([&] { (void)five.as<float, 4>(); });
  EXPECT_NE(text.find("(1, 1, 1, 1, 2)"), std::string::npos) << text;
  EXPECT_NE(text.find("five_axes.npy"), std::string::npos) << text;
}

TEST(Npy, ReadsAndWritesEmptyArrays) {
  const auto empty = heed::load_npy(numpy_files + "empty.npy").as<float, 3>();
  EXPECT_EQ(empty.extent(0), 2);
  EXPECT_EQ(empty.extent(1), 0);
  EXPECT_EQ(empty.extent(2), 4);
  EXPECT_EQ(heed::format_npy(empty), bytes_of(numpy_files + "empty.npy"));
  EXPECT_EQ(heed::format_npy(heed::tensor_view<float, 3>(nullptr, {2, 0, 4})).size(), 128u);
}

npy_array one(npy_type type, std::vector<unsigned char> bytes) { return {type, {1}, std::move(bytes), "x.npy"}; }
template <class From>
npy_array one(npy_type type, From value) {
  std::vector<unsigned char> bytes(sizeof(value));
  std::memcpy(bytes.data(), &value, sizeof(value));
  return one(type, std::move(bytes));
}
template <class T, class From>
T converted(npy_type type, From value) {
  return one(type, value).template as<T, 1>()(0);
}

TEST(NpyConversion, RoundsOnce) {
  // 1 + 2^-11 + 2^-40 lies just above the middle of two halves; rounded to float first it would be the middle itself,
  // and fall to the even one below.
  const double above_the_middle = 1 + std::ldexp(1.0, -11) + std::ldexp(1.0, -40);
  EXPECT_EQ(static_cast<float>(converted<heed::half>(npy_type::f8, above_the_middle)), 1 + std::ldexp(1.0f, -10));
  const double for_bfloat16 = 1 + std::ldexp(1.0, -8) + std::ldexp(1.0, -40);
  EXPECT_EQ(static_cast<float>(converted<heed::bfloat16>(npy_type::f8, for_bfloat16)), 1 + std::ldexp(1.0f, -7));
  // The same for an integer that double does not hold: 2^62 + 2^54 is the middle for bfloat16.
  const std::int64_t middle = (std::int64_t{1} << 62) + (std::int64_t{1} << 54);
  EXPECT_EQ(static_cast<float>(converted<heed::bfloat16>(npy_type::i8, middle)), std::ldexp(1.0f, 62));
  EXPECT_EQ(static_cast<float>(converted<heed::bfloat16>(npy_type::i8, middle + 1)),
            std::ldexp(1.0f, 62) + std::ldexp(1.0f, 55));
  EXPECT_EQ(static_cast<float>(converted<heed::bfloat16>(npy_type::i8, -middle - 1)),
            -std::ldexp(1.0f, 62) - std::ldexp(1.0f, 55));
  EXPECT_EQ(converted<float>(npy_type::i8, std::int64_t{16777217}), 16777216.0f);
  EXPECT_EQ(converted<float>(npy_type::i4, std::int32_t{16777217}), 16777216.0f);
  EXPECT_EQ(converted<double>(npy_type::i8, (std::numeric_limits<std::int64_t>::min)()), -std::ldexp(1.0, 63));
}

TEST(NpyConversion, IsExactWhereTheTypeHoldsTheValue) {
  EXPECT_EQ(converted<double>(npy_type::f2, heed::half(0.1f)),
            static_cast<double>(static_cast<float>(heed::half(0.1f))));
  EXPECT_EQ(converted<double>(npy_type::f4, 0.1f), static_cast<double>(0.1f));
  EXPECT_EQ(static_cast<float>(converted<heed::half>(npy_type::u1, std::uint8_t{255})), 255.0f);
  EXPECT_EQ(converted<std::int64_t>(npy_type::i4, std::int32_t{-7}), -7);
  EXPECT_EQ(converted<std::int32_t>(npy_type::i8, std::int64_t{-7}), -7);
  EXPECT_EQ(converted<std::int64_t>(npy_type::u1, std::uint8_t{200}), 200);
  EXPECT_EQ(converted<float>(npy_type::f8, std::numeric_limits<double>::infinity()),
            std::numeric_limits<float>::infinity());
  EXPECT_TRUE(std::isnan(converted<float>(npy_type::f8, std::nan(""))));
#if HEED_NATIVE_FLOAT16
  EXPECT_EQ(static_cast<float>(converted<heed::native_float16>(npy_type::f4, 0.75f)), 0.75f);
#endif
}

TEST(NpyConversion, RefusesWhatHasNoMeaning) {
  const auto wrong = heed::errc::wrong_element_type;
  EXPECT_EQ(code_of([] { (void)converted<float>(npy_type::b1, true); }), wrong);
  EXPECT_EQ(code_of([] { (void)converted<index_t>(npy_type::b1, true); }), wrong);
  EXPECT_EQ(code_of([] { (void)converted<bool>(npy_type::f4, 1.0f); }), wrong);
  EXPECT_EQ(code_of([] { (void)converted<index_t>(npy_type::f8, 3.0); }), wrong);
  EXPECT_EQ(code_of([] { (void)converted<std::int32_t>(npy_type::i8, std::int64_t{1} << 31); }), wrong);
  EXPECT_EQ(code_of([] { (void)converted<std::uint8_t>(npy_type::i4, std::int32_t{-1}); }), wrong);
  EXPECT_EQ(code_of([] { (void)converted<std::uint8_t>(npy_type::i4, std::int32_t{256}); }), wrong);
  EXPECT_TRUE(converted<bool>(npy_type::u1, std::uint8_t{1}));
  EXPECT_FALSE(converted<bool>(npy_type::i8, std::int64_t{0}));
  const std::string text = text_of([] { (void)converted<bool>(npy_type::u1, std::uint8_t{255}); });
  EXPECT_NE(text.find("element 0 is 255"), std::string::npos) << text;
}

TEST(NpyConversion, RefusesAnArrayThatContradictsItself) {
  const npy_array short_of_bytes{npy_type::f4, {3}, std::vector<unsigned char>(8), "x.npy"};
  EXPECT_EQ(code_of([&] { (void)short_of_bytes.as<float, 1>(); }), heed::errc::bad_file);
}

static_assert(heed::npy_element<heed::half> && heed::npy_element<bool> && heed::npy_element<std::int64_t>);
static_assert(!heed::npy_element<heed::bfloat16> && !heed::npy_element<std::int16_t> && !heed::npy_element<char*>);

TEST(NpyFile, ComesBack) {
  const folder here;
  heed::tensor<double, 2> values({300, 200});  // several blocks of the writer
  for (index_t i = 0; i < values.size(); ++i) values.data()[i] = static_cast<double>(i) * 0.25;
  heed::save_npy(here.file("x.npy"), values, {.big_endian = true});
  EXPECT_EQ(here.files(), 1) << "something was left beside the file";
  const auto back = heed::load_npy(here.file("x.npy")).as<double, 2>();
  for (index_t i = 0; i < values.size(); ++i) ASSERT_EQ(back.data()[i], values.data()[i]);
  heed::save_npy(here.file("x.npy"), heed::tensor<bool, 1>({3}));  // replaces
  EXPECT_EQ(heed::load_npy(here.file("x.npy")).shape_text(), "(3,)");
}

TEST(NpyFile, IsUntouchedByAFailedSave) {
  const folder here;
  heed::save_npy(here.file("x.npy"), heed::tensor<bool, 1>({3}));
  const auto before = bytes_of(here.file("x.npy"));
  const heed::tensor_view<float, 2> without_data(nullptr, {2, 3});
  EXPECT_EQ(code_of([&] { heed::save_npy(here.file("x.npy"), without_data); }), heed::errc::null_data);
  float number = 0;
  const heed::tensor_view<float, 2> negative(&number, {2, -3});
  EXPECT_EQ(code_of([&] { heed::save_npy(here.file("x.npy"), negative); }), heed::errc::negative_extent);
  const heed::tensor_view<float, 2> huge(&number, {index_t{1} << 40, index_t{1} << 40}, {0, 0});
  EXPECT_EQ(code_of([&] { heed::save_npy(here.file("x.npy"), huge); }), heed::errc::size_overflow);
  EXPECT_EQ(bytes_of(here.file("x.npy")), before);
  EXPECT_EQ(here.files(), 1);
}

TEST(NpyFile, ThatCannotBeOpenedIsNamed) {
  const folder here;
  for (std::string path : {here.file("absent.npy"), here.file(""), here.file("no/such/folder.npy"), std::string("")}) {
    EXPECT_EQ(code_of([&] { (void)heed::load_npy(path); }), heed::errc::bad_file) << path;
    EXPECT_NE(text_of([&] { (void)heed::load_npy(path); }).find("load_npy: " + path), std::string::npos);
  }
  ASSERT_EQ(::mkfifo(here.file("pipe").c_str(), 0600), 0);
  EXPECT_EQ(code_of([&] { (void)heed::load_npy(here.file("pipe")); }), heed::errc::bad_file);
  EXPECT_EQ(code_of([&] { heed::save_npy(here.file("no/such/folder.npy"), heed::tensor<bool, 1>({3})); }),
            heed::errc::bad_file);
  EXPECT_EQ(here.files(), 1);
}

}  // namespace
