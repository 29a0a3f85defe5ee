#include <gtest/gtest.h>
#include <cstdlib>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "cli/image_commands.h"
#include "cli/image_places.h"
#include "cli/image_report.h"
#include "cli/image_tables.h"
#include "tests/blocks_image/oci_layout.h"
#include "tests/blocks_image/tar_writer.h"
#include "tests/fakes/temporary_folder.h"

namespace paceline::cli {
namespace {

using blocks::LayoutLayer;
using blocks::TarWriter;

LayoutLayer Layer(const std::string& folder) {
  const std::string tar = TarWriter().Directory(folder).File(folder + "f", std::string(200000, 'x')).Finish();
  return {tar, tar};
}

class ImageCommandsTest : public testing::Test {
 protected:
  struct Ran {
    int code = 0;
    std::string out, err;
  };
  Ran Run(const std::string& arguments, OutputFormat format = OutputFormat::kTable) {
    CLI::App app("", "pacectl");
    std::string output = "table";
    const std::unique_ptr<ImageCommands> commands = ImageCommands::AddTo(app, &output);
    app.parse("image " + arguments);
    EXPECT_TRUE(commands->is_given());
    testing::internal::CaptureStdout();
    testing::internal::CaptureStderr();
    Ran ran;
    ran.code = commands->Run(format, RealClock());
    ran.out = testing::internal::GetCapturedStdout();
    ran.err = testing::internal::GetCapturedStderr();
    return ran;
  }
  nlohmann::json RunJson(const std::string& arguments) {
    const Ran ran = Run(arguments, OutputFormat::kJson);
    EXPECT_EQ(ran.code, 0) << ran.err;
    return nlohmann::json::parse(ran.out, nullptr, false);
  }

  std::string store() const { return " --platform linux/amd64 --store file://" + folder_ / "store"; }
  std::string source() const { return "oci:" + layout_.folder() + ":app "; }

  fakes::TemporaryFolder folder_;
  blocks::OciLayout layout_{folder_ / "layout"};
  const blocks::Digest original_ = layout_.AddImage("app", {Layer("a/"), Layer("b/")});
};

TEST_F(ImageCommandsTest, ConvertsInspectsAndVerifies) {
  const nlohmann::json converted = RunJson("convert " + source() + store());
  EXPECT_EQ(converted["source"], original_.ToString());
  EXPECT_EQ(converted["platform"], "linux/amd64");
  ASSERT_EQ(converted["layers"].size(), 2U);
  EXPECT_EQ(converted["layers"][0]["fileBytes"], 200000);
  EXPECT_EQ(converted["layers"][0]["wasThere"], false);
  const nlohmann::json again = RunJson("convert " + source() + store());
  EXPECT_EQ(again["layers"][1]["wasThere"], true);
  EXPECT_EQ(again["image"], converted["image"]);
  for (const std::string& name :
       {source(), original_.ToString(), converted["image"].get<std::string>(), converted["tag"].get<std::string>()}) {
    EXPECT_EQ(RunJson("inspect " + name + store())["image"], converted["image"]) << name;
  }
  const nlohmann::json verified = RunJson("verify " + source() + store());
  EXPECT_EQ(verified["source"], original_.ToString());
  for (const nlohmann::json& layer : verified["layers"]) EXPECT_EQ(layer["ok"], true);
  EXPECT_NE(Run("convert " + source() + store()).out.find("converted 0 of 2 layers"), std::string::npos);
}

TEST_F(ImageCommandsTest, VerifyNamesTheLayerThatIsDamaged) {
  const nlohmann::json converted = RunJson("convert " + source() + store());
  const std::string index = converted["layers"][1]["index"].get<std::string>().substr(7);
  std::ofstream(folder_ / "store/blobs/sha256/" + index, std::ios::app) << "x";
  const Ran ran = Run("verify " + source() + store(), OutputFormat::kJson);
  EXPECT_EQ(ran.code, 3);
  const nlohmann::json verified = nlohmann::json::parse(ran.out, nullptr, false);
  EXPECT_EQ(verified["layers"][0]["ok"], true);
  EXPECT_EQ(verified["layers"][1]["ok"], false);
  EXPECT_NE(verified["layers"][1]["error"].get<std::string>().find(index), std::string::npos);
}

TEST_F(ImageCommandsTest, LeavesAReportForWhoWaits) {
  const std::string file = folder_ / "report";
  std::ofstream(file) << std::string(9000, 'x');  // of an earlier try
  const auto read = [&] {
    std::ifstream in(file);
    return nlohmann::json::parse(in, nullptr, false);
  };
  const nlohmann::json converted = RunJson("convert " + source() + store() + " --report " + file);
  const nlohmann::json report = read();
  EXPECT_EQ(report["image"], converted["image"]);
  EXPECT_EQ(report["source"], original_.ToString());
  EXPECT_EQ(report["layers"], 2);
  EXPECT_EQ(report["convertedLayers"], 2);
  uint64_t stored_bytes = 0, source_bytes = 0;
  for (const nlohmann::json& layer : converted["layers"]) {
    stored_bytes += layer["storedBytes"].get<uint64_t>();
    source_bytes += layer["sourceBytes"].get<uint64_t>();
  }
  EXPECT_EQ(report["storedBytes"], stored_bytes);
  EXPECT_EQ(report["sourceBytes"], source_bytes);
  RunJson("convert " + source() + store() + " --report " + file);
  EXPECT_EQ(read()["convertedLayers"], 0);
  EXPECT_EQ(read()["storedBytes"], stored_bytes);

  EXPECT_EQ(Run("convert oci:" + layout_.folder() + ":other" + store() + " --report " + file).code, 1);
  EXPECT_EQ(read()["error"]["code"], "NotFound");
  EXPECT_NE(read()["error"]["message"].get<std::string>().find("there are: app"), std::string::npos);
  EXPECT_EQ(Run("convert " + source() + store() + " --report /none/report").code, 1);
}

TEST(ConversionReport, StaysWithinWhatATerminationMessageHolds) {
  for (const std::string& message : {std::string(9000, 'x'), std::string(9000, '"'), std::string(9000, '\x01')}) {
    const std::string report = FailureReport(DataLossError(message));
    EXPECT_LE(report.size(), 4096U);
    const nlohmann::json read = nlohmann::json::parse(report, nullptr, false);
    EXPECT_EQ(read["error"]["code"], "DataLoss");
    EXPECT_GE(read["error"]["message"].get<std::string>().size(), 512U);
  }
}

TEST_F(ImageCommandsTest, SaysWhatToDo) {
  const struct {
    std::string arguments;
    const char* says;
  } cases[] = {
      {"convert oci:" + layout_.folder() + ":other" + store(), "there are: app"},
      {"convert nonsense --store file:///x", "oci:FOLDER"},
      {"convert " + source() + "--store nonsense", "file:///FOLDER"},
      {"convert " + source() + "--platform linux/arm64 --store file://" + folder_ / "s", "not made for linux/arm64"},
      {"convert " + source() + "--chunk-size 5000B" + store(), "--chunk-size"},
      {"convert " + source() + "--chunk-size 8MiB" + store(), "--chunk-size"},
      {"convert " + source() + "--store file://" + layout_.folder(), "no store of block images"},
      {"inspect " + source() + "--store file://" + folder_ / "none", "no store of block images"},
  };
  for (const auto& c : cases) {
    const Ran ran = Run(c.arguments);
    EXPECT_EQ(ran.code, 1) << c.arguments;
    EXPECT_NE(ran.err.find(c.says), std::string::npos) << c.arguments << ": " << ran.err;
  }
  layout_.AddImage("more", {Layer("c/")});
  ASSERT_EQ(Run("convert " + source() + store()).code, 0);
  const Ran ran = Run("inspect oci:" + layout_.folder() + ":more" + store());
  EXPECT_EQ(ran.code, 1);
  EXPECT_NE(ran.err.find("pacectl image convert"), std::string::npos) << ran.err;
}

TEST(MountTable, ShowsWhatTheServerTells) {
  const nlohmann::json stats = {{"reads", 12},
                                {"originBytes", 3 << 20},
                                {"chunkHits", "many"},
                                {"future", 1},
                                {"hotSet", {{"state", "Fetched"}, {"chunks", 7}, {"bytes", 2048}}},
                                {"cache", {{"usedBytes", 1024}, {"fullDisk", false}}}};
  const Table table = MountTable(stats);
  const std::vector<std::vector<std::string>> rows = {{"reads", "12"},
                                                      {"from the store", "3.0 MiB"},
                                                      {"hot set, chunks", "7"},
                                                      {"hot set, in the store", "2.0 KiB"},
                                                      {"cache, used", "1.0 KiB"}};
  EXPECT_EQ(table.rows, rows);
  EXPECT_TRUE(MountTable(nlohmann::json::array()).rows.empty());
}

}  // namespace
}  // namespace paceline::cli
