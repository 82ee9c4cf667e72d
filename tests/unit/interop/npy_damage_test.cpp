// Damaged and hostile .npy files: each is refused with a text that says what is wrong, none crashes or allocates.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "heed/interop/npy.hpp"

namespace {

// Sanitizers map terabytes for themselves.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool sanitized = true;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
constexpr bool sanitized = true;
#else
constexpr bool sanitized = false;
#endif
#else
constexpr bool sanitized = false;
#endif

// An image of version `major` with this dict, not padded, and `data` zeros behind it.
std::string image(std::string const& dict, std::size_t data = 0, char major = 1, char minor = 0) {
  std::string bytes("\x93NUMPY", 6);
  bytes += major;
  bytes += minor;
  for (int byte = 0; byte < (major == 1 ? 2 : 4); ++byte) {
    bytes += static_cast<char>(static_cast<unsigned char>(dict.size() >> (8 * byte)));
  }
  return bytes + dict + std::string(data, '\0');
}

std::string header(std::string const& descr, std::string const& shape, std::size_t data) {
  return image("{'descr': " + descr + ", 'fortran_order': False, 'shape': " + shape + ", }\n", data);
}

struct verdict {
  heed::errc code = heed::errc::ok;
  std::string text;
};

verdict parse(std::string_view bytes) {
  try {
    (void)heed::parse_npy({reinterpret_cast<unsigned char const*>(bytes.data()), bytes.size()});
  } catch (heed::error const& error) {
    return {error.code(), error.what()};
  }
  return {};
}

verdict load(std::string_view bytes) {
  std::string path = (std::filesystem::temp_directory_path() / "heed-damage-XXXXXX").string();
  const int descriptor = ::mkstemp(path.data());
  EXPECT_GE(descriptor, 0);
  ::close(descriptor);
  std::ofstream(path, std::ios::binary) << bytes;
  verdict found;
  try {
    (void)heed::load_npy(path);
  } catch (heed::error const& error) {
    found = {error.code(), error.what()};
  }
  std::filesystem::remove(path);
  return found;
}

struct bad_image {
  char const* what;
  std::string bytes;
  char const* expected;  // a part of the error text
};

std::vector<bad_image> bad_images() {
  const std::string good = header("'<f4'", "(2, 3)", 24);
  const std::string huge = std::to_string(std::uint64_t{1} << 62);
  return {
      {"nothing", "", "empty"},
      {"one byte", "\x93", "does not begin like"},
      {"another file", "PK\x03\x04 a zip archive, perhaps an .npz", "does not begin like"},
      {"text", "0.5 0.5\n0.25 0.75\n", "does not begin like"},
      {"magic only", good.substr(0, 6), "truncated"},
      {"ends in the length", good.substr(0, 9), "truncated"},
      {"ends in the length of version 2", image("", 0, 2).substr(0, 11), "truncated"},
      {"ends in the header", good.substr(0, 40), "damaged or truncated"},
      {"ends in the data", good.substr(0, good.size() - 1), "truncated"},
      {"no data", header("'<f4'", "(2, 3)", 0), "24 bytes, but holds 0"},
      {"trailing bytes", header("'<f4'", "(2, 3)", 25), "1 more follow"},
      {"two arrays in one file", good + good, "several arrays"},
      {"version 0", image("{}", 0, 0), "version 0.0"},
      {"version 4", image("{}", 0, 4), "version 4.0"},
      {"version 1.1", image("{}", 0, 1, 1), "version 1.1"},
      {"header longer than the file", std::string("\x93NUMPY\x02\0\xff\xff\xff\xff", 12), "claims 4294967295 bytes"},
      {"header of two megabytes", image(std::string(2 << 20, ' '), 0, 2), "no plain array needs that"},
      {"empty header", image(""), "expected '{'"},
      {"empty dict", image("{}"), "lacks one of its keys"},
      {"no shape", image("{'descr': '<f4', 'fortran_order': False}"), "lacks one of its keys"},
      {"no dict", image("['<f4', False, (3,)]"), "expected '{'"},
      {"dict not closed", image("{'descr': '<f4', 'fortran_order': False, 'shape': (0,), "), "expected a key"},
      {"string not closed", image("{'descr: "), "closing quote"},
      {"key without quotes", image("{descr: '<f4'}"), "a key in quotes"},
      {"no colon", image("{'descr' '<f4'}"), "expected ':'"},
      {"no comma", image("{'descr': '<f4' 'shape': (0,)}"), "',' or '}'"},
      {"unknown key", image("{'descr': '<f4', 'order': 'C'}"), "unknown key 'order'"},
      {"key twice", image("{'descr': '<f4', 'descr': '<f8'}"), "'descr' twice"},
      {"more after the dict", image("{'descr': '<f4', 'fortran_order': False, 'shape': (0,)} + {}"), "the end of"},
      {"a call in the dict", image("{'descr': __import__('os'), 'fortran_order': False}"), "an element type in quotes"},
      {"order as number", image("{'fortran_order': 1}"), "True or False"},
      {"escape", image("{'descr': '\\x3cf4'}"), "without escapes"},
      {"zeros", image(std::string(60, '\0')), "expected '{'"},
      {"shape is a number", header("'<f4'", "6", 24), "expected '('"},
      {"shape is a list", header("'<f4'", "[2, 3]", 24), "expected '('"},
      {"shape is no tuple", header("'<f4'", "(6)", 24), "written (n,)"},
      {"shape not closed", image("{'shape': (2, 3"), "',' or ')'"},
      {"shape with a hole", header("'<f4'", "(2,,3)", 24), "an extent or ')'"},
      {"shape with a float", header("'<f4'", "(2.0, 3)", 24), "','"},
      {"shape in hex", header("'<f4'", "(0x2, 3)", 24), "','"},
      {"shape with a sum", header("'<f4'", "(1+1, 3)", 24), "','"},
      {"negative extent", header("'<f4'", "(-2, 3)", 24), "negative extent"},
      {"negative pair", header("'<f4'", "(-2, -3)", 24), "negative extent"},
      {"extent of 70 bits", header("'<f4'", "(1180591620717411303424,)", 24), "beyond 64 bits"},
      {"2^63 elements", header("'<f4'", "(9223372036854775808,)", 0), "beyond 64 bits"},
      {"product overflows", header("'<f4'", "(" + huge + ", 4)", 24), "overflows 64 bits"},
      {"product wraps to 24", header("'<f4'", "(4611686018427387905, 4, 6)", 24), "overflows 64 bits"},
      {"bytes overflow", header("'<f8'", "(" + huge + ",)", 24), "overflows 64 bits"},
      {"overflows beside a zero", header("'<f4'", "(0, " + huge + ", " + huge + ")", 0), "overflows 64 bits"},
      {"terabytes", header("'<f4'", "(1099511627776,)", 24), "4398046511104 bytes, but holds 24"},
      {"a thousand axes", header("'<f4'", "(" + std::string(3000, '1').replace(1, 1, ",") + ",)", 4), "beyond 64 bits"},
      {"65 axes",
       header(
           "'<f4'",
           [] {
             std::string shape = "(";
             for (int axis = 0; axis < 65; ++axis) shape += "1, ";
             return shape + ")";
           }(),
           4),
       "more than 64 axes"},
      {"objects", header("'|O'", "(3,)", 24), "Python objects"},
      {"objects with a size", header("'|O8'", "(3,)", 24), "Python objects"},
      {"structured", header("[('a', '<f4')]", "(3,)", 12), "structured"},
      {"complex", header("'<c8'", "(3,)", 24), "'<c8' is none of"},
      {"short integers", header("'<i2'", "(3,)", 6), "'<i2' is none of"},
      {"unsigned integers", header("'<u4'", "(3,)", 12), "'<u4' is none of"},
      {"text elements", header("'<U6'", "(3,)", 72), "'<U6' is none of"},
      {"bfloat16 of ml_dtypes", header("'<V2'", "(3,)", 6), "bfloat16"},
      {"long double", header("'<f16'", "(3,)", 48), "'<f16' is none of"},
      {"no order", header("'f4'", "(3,)", 12), "is none of"},
      {"no order where one is needed", header("'|f4'", "(3,)", 12), "is none of"},
      {"empty type", header("''", "(3,)", 12), "is none of"},
      {"a bool of 2", header("'|b1'", "(3,)", 2) + '\x02', "byte 2 of the bools"},
      {"lines in the type", header("'<f4\n\x1b[31m'", "(3,)", 12), "'<f4??[31m'"},
  };
}

TEST(NpyDamage, IsNamed) {
  for (bad_image const& bad : bad_images()) {
    SCOPED_TRACE(bad.what);
    for (verdict const& found : {parse(bad.bytes), load(bad.bytes)}) {
      EXPECT_EQ(found.code, heed::errc::bad_file);
      EXPECT_NE(found.text.find(bad.expected), std::string::npos) << found.text;
      EXPECT_EQ(found.text.find('\n'), std::string::npos) << "more than one line";
      EXPECT_LT(found.text.size(), 400u);
    }
  }
}

TEST(NpyDamage, OfRealFilesIsNamed) {
  const std::string folder = std::string(HEED_TEST_DATA_DIR) + "/npy/";
  for (char const* name : {"objects.npy", "structured.npy", "complex.npy", "text.npy", "make.py"}) {
    EXPECT_THROW((void)heed::load_npy(folder + name), heed::error) << name;
  }
}

TEST(NpyDamage, CostsNoMemory) {
  // With 64 MiB to spare, an allocation of what these headers claim could not succeed.
  rlimit before = {};
  ASSERT_EQ(::getrlimit(RLIMIT_DATA, &before), 0);
  rlimit tight = before;
  tight.rlim_cur = rlim_t{1} << 26;
  if (!sanitized) {
    ASSERT_EQ(::setrlimit(RLIMIT_DATA, &tight), 0);
  }
  EXPECT_EQ(load(header("'<f4'", "(268435456,)", 24)).code, heed::errc::bad_file);
  EXPECT_EQ(parse(header("'<f8'", "(16384, 16384)", 24)).code, heed::errc::bad_file);
  EXPECT_EQ(load(std::string("\x93NUMPY\x03\0\xf0\xff\xff\x3f", 12)).code, heed::errc::bad_file);
  ASSERT_EQ(::setrlimit(RLIMIT_DATA, &before), 0);
}

// What NumPy and others have written, and therefore must be read.
TEST(NpyDamage, IsNotFoundInUnusualButSoundFiles) {
  const std::string sound[] = {
      image("{'shape': (2, 3), 'fortran_order': False, 'descr': '<f4'}", 24),         // another order, no end comma
      image("{\"descr\": \"<f4\", \"fortran_order\": True, \"shape\": (2, 3)}", 24),  // double quotes
      image("{'descr':'<f4','fortran_order':False,'shape':(2,3)}", 24),               // no spaces
      image(" { 'descr' : '<f4' , 'fortran_order' : False , 'shape' : ( 2 , 3 , ) , } \n", 24),
      image("{'descr': '<f4', 'fortran_order': False, 'shape': (2L, 3L), }\n", 24),  // Python 2
      image("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }\n", 24, 2),
      image("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }\n", 24, 3),
      image("{'descr': '<f4', 'fortran_order': False, 'shape': (), }\n", 4),
      image("{'descr': '<f4', 'fortran_order': False, 'shape': (0, 4611686018427387), }\n", 0),
      image("{'descr': '<b1', 'fortran_order': False, 'shape': (3,), }\n", 3),
      image("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }" + std::string(70000, ' ') + "\n", 24, 2),
  };
  for (std::string const& bytes : sound) {
    EXPECT_EQ(parse(bytes).text, "") << bytes;
    EXPECT_EQ(load(bytes).text, "") << bytes;
  }
}

// Every cut and every changed byte of the header: refused or read, but never anything else.
TEST(NpyDamage, OfAnyByteIsSurvived) {
  int refused = 0;
  for (std::string const& good : {header("'<f4'", "(2, 3)", 24), header("'>i8'", "(3,)", 24),
                                  image("{'descr': '|b1', 'fortran_order': True, 'shape': (4, 6), }\n", 24, 2)}) {
    ASSERT_EQ(parse(good).text, "");
    for (std::size_t size = 0; size < good.size(); ++size) {
      EXPECT_EQ(parse(std::string_view(good).substr(0, size)).code, heed::errc::bad_file) << size;
    }
    for (std::size_t at = 0; at < good.size() - 24; ++at) {
      std::string changed = good;
      for (int value = 0; value < 256; ++value) {
        changed[at] = static_cast<char>(value);
        const verdict found = parse(changed);
        EXPECT_TRUE(found.code == heed::errc::ok || found.code == heed::errc::bad_file);
        refused += found.code == heed::errc::bad_file ? 1 : 0;
      }
    }
  }
  EXPECT_GT(refused, 50000);
}

}  // namespace
