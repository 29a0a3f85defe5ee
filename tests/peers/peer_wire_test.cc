// Requests and answers between nodes: docs/formats/peer-chunks.md.
#include "lib/blocks/peers/peer_wire.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace paceline::blocks {
namespace {

using testing::ElementsAre;

const Digest kLayer = Sha256Of("layer");

Result<ChunkAsk> Parse(const std::string& target) {
  const size_t query = target.find('?');
  return ParseAsk(target.substr(0, query), query == std::string::npos ? "" : target.substr(query + 1));
}

TEST(PeerWire, AsksAreReadAsTheyAreWritten) {
  const ChunkAsk asks[] = {{kLayer, {7}, false, false},
                           {kLayer, {0, 1, 2, 9}, true, false},
                           {kLayer, {3, 7, 8, 9, UINT32_MAX}, false, true},
                           {kLayer, {1, 3, 5}, true, true}};
  for (const ChunkAsk& ask : asks) {
    const Result<ChunkAsk> parsed = Parse(FormatAsk(ask));
    ASSERT_TRUE(parsed.ok()) << FormatAsk(ask) << ": " << parsed.status().ToString();
    EXPECT_EQ(*parsed, ask);
  }
  EXPECT_EQ(FormatAsk(asks[1]), "/v1/layers/" + kLayer.Hex() + "/chunks?n=0-2,9&fetch");
}

TEST(PeerWire, RefusesWhatIsNoAsk) {
  const std::string path = "/v1/layers/" + kLayer.Hex() + "/chunks";
  const std::string targets[] = {path,
                                 path + "?n=",
                                 path + "?n=1,",
                                 path + "?n=2,1",
                                 path + "?n=1,1",
                                 path + "?n=3-2",
                                 path + "?n=-1",
                                 path + "?n=4294967296",
                                 path + "?n=0-256",
                                 path + "?n=0-4294967295",
                                 path + "?n=0-100,200-4294967295",
                                 path + "?n=1&list",
                                 path + "?n=1&n=2",
                                 path + "?fetch",
                                 "/v1/layers//chunks?n=1",
                                 "/v1/layers/chunks?n=1",
                                 "/v1/layers/" + kLayer.Hex() + "?n=1",
                                 "/v1/layers/../../etc/chunks?n=1",
                                 "/v1/layers/" + kLayer.Hex() + "0/chunks?n=1"};
  for (const std::string& target : targets) EXPECT_FALSE(Parse(target).ok()) << target;
  EXPECT_TRUE(Parse(path + "?n=0-255").ok());
}

TEST(PeerWire, AnswersAreReadAsTheyAreWritten) {
  const auto content = [](const std::string& text) { return std::make_shared<const std::string>(text); };
  const std::string answer = FormatAnswer({content("abc"), nullptr, content(std::string(70000, 'x'))});
  const Result<std::vector<std::string>> contents = ParseAnswer(answer, {3, 5, 70000});
  ASSERT_TRUE(contents.ok()) << contents.status().ToString();
  EXPECT_THAT(*contents, ElementsAre("abc", "", std::string(70000, 'x')));
  EXPECT_EQ(answer.substr(0, 7), std::string("\3\0\0\0abc", 7));

  for (size_t cut = 0; cut < answer.size(); cut += cut < 20 ? 1 : 9999) {
    EXPECT_EQ(ParseAnswer(answer.substr(0, cut), {3, 5, 70000}).status().code(), StatusCode::kDataLoss) << cut;
  }
  EXPECT_FALSE(ParseAnswer(answer + "x", {3, 5, 70000}).ok());
  EXPECT_FALSE(ParseAnswer(answer, {4, 5, 70000}).ok());
  EXPECT_FALSE(ParseAnswer(answer, {3, 5}).ok());
  EXPECT_FALSE(ParseAnswer("\xff\xff\xff\xff", {3}).ok());
}

}  // namespace
}  // namespace paceline::blocks
