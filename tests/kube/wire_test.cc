// Tests of the readers of lib/kube/wire_*.h and of lib/kube/watch_frames.h.
#include <gtest/gtest.h>

#include <random>

#include "lib/kube/watch_frames.h"
#include "lib/kube/wire_json.h"
#include "lib/kube/wire_proto.h"
#include "lib/kube/wire_string.h"
#include "tests/kube/wire_builders.h"

namespace paceline::kube {
namespace {

TEST(SharedString, ComparesAndCopiesAsText) {
  const SharedString empty, abc("abc"), other(std::string("abd"));
  const SharedString copy = abc;  // NOLINT(performance-unnecessary-copy-initialization): what is tested
  EXPECT_EQ(copy, "abc");
  EXPECT_EQ(copy, abc);
  EXPECT_NE(abc, other);
  EXPECT_LT(abc, other);
  EXPECT_EQ(empty, "");
  EXPECT_EQ(SharedString(""), empty);
  EXPECT_EQ(std::string("abc"), abc);
}

TEST(StringPool, KeepsOneCopyAndForgetsWhatNobodyHolds) {
  StringPool pool;
  const SharedString kept = pool.Intern("kept");
  EXPECT_EQ(pool.Intern("kept").view().data(), kept.view().data());
  for (int i = 0; i < 5000; ++i) EXPECT_EQ(pool.Intern("text-" + std::to_string(i)), "text-" + std::to_string(i));
  pool.Sweep();
  EXPECT_EQ(pool.size(), 1u);
  EXPECT_EQ(pool.Intern("kept").view().data(), kept.view().data());
  const std::string long_text(1000, 'x');
  EXPECT_EQ(pool.Intern(long_text), long_text);
  EXPECT_EQ(pool.size(), 1u);
}

TEST(ProtoReader, ReadsEveryWireType) {
  const std::string message = VarintField(1, 300) + BytesField(2, "text") + Varint(3 << 3 | 5) +
                              std::string("\x01\x02\x00\x00", 4) + Varint(4 << 3 | 1) +
                              std::string("\x01\0\0\0\0\0\0\x80", 8) + VarintField(5, ~uint64_t{0});
  ProtoReader reader(message);
  ProtoField field;
  ASSERT_TRUE(reader.Next(&field));
  EXPECT_EQ(field.varint, 300u);
  ASSERT_TRUE(reader.Next(&field));
  EXPECT_EQ(field.bytes, "text");
  ASSERT_TRUE(reader.Next(&field));
  EXPECT_EQ(field.varint, 0x201u);
  ASSERT_TRUE(reader.Next(&field));
  EXPECT_EQ(field.varint, 0x8000000000000001u);
  ASSERT_TRUE(reader.Next(&field));
  EXPECT_EQ(static_cast<int64_t>(field.varint), -1);
  EXPECT_FALSE(reader.Next(&field));
  EXPECT_TRUE(reader.ok());
}

TEST(ProtoReader, RefusesWhatIsCutOrImpossible) {
  const std::string cases[] = {
      std::string("\x0a"),  // no length
      std::string("\x0a\x05"
                  "abc"),                        // longer than what is there
      std::string("\x08"),                       // no value
      std::string("\x0d\x01"),                   // half of four bytes
      std::string("\x0b"),                       // a group
      std::string("\x02\x00", 2),                // field number 0
      "\x08" + std::string(10, '\xff'),          // a varint without an end
      "\x0a" + std::string(9, '\xff') + "\x01",  // a length of 2^64 - 1
  };
  for (const std::string& bytes : cases) {
    ProtoReader reader(bytes);
    ProtoField field;
    EXPECT_FALSE(reader.Next(&field)) << testing::PrintToString(bytes);
    EXPECT_FALSE(reader.ok()) << testing::PrintToString(bytes);
  }
}

TEST(Envelope, OpensOnlyWhatItKnows) {
  ProtoEnvelope envelope;
  const std::string bytes = Envelope("Pod", "body");
  ASSERT_TRUE(OpenEnvelope(bytes, &envelope));
  EXPECT_EQ(envelope.api_version, "v1");
  EXPECT_EQ(envelope.kind, "Pod");
  EXPECT_EQ(envelope.raw, "body");
  EXPECT_FALSE(OpenEnvelope("{}", &envelope));
  EXPECT_FALSE(OpenEnvelope(std::string(kProtoMagic) + BytesField(2, "x") + BytesField(3, "gzip"), &envelope));
}

TEST(JsonReader, ReadsWhatIsAskedForAndSkipsTheRest) {
  JsonReader reader(
      R"( {"a" : [1, -2.5e3, {"x":[]}], "b":"q\"\\\n\u00e9\ud83d\ude80\ud800!", "c":true, "d":null, "e":-9} )");
  std::string_view key, text;
  std::string seen;
  int64_t number = 0;
  bool flag = false;
  for (reader.EnterObject(); reader.NextKey(&key);) {
    seen += key;
    if (key == "b") {
      ASSERT_TRUE(reader.ReadString(&text));
      EXPECT_EQ(text, "q\"\\\n\u00e9\U0001F680\uFFFD!");
    } else if (key == "c") {
      ASSERT_TRUE(reader.ReadBool(&flag));
    } else if (key == "e") {
      ASSERT_TRUE(reader.ReadInteger(&number));
    } else {
      ASSERT_TRUE(reader.Skip(&text));
      if (key == "a") {
        EXPECT_EQ(text, R"([1, -2.5e3, {"x":[]}])");
      }
    }
  }
  EXPECT_TRUE(reader.AtEnd());
  EXPECT_EQ(seen, "abcde");
  EXPECT_TRUE(flag);
  EXPECT_EQ(number, -9);
}

TEST(JsonReader, RefusesWhatIsNoJson) {
  for (const std::string text :
       {"",      "{",        "[1,]", "{\"a\":1,}", "{\"a\" 1}", "{a:1}",   "[01]",        "[1.]",
        "[-]",   "[1e]",     "tru",  "nul",        "\"open",    "\"\\x\"", "\"\\u12g4\"", "\"tab\there\"",
        "[1 2]", "{\"a\":}", "]",    "{\"a\":1]",  "\"\\"}) {
    JsonReader reader(text);
    std::string_view ignored;
    // Escapes are checked when a string is read, not when it is skipped.
    const bool ok = reader.Peek() == JsonReader::Kind::kString ? reader.ReadString(&ignored) : reader.Skip();
    EXPECT_FALSE(ok && reader.AtEnd()) << text;
  }
  const std::string brackets(100000, '[');
  JsonReader deep(brackets);
  EXPECT_FALSE(deep.Skip());
}

struct Collected {
  std::vector<std::string> items;
  ListSplitter splitter{[this](std::string_view item, Encoding) {
    items.emplace_back(item);
    return Status();
  }};
};

// However the bytes are cut into pieces, the objects are the same.
TEST(ListSplitter, GivesWholeItemsFromAnyPieces) {
  const std::vector<std::string> pods = {PodMessage("a", "x", "1"), "", std::string(40000, '\x07'),
                                         PodMessage("b", "y", "2")};
  const std::string json =
      R"({"kind":"List","apiVersion":"v1","metadata":{"resourceVersion":"77","continue":"t,]}"},"items":[{"a":"]}\"{"},{"b":[{},[{}]]} , {}],"x":{"y":[]}})"
      "\n";
  for (size_t size : {1, 2, 3, 7, 100, 16384, 1 << 20}) {
    Collected protobuf, text;
    const std::string body = PodList(pods, "77", "token");
    for (size_t at = 0; at < body.size(); at += size) {
      ASSERT_TRUE(protobuf.splitter.Feed(std::string_view(body).substr(at, size)).ok());
    }
    EXPECT_TRUE(protobuf.splitter.Finish().ok());
    EXPECT_EQ(protobuf.items, pods) << size;
    EXPECT_EQ(protobuf.splitter.resource_version(), "77");
    EXPECT_EQ(protobuf.splitter.continue_token(), "token");
    for (size_t at = 0; at < json.size(); at += size) {
      ASSERT_TRUE(text.splitter.Feed(std::string_view(json).substr(at, size)).ok());
    }
    EXPECT_TRUE(text.splitter.Finish().ok());
    EXPECT_EQ(text.items, (std::vector<std::string>{R"({"a":"]}\"{"})", R"({"b":[{},[{}]]})", "{}"})) << size;
    EXPECT_EQ(text.splitter.resource_version(), "77");
    EXPECT_EQ(text.splitter.continue_token(), "t,]}");
  }
}

TEST(ListSplitter, KnowsAListThatWasCutShort) {
  const std::string whole[] = {PodList({PodMessage("a", "x", "1")}, "5"),
                               R"({"metadata":{"resourceVersion":"5"},"items":[{"a":1}]})"};
  for (const std::string& body : whole) {
    for (size_t size = 0; size < body.size(); ++size) {
      Collected list;
      const Status fed = list.splitter.Feed(body.substr(0, size));
      // In protobuf the two empty fields at the end of the envelope may be missing without harm.
      if (body[0] == 'k' && size + 4 >= body.size()) continue;
      EXPECT_FALSE(fed.ok() && list.splitter.Finish().ok()) << size;
    }
  }
}

TEST(WatchSplitter, GivesWholeEventsFromAnyPieces) {
  const std::string protobuf = Frame("ADDED", "Pod", "one") + Frame("MODIFIED", "Pod", std::string(30000, 'z')) +
                               BookmarkFrame("9") + ErrorFrame(410, "Expired", "too old");
  const std::string json =
      "{\"type\":\"ADDED\",\"object\":{\"a\":1}}\n{\"object\":{\"b\":\"}\"},\"type\":\"DELETED\"}\n\n";
  for (size_t size : {1, 2, 5, 64, 1 << 20}) {
    std::vector<std::string> seen;
    const auto consumer = [&seen](const WatchFrame& frame) {
      seen.push_back(std::string(frame.type) + " " + std::string(frame.object.substr(0, 10)));
      return Status();
    };
    WatchSplitter binary(consumer), text(consumer);
    for (size_t at = 0; at < protobuf.size(); at += size) ASSERT_TRUE(binary.Feed(protobuf.substr(at, size)).ok());
    ASSERT_EQ(seen.size(), 4u) << size;
    EXPECT_EQ(seen[0], "ADDED one");
    EXPECT_EQ(seen[1], "MODIFIED zzzzzzzzzz");
    for (size_t at = 0; at < json.size(); at += size) ASSERT_TRUE(text.Feed(json.substr(at, size)).ok());
    ASSERT_EQ(seen.size(), 6u) << size;
    EXPECT_EQ(seen[4], "ADDED {\"a\":1}");
    EXPECT_EQ(seen[5], "DELETED {\"b\":\"}\"}");
  }
}

TEST(WatchSplitter, RefusesFramesThatMakeNoSense) {
  const auto consumer = [](const WatchFrame&) { return Status(); };
  EXPECT_EQ(WatchSplitter(consumer).Feed("\xff\xff\xff\xff").code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(WatchSplitter(consumer).Feed(std::string("\0\0\0\1\x0f", 5)).code(), StatusCode::kDataLoss);
  EXPECT_EQ(WatchSplitter(consumer).Feed("{\"object\":{}}\n").code(), StatusCode::kDataLoss);
  EXPECT_EQ(WatchSplitter(consumer).Feed("{\"type\":\"ADDED\"\n").code(), StatusCode::kDataLoss);
}

// Truncated and flipped bytes must be refused or understood, never read out of bounds (ASan) or hang.
TEST(Splitters, SurviveBrokenBytes) {
  const std::string bodies[] = {PodList({PodMessage("a", "x", "1"), PodMessage("b", "y", "2")}, "5", "t"),
                                Frame("ADDED", "Pod", PodMessage("a", "x", "1")) + BookmarkFrame("7", true),
                                R"({"metadata":{"resourceVersion":"5"},"items":[{"metadata":{"name":"x"}},{}]})",
                                "{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"name\":\"x\"}}}\n"};
  std::mt19937 random(1);
  for (const std::string& body : bodies) {
    for (int round = 0; round < 4000; ++round) {
      std::string broken = body.substr(0, random() % (body.size() + 1));
      for (int flips = random() % 4; flips > 0 && !broken.empty(); --flips)
        broken[random() % broken.size()] ^= 1 << random() % 8;
      Collected list;
      WatchSplitter watch([](const WatchFrame&) { return Status(); });
      const size_t size = 1 + random() % 40;
      for (size_t at = 0; at < broken.size(); at += size) {
        if (!list.splitter.Feed(std::string_view(broken).substr(at, size)).ok()) break;
      }
      list.splitter.Finish().IgnoreError();
      for (size_t at = 0; at < broken.size(); at += size) {
        if (!watch.Feed(std::string_view(broken).substr(at, size)).ok()) break;
      }
    }
  }
}

}  // namespace
}  // namespace paceline::kube
