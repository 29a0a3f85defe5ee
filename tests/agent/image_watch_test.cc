#include "agent/images/image_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "agent/images/image_status.h"
#include "agent/images/peer_link.h"
#include "tests/fakes/capture_log.h"
#include "tests/fakes/simulated_clock.h"

namespace paceline::agent {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

const std::string kStatusText = R"({"version": 1, "asked": [
  {"name": "r.test/plain:1", "manifest": "sha256:p", "mode": "Pulled", "reason": "Unavailable",
   "message": "docker://s: refused", "askedAt": "2026-01-02T03:04:00Z"},
  {"name": "r.test/lazy:1", "manifest": "sha256:m", "mode": "Lazy", "converted": "sha256:c",
   "askedAt": "2026-01-02T03:04:01Z", "readyAt": "2026-01-02T03:04:01.5Z"}],
 "images": [
  {"name": "r.test/lazy:1", "store": "docker://s", "digest": "sha256:c", "subject": "sha256:m", "readBytes": 10,
   "memoryBytes": 1, "diskBytes": 2, "peerBytes": 3, "originBytes": 4, "prefetchedBytes": 5, "chunkHits": 6,
   "chunkMisses": 7, "hotSet": {"state": "Fetched", "chunks": 8, "bytes": 9, "digest": "sha256:h"}},
  {"name": "r.test/old:1", "store": "docker://s", "digest": "sha256:o", "subject": "sha256:n"}]})";

TEST(ImageStatus, BecomesReports) {
  const Result<std::vector<api::ImageReport>> reports = ParseImageStatus(kStatusText);
  ASSERT_TRUE(reports.ok()) << reports.status().ToString();
  ASSERT_THAT(*reports, SizeIs(3));
  const api::ImageReport& old = (*reports)[0];  // that an earlier run of the plugin was asked for
  EXPECT_EQ(old.image, "r.test/old:1");
  EXPECT_EQ(old.mode, api::ImageMode::kLazy);
  EXPECT_EQ(old.manifest, "sha256:n");
  EXPECT_FALSE(old.asked_at.has_value());
  const api::ImageReport& plain = (*reports)[1];
  EXPECT_EQ(plain.mode, api::ImageMode::kPulled);
  EXPECT_EQ(plain.reason, "Unavailable");
  EXPECT_EQ(plain.message, "docker://s: refused");
  EXPECT_FALSE(plain.figures.has_value());
  const api::ImageReport& lazy = (*reports)[2];
  EXPECT_EQ(lazy.mode, api::ImageMode::kLazy);
  EXPECT_EQ(lazy.store, "docker://s");
  EXPECT_EQ(*lazy.ready_at - *lazy.asked_at, std::chrono::milliseconds(500));
  EXPECT_EQ(lazy.hot_set, api::HotSetState::kFetched);
  EXPECT_EQ(lazy.hot_set_chunks, 8);
  EXPECT_EQ(lazy.hot_set_digest, "sha256:h");
  const api::ImageFigures want{10, 3, 3, 4, 5, 6, 7};
  EXPECT_EQ(lazy.figures, want);
}

TEST(ImageStatus, WhatIsNoneIsRefused) {
  for (const char* text : {"", "null", "[]", "{}", R"({"version": 2, "asked": [], "images": []})",
                           R"({"version": 1, "asked": {}, "images": []})", R"({"error": "the only question"})"}) {
    EXPECT_EQ(ParseImageStatus(text).status().code(), StatusCode::kDataLoss) << text;
  }
  EXPECT_THAT(ParseImageStatus(R"({"version": 1, "asked": [1, {"name": ""}, null], "images": [2, {}]})").value(),
              IsEmpty());
}

TEST(ImageStatus, DamageIsNoCrashAndNoBadReport) {
  for (size_t length = 0; length < kStatusText.size(); ++length)
    ParseImageStatus(kStatusText.substr(0, length)).status().IgnoreError();
  for (size_t at = 0; at < kStatusText.size(); ++at) {
    for (const char flip : {1, 16, 127}) {
      std::string damaged = kStatusText;
      damaged[at] = static_cast<char>(damaged[at] ^ flip);
      const Result<std::vector<api::ImageReport>> reports = ParseImageStatus(damaged);
      if (!reports.ok()) continue;
      for (const api::ImageReport& report : *reports) {
        EXPECT_FALSE(report.image.empty());
        EXPECT_GE(report.hot_set_bytes, 0);
        if (report.figures) {
          EXPECT_GE(report.figures->registry_bytes, 0);
        }
      }
    }
  }
}

TEST(ImageStatus, LongTextsAndListsAreCut) {
  std::string asked;
  for (int i = 0; i < 200; ++i) {
    asked += R"({"name": "r.test/)" + std::to_string(i) + R"(", "mode": "Pulled", "message": ")" +
             std::string(3000, 'x') + R"("},)";
  }
  asked.pop_back();
  const auto reports = ParseImageStatus(R"({"version": 1, "images": [], "asked": [)" + asked + "]}").value();
  ASSERT_THAT(reports, SizeIs(api::kMaxImageReports));
  EXPECT_EQ(reports.back().image, "r.test/199");
  EXPECT_LE(reports.back().message.size(), api::kMaxImageMessageBytes);
}

class ImageWatchTest : public testing::Test {
 protected:
  ImageWatchTest() {
    ImageWatchOptions options;
    options.ask = [this](Deadline) { return answer_; };
    watch_ = std::make_unique<ImageWatch>(std::move(options), clock_, log_.logger());
  }
  void Say(int64_t read_bytes, const std::string& more = "") {
    const std::string asked_at = FormatRfc3339Micro(born_);
    answer_ = R"({"version": 1, "asked": [{"name": "a", "mode": "Lazy", "converted": "c", "askedAt": ")" + asked_at +
              "\"" + more + R"(}], "images": [{"name": "a", "digest": "c", "readBytes": )" +
              std::to_string(read_bytes) + "}]}";
  }
  int64_t Told() { return watch_->Reports().at(0).figures.value().read_bytes; }

  fakes::SimulatedClock clock_;
  const WallTime born_ = clock_.WallNow();
  fakes::CaptureLog log_;
  Result<std::string> answer_ = UnavailableError("nobody serves the socket");
  std::unique_ptr<ImageWatch> watch_;
};

TEST_F(ImageWatchTest, FiguresOfAYoungImageAreToldEveryFewSeconds) {
  Say(1);
  EXPECT_TRUE(watch_->Look());
  Say(2);
  EXPECT_FALSE(watch_->Look());
  EXPECT_EQ(Told(), 1);
  clock_.Advance(seconds(5));
  EXPECT_TRUE(watch_->Look());
  EXPECT_EQ(Told(), 2);
  EXPECT_FALSE(watch_->Look());
  Say(2, R"(, "readyAt": ")" + FormatRfc3339Micro(clock_.WallNow()) + "\"");
  EXPECT_TRUE(watch_->Look()) << "that it is ready is news at once";
}

TEST_F(ImageWatchTest, FiguresOfASettledImageAreToldSeldom) {
  Say(1);
  watch_->Look();
  clock_.Advance(minutes(4));
  Say(2);
  EXPECT_FALSE(watch_->Look());
  clock_.Advance(minutes(1));
  EXPECT_TRUE(watch_->Look());
  EXPECT_EQ(Told(), 2);
}

TEST_F(ImageWatchTest, ANodeWithoutThePluginIsNothingToTalkAbout) {
  EXPECT_FALSE(watch_->Look());
  EXPECT_THAT(watch_->Reports(), IsEmpty());
  EXPECT_EQ(log_.Text(), "");
  Say(1);
  watch_->Look();
  answer_ = UnavailableError("nobody serves the socket");  // an upgrade
  EXPECT_FALSE(watch_->Look());
  EXPECT_EQ(Told(), 1);
  answer_ = std::string("nonsense");
  watch_->Look();
  watch_->Look();
  EXPECT_EQ(log_.lines().size(), 1U) << log_.Text();
}

class PeerLinkTest : public testing::Test {
 protected:
  PeerLinkTest() {
    PeerLinkOptions options;
    options.host = "10.0.0.7";
    options.ask = [this](const std::string& line, Deadline) {
      lines_.push_back(line);
      return answer_;
    };
    options.peers = [this] { return peers_; };
    options.on_news = [this] { ++news_; };
    link_ = std::make_unique<PeerLink>(std::move(options), clock_, log_.logger());
  }
  static std::string Sharing(int peers, int port = 9466) {
    return R"({"version": 1, "asked": [], "images": [], "peers": {"state": "Sharing", "port": )" +
           std::to_string(port) + R"(, "count": )" + std::to_string(peers) + "}}";
  }

  fakes::SimulatedClock clock_;
  fakes::CaptureLog log_;
  std::vector<std::string> lines_;
  Result<std::string> answer_ = std::string(R"({"peers": 1})");
  std::optional<std::vector<std::string>> peers_ = std::vector<std::string>{"10.0.0.8:9466"};
  int news_ = 0;
  std::unique_ptr<PeerLink> link_;
};

TEST_F(PeerLinkTest, APluginIsToldItsPeersWhenItNeedsThem) {
  link_->See(Sharing(0));
  EXPECT_EQ(link_->address(), "10.0.0.7:9466");
  EXPECT_EQ(news_, 1);
  const std::string line = R"(peers {"own":"10.0.0.7:9466","peers":["10.0.0.8:9466"]})";
  EXPECT_THAT(lines_, ElementsAre(line));
  link_->See(Sharing(1));
  EXPECT_THAT(lines_, SizeIs(1)) << "it knows";
  EXPECT_EQ(news_, 1);
  link_->See(Sharing(0));
  EXPECT_THAT(lines_, SizeIs(2)) << "a new plugin knows none";
  clock_.Advance(std::chrono::minutes(1));
  link_->See(Sharing(1));
  EXPECT_THAT(lines_, SizeIs(3)) << "or it would forget them";
  peers_->push_back("10.0.0.9:9466");
  link_->See(Sharing(1));
  EXPECT_THAT(lines_, SizeIs(4));
  peers_->clear();
  link_->See(Sharing(2));
  EXPECT_THAT(lines_.back(), R"(peers {"own":"10.0.0.7:9466","peers":[]})");
  link_->See(Sharing(0));
  EXPECT_THAT(lines_, SizeIs(5));
}

TEST_F(PeerLinkTest, WithoutAPlanOrAServerNothingIsSaid) {
  peers_.reset();
  link_->See(Sharing(1));
  EXPECT_THAT(lines_, IsEmpty()) << "a plan that is not known is not an empty one";
  peers_ = std::vector<std::string>{"10.0.0.8:9466"};
  link_->See(R"({"version": 1, "asked": [], "images": [], "peers": {"state": "NotSharing", "count": 0}})");
  EXPECT_THAT(lines_, IsEmpty());
  EXPECT_EQ(link_->address(), "");
  EXPECT_EQ(news_, 2);  // it was shared before
  link_->See("no status");
  link_->See(R"({"version": 1, "asked": [], "images": []})");
  EXPECT_THAT(lines_, IsEmpty());
  EXPECT_EQ(news_, 2);
}

TEST_F(PeerLinkTest, ARefusalIsSaidOnceAndTriedAgain) {
  answer_ = std::string(R"({"error": "no"})");
  link_->See(Sharing(0));
  link_->See(Sharing(0));
  EXPECT_THAT(lines_, SizeIs(2));
  EXPECT_EQ(log_.Count("snapshotter not told its peers, retrying"), 1u);
}

}  // namespace
}  // namespace paceline::agent
