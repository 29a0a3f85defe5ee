#include "agent/csi/deps_order.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "lib/base/json.h"

namespace paceline::agent {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

deps::KeyInputs Inputs() {
  deps::KeyInputs inputs;
  inputs.ns = "team";
  inputs.image = "sha256:" + std::string(64, 'a');
  inputs.machine.arch = "x86_64";
  inputs.command = "python3 -m venv /opt/venv";
  inputs.capture = {"/opt/venv", "/srv/conda"};
  return inputs;
}

VolumeSpec Spec() {
  VolumeSpec spec;
  spec.type = kDepsVolumeType;
  spec.pod.ns = "team";
  spec.attributes = {{"capture", R"(["/opt/venv","/srv/conda"])"},
                     {"key", DumpJson(deps::KeyDocument(Inputs()))},
                     {"pinned", "true"},
                     {"pinnedReason", "every requirement names one version"},
                     {"ttl", "24h"}};
  return spec;
}

TEST(DepsOrder, ReadsWhatTheWebhookWrites) {
  const Result<DepsOrder> order = ReadDepsOrder(Spec());
  ASSERT_TRUE(order.ok()) << order.status().ToString();
  EXPECT_THAT(order->capture, ElementsAre("/opt/venv", "/srv/conda"));
  EXPECT_EQ(KeyOf(*order), deps::KeyOf(deps::KeyDocument(Inputs())).Hex());
  EXPECT_TRUE(order->pinning.is_pinned);
  EXPECT_EQ(order->ttl, std::chrono::hours(24));

  VolumeSpec bare;
  bare.attributes = {{"reason", "envFrom"}};
  const Result<DepsOrder> without = ReadDepsOrder(bare);
  ASSERT_TRUE(without.ok());
  EXPECT_FALSE(without->key.has_value());
  EXPECT_EQ(without->reason, "envFrom");
}

TEST(DepsOrder, RefusesWhatWouldReachElsewhere) {
  const auto key = [](auto change) {
    deps::KeyInputs inputs = Inputs();
    change(inputs);
    return DumpJson(deps::KeyDocument(inputs));
  };
  const struct {
    const char* attribute;
    std::string value;
    const char* message;
  } cases[] = {
      {"capture", "/opt/venv", "JSON list"},
      {"capture", "[]", "JSON list"},
      {"capture", R"([7])", "absolute paths"},
      {"capture", R"(["opt"])", "absolute paths"},
      {"capture", R"(["/"])", "absolute paths"},
      {"capture", R"(["/opt/../etc"])", "absolute paths"},
      {"capture", R"(["/opt/./venv"])", "absolute paths"},
      {"capture", R"(["/opt//venv"])", "absolute paths"},
      {"capture", R"(["/opt/venv/"])", "absolute paths"},
      {"capture", R"(["/opt","/opt/venv"])", "lies in /opt"},
      {"capture", R"(["/opt/venv"])", "other directories than the key"},
      {"key", "{}", "not a key document"},
      {"key", "[", "attribute key"},
      {"key", key([](deps::KeyInputs& k) { k.ns = "other"; }), "another namespace"},
      {"key", key([](deps::KeyInputs& k) { k.base = "sha256:1"; }), "not empty"},
      {"pinned", "yes", "neither true nor false"},
      {"ttl", "-1h", "duration"},
      {"ttl", "soon", "duration"},
      {"size", "1Gi", "unknown attribute"},
  };
  for (const auto& c : cases) {
    VolumeSpec spec = Spec();
    spec.attributes[c.attribute] = c.value;
    const Result<DepsOrder> order = ReadDepsOrder(spec);
    EXPECT_EQ(order.status().code(), StatusCode::kInvalidArgument) << c.attribute << " " << c.value;
    EXPECT_THAT(order.status().message(), HasSubstr(c.message)) << c.attribute << " " << c.value;
  }
  VolumeSpec read_only = Spec();
  read_only.is_read_only = true;
  EXPECT_FALSE(ReadDepsOrder(read_only).ok());
}

TEST(DepsOrder, TornAndFlippedAttributesNeverGiveAnotherKey) {
  const std::string key = Spec().attributes["key"], capture = Spec().attributes["capture"];
  for (size_t i = 0; i < key.size(); ++i) {
    VolumeSpec spec = Spec();
    spec.attributes["key"] = key.substr(0, i);
    EXPECT_TRUE(i == 0 || !ReadDepsOrder(spec).ok()) << i;
    spec.attributes["key"] = key;
    spec.attributes["key"][i] ^= 1;
    const Result<DepsOrder> order = ReadDepsOrder(spec);
    if (order.ok()) EXPECT_EQ(DumpJson(deps::KeyDocument(*order->key)), spec.attributes["key"]) << i;
  }
  for (size_t i = 0; i < capture.size(); ++i) {
    VolumeSpec spec = Spec();
    spec.attributes["capture"].resize(i);
    EXPECT_FALSE(ReadDepsOrder(spec).ok()) << i;
  }
}

}  // namespace
}  // namespace paceline::agent
