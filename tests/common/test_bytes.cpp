// Hashes, compression, files.
#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>

#include "common/file.h"
#include "common/input_error.h"
#include "common/sha256.h"
#include "common/zstd_codec.h"

namespace stratum {
namespace {

using Catch::Contains;
using Catch::Matchers::Message;

TEST_CASE("sha256: published values") {
  // FIPS 180-2, appendix B, and the empty message.
  CHECK(sha256_hex("") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  CHECK(sha256_hex("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  CHECK(sha256_hex("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq") ==
        "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  CHECK(sha256_hex(std::string(1000000, 'a')) == "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST_CASE("zstd: there and back, equal each time, smaller") {
  std::string bytes;
  for (int i = 0; i < 20000; ++i) bytes += static_cast<char>(i % 251);
  const std::string frame = zstd_compress(bytes);
  CHECK(frame == zstd_compress(bytes));
  CHECK(frame.size() < bytes.size() / 4);
  CHECK(zstd_decompress(frame, 20000, "x") == bytes);
  CHECK(zstd_decompress(zstd_compress(""), 0, "x").empty());
}

TEST_CASE("zstd: anything but the frame expected is an error that names it") {
  const std::string frame = zstd_compress(std::string(1000, 'x') + "end");
  CHECK_THROWS_WITH(zstd_decompress(frame, 1002, "x.zst"), "x.zst: expected 1002 bytes of content, got 1003");
  CHECK_THROWS_WITH(zstd_decompress("not zstd", 8, "x.zst"), "x.zst: not a zstd file");
  CHECK_THROWS_WITH(zstd_decompress("", 8, "x.zst"), Contains("x.zst: "));
  CHECK_THROWS_WITH(zstd_decompress(frame.substr(0, frame.size() - 3), 1003, "x.zst"),
                    Contains("truncated or damaged"));
}

TEST_CASE("files: read, replace, errors with the path") {
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("stratum-test-files-" + std::to_string(::getpid()));
  std::filesystem::remove_all(folder);
  std::filesystem::create_directory(folder);
  const std::string bytes("a\0b\n", 4);
  replace_file(folder / "x", "old");
  replace_file(folder / "x", bytes);
  CHECK(read_file(folder / "x") == bytes);
  CHECK(std::distance(std::filesystem::directory_iterator(folder), {}) == 1);
  CHECK_THROWS_WITH(read_file(folder / "y"), (folder / "y").string() + ": cannot open: No such file or directory");
  CHECK_THROWS_WITH(read_file(folder), folder.string() + ": cannot read: Is a directory");
  REQUIRE(::mkfifo((folder / "fifo").c_str(), 0600) == 0);
  CHECK_THROWS_WITH(read_file(folder / "fifo"),
                    (folder / "fifo").string() + ": expected a regular file, got a device, pipe or socket");
  CHECK_THROWS_WITH(read_file("/dev/zero"), "/dev/zero: expected a regular file, got a device, pipe or socket");
  std::filesystem::remove(folder / "fifo");
  CHECK_THROWS_AS(replace_file(folder / "no/y", ""), InputError);
  // A folder in the file's place: the rename fails, and the temporary file goes.
  std::filesystem::create_directories(folder / "d/inside");
  CHECK_THROWS_WITH(replace_file(folder / "d", "new"), Contains("cannot replace"));
  CHECK(std::distance(std::filesystem::directory_iterator(folder), {}) == 2);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace stratum
