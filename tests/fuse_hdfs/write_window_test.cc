#include "fuse-hdfs/write_window.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

#include "tests/fuse_hdfs/text_bytes.h"

namespace paceline::fuse_hdfs {
namespace {

std::string Held(const WriteWindow& window, uint64_t offset, size_t size) {
  std::string text(size, '.');
  window.CopyTo(offset, std::as_writable_bytes(std::span(text)));
  return text;
}

std::string TakeAll(WriteWindow& window) {
  std::string text;
  while (true) {
    const auto piece = window.Front(3);
    if (piece.empty()) return text;
    text.append(reinterpret_cast<const char*>(piece.data()), piece.size());
    window.Pop(piece.size());
  }
}

TEST(WriteWindow, OrderedBytesLeaveInOrder) {
  WriteWindow window(100);
  ASSERT_TRUE(window.Put(100, Bytes("hello ")).ok());
  ASSERT_TRUE(window.Put(106, Bytes("world")).ok());
  EXPECT_EQ(window.ready_bytes(), 11u);
  EXPECT_EQ(TakeAll(window), "hello world");
  EXPECT_EQ(window.start(), 111u);
  EXPECT_EQ(window.held_bytes(), 0u);
}

TEST(WriteWindow, WaitsBehindAHole) {
  WriteWindow window;
  ASSERT_TRUE(window.Put(5, Bytes("later")).ok());
  EXPECT_TRUE(window.has_hole());
  EXPECT_EQ(window.ready_bytes(), 0u);
  EXPECT_TRUE(window.Front(10).empty());
  ASSERT_TRUE(window.Put(0, Bytes("first")).ok());
  EXPECT_FALSE(window.has_hole());
  EXPECT_EQ(TakeAll(window), "firstlater");
}

TEST(WriteWindow, LaterWritesWin) {
  const struct {
    const char* name;
    uint64_t offset;
    std::string data;
    std::string result;
  } cases[] = {
      {"inside", 2, "XX", "abXXefgh"},    {"front", 0, "XX", "XXcdefgh"}, {"over the end", 6, "XXXX", "abcdefXXXX"},
      {"all", 0, "XXXXXXXX", "XXXXXXXX"}, {"empty", 3, "", "abcdefgh"},
  };
  for (const auto& c : cases) {
    WriteWindow window;
    ASSERT_TRUE(window.Put(0, Bytes("abcd")).ok());
    ASSERT_TRUE(window.Put(4, Bytes("efgh")).ok());
    ASSERT_TRUE(window.Put(c.offset, Bytes(c.data)).ok()) << c.name;
    EXPECT_EQ(TakeAll(window), c.result) << c.name;
  }
}

TEST(WriteWindow, SentBytesCannotChange) {
  WriteWindow window;
  ASSERT_TRUE(window.Put(0, Bytes("abcd")).ok());
  window.Pop(2);
  EXPECT_EQ(window.Put(1, Bytes("x")).code(), StatusCode::kInvalidArgument);
  ASSERT_TRUE(window.Put(2, Bytes("X")).ok());
  EXPECT_EQ(Held(window, 0, 5), "..Xd.");
}

TEST(WriteWindow, SkipsHolesUpToWhatIsThere) {
  WriteWindow window;
  ASSERT_TRUE(window.Put(10, Bytes("abc")).ok());
  EXPECT_EQ(window.SkipHole(4), 4u);
  EXPECT_EQ(window.SkipHole(100), 6u);
  EXPECT_EQ(TakeAll(window), "abc");
  EXPECT_EQ(window.SkipHole(20), 7u);
  EXPECT_EQ(window.start(), 20u);
}

TEST(WriteWindow, CutForgetsTheRest) {
  WriteWindow window;
  ASSERT_TRUE(window.Put(0, Bytes("abcdef")).ok());
  ASSERT_TRUE(window.Put(10, Bytes("xyz")).ok());
  window.Pop(2);
  window.Cut(4);
  EXPECT_EQ(window.end(), 4u);
  EXPECT_EQ(window.held_bytes(), 2u);
  EXPECT_EQ(TakeAll(window), "cd");
  window.Cut(4);
  ASSERT_TRUE(window.Put(4, Bytes("new")).ok());
  EXPECT_EQ(TakeAll(window), "new");
}

// Any mixture of writes, cuts and sends must leave the same bytes as a plain buffer.
TEST(WriteWindow, AgreesWithAPlainBuffer) {
  for (int seed = 0; seed < 50; ++seed) {
    std::mt19937 random(seed);
    WriteWindow window;
    std::string plain, sent;
    for (int step = 0; step < 300; ++step) {
      const uint64_t choice = random() % 10;
      const uint64_t offset = window.start() + random() % 200;
      if (choice < 7) {
        const std::string data(random() % 60, static_cast<char>('a' + random() % 26));
        ASSERT_TRUE(window.Put(offset, Bytes(data)).ok());
        if (data.empty()) continue;
        if (plain.size() < offset + data.size()) plain.resize(offset + data.size(), '\0');
        plain.replace(offset, data.size(), data);
      } else if (choice == 7) {
        window.Cut(offset);
        if (plain.size() > offset) plain.resize(offset);
      } else {
        const auto front = window.Front(random() % 50);
        sent.append(reinterpret_cast<const char*>(front.data()), front.size());
        window.Pop(front.size());
      }
    }
    while (sent.size() < plain.size()) {
      sent += TakeAll(window);
      sent.append(window.SkipHole(plain.size()), '\0');
    }
    ASSERT_EQ(sent, plain) << "seed " << seed;
    EXPECT_EQ(window.held_bytes(), 0u);
  }
}

}  // namespace
}  // namespace paceline::fuse_hdfs
