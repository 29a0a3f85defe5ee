// The measurements themselves, short: that they give figures, say what they cannot do, and leave nothing behind.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "agent/probe/cpu_probe.h"
#include "agent/probe/disk_probe.h"
#include "agent/probe/gpu_probe.h"
#include "agent/probe/memory_probe.h"
#include "agent/probe/network_probe.h"
#include "agent/probe/probe_command.h"
#include "agent/probe/probe_suite.h"
#include "tests/fakes/capture_log.h"
#include "tests/fakes/temporary_folder.h"

namespace paceline::agent {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::HasSubstr;

std::vector<std::string> NamesOf(const Measurement& measured) {
  std::vector<std::string> names;
  for (const api::ProbeFigure& figure : measured.figures) names.push_back(figure.name);
  return names;
}

void ExpectFigures(const Measurement& measured, const std::vector<std::string>& names) {
  EXPECT_FALSE(measured.missing.has_value()) << measured.missing->message;
  EXPECT_EQ(NamesOf(measured), names);
  for (const api::ProbeFigure& figure : measured.figures) {
    EXPECT_GT(figure.value, 0) << figure.name;
    const api::ProbeMeasure* measure = api::FindProbeMeasure(figure.name);
    ASSERT_NE(measure, nullptr) << figure.name;
    EXPECT_EQ(figure.unit, measure->unit);
    EXPECT_TRUE(figure.at.has_value());
  }
}

TEST(Probe, MeasuresProcessors) {
  const Measurement measured = MeasureCpu({.slice = milliseconds(2), .slices = 3, .threads = 2}, RealClock());
  ExpectFigures(measured, {"cpuOneThread", "cpuAllThreads"});
  EXPECT_THAT(measured.figures[1].detail, HasSubstr("2 threads"));
  EXPECT_GE(UsableProcessors(), 1);
}

TEST(Probe, MeasuresMemory) {
  ExpectFigures(MeasureMemory({.bytes = 3u << 20, .length = milliseconds(2), .threads = 2}, RealClock()),
                {"memoryTriad"});
}

TEST(Probe, MeasuresTheDiskAndLeavesNoFile) {
  const fakes::TemporaryFolder folder;
  const Measurement measured =
      MeasureDisk({.folder = folder.path(), .bytes = 2u << 20, .read_length = milliseconds(2)}, RealClock());
  ASSERT_EQ(measured.figures.size(), 2u);
  const bool is_direct = measured.figures[0].name == "diskSequentialRead";
  ExpectFigures(measured, is_direct ? std::vector<std::string>{"diskSequentialRead", "diskRandomRead"}
                                    : std::vector<std::string>{"diskSequentialReadCached", "diskRandomReadCached"});
  EXPECT_TRUE(RealFileSystem().List(folder.path())->empty());
}

TEST(Probe, ADiskThatIsNotThereOrTooFullIsNotMeasured) {
  const Measurement none = MeasureDisk({.folder = "/nowhere/at/all"}, RealClock());
  EXPECT_TRUE(none.figures.empty());
  ASSERT_TRUE(none.missing.has_value());
  EXPECT_EQ(none.missing->gap, api::ProbeGap::kFailed);
  const fakes::TemporaryFolder folder;
  const Measurement full = MeasureDisk({.folder = folder.path(), .bytes = size_t{1} << 50}, RealClock());
  ASSERT_TRUE(full.missing.has_value());
  EXPECT_THAT(full.missing->message, HasSubstr("are free"));
}

Measurement MeasureGpusOf(const char* library) {
  return MeasureGpus({.library = library, .length = milliseconds(1)}, RealClock());
}

TEST(GpuProbe, WithoutADriverOrADeviceThereAreNoGpus) {
  for (const char* library : {"libcuda-of-nobody.so", PACELINE_BARE_CUDA}) {
    const Measurement measured = MeasureGpusOf(library);
    EXPECT_TRUE(measured.figures.empty());
    ASSERT_TRUE(measured.missing.has_value());
    EXPECT_EQ(measured.missing->gap, api::ProbeGap::kNotThere) << measured.missing->message;
  }
}

TEST(GpuProbe, ALibraryThatIsNoDriverIsAFailure) {
  const Measurement measured = MeasureGpusOf("libc.so.6");
  ASSERT_TRUE(measured.missing.has_value());
  EXPECT_EQ(measured.missing->gap, api::ProbeGap::kFailed);
  EXPECT_THAT(measured.missing->message, HasSubstr("lacks cuInit"));
}

TEST(GpuProbe, MeasuresEachGpuAndTheWaysBetweenThemAndHoldsNothingAfterwards) {
  // Opened once more, so that it stays loaded and can be asked.
  void* const library = dlopen(PACELINE_FAKE_CUDA, RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(library, nullptr) << dlerror();
  const auto held = reinterpret_cast<int (*)()>(dlsym(library, "paceline_fake_cuda_held"));
  const Measurement measured = MeasureGpusOf(PACELINE_FAKE_CUDA);
  ExpectFigures(measured, {"gpuHostCopy", "gpuMemoryCopy", "gpuMultiply", "gpuPeerCopy"});
  for (const api::ProbeFigure& figure : measured.figures) EXPECT_THAT(figure.detail, HasSubstr("slowest of 2"));
  EXPECT_EQ(held(), 0);
  dlclose(library);
}

TEST(GpuProbe, OneGpuThatFailsLeavesNoFigures) {
  void* const library = dlopen(PACELINE_BROKEN_CUDA, RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(library, nullptr) << dlerror();
  const Measurement measured = MeasureGpusOf(PACELINE_BROKEN_CUDA);
  EXPECT_TRUE(measured.figures.empty());
  ASSERT_TRUE(measured.missing.has_value());
  EXPECT_EQ(measured.missing->gap, api::ProbeGap::kFailed);
  EXPECT_THAT(measured.missing->message, HasSubstr("GPU 1: multiply: unspecified launch failure (719)"));
  EXPECT_EQ(reinterpret_cast<int (*)()>(dlsym(library, "paceline_fake_cuda_held"))(), 0);
  dlclose(library);
}

class NetworkProbeTest : public testing::Test {
 protected:
  std::unique_ptr<net::HttpServer> Serve(bool is_free) {
    auto server = net::HttpServer::Start({.address = "127.0.0.1"}, ProbeRoutes([is_free] { return is_free; }), nullptr,
                                         clock_, log_.logger());
    EXPECT_TRUE(server.ok()) << server.status().ToString();
    return *std::move(server);
  }
  static api::ProbePeer PeerAt(const std::string& node, const net::HttpServer& server) {
    return {node, "127.0.0.1:" + std::to_string(server.port())};
  }

  RealClock clock_;
  fakes::CaptureLog log_;
};

TEST_F(NetworkProbeTest, TakesTheFirstPeerThatIsFree) {
  const auto busy = Serve(false), idle = Serve(true);
  const Measurement measured = MeasureNetwork(
      {.peers = {PeerAt("n1", *busy), PeerAt("n2", *idle)}, .length = milliseconds(5), .connections = 3}, clock_);
  ExpectFigures(measured, {"networkThroughput", "networkRoundTrip"});
  EXPECT_EQ(measured.figures[0].detail, "from n2");
}

TEST_F(NetworkProbeTest, WithoutAFreePeerNothingIsSaidOfTheNetwork) {
  const auto busy = Serve(false);
  const Measurement measured = MeasureNetwork({.peers = {PeerAt("n1", *busy)}}, clock_);
  ASSERT_TRUE(measured.missing.has_value());
  EXPECT_EQ(measured.missing->gap, api::ProbeGap::kFailed);
  EXPECT_THAT(measured.missing->message, HasSubstr("n1"));
  const Measurement none = MeasureNetwork({}, clock_);
  ASSERT_TRUE(none.missing.has_value());
  EXPECT_EQ(none.missing->message, "no peer is named");
}

TEST_F(NetworkProbeTest, StopsAtTheMostBytesAndSaysThatItIsNoFigure) {
  const auto idle = Serve(true);
  const Measurement measured =
      MeasureNetwork({.peers = {PeerAt("n1", *idle)}, .length = milliseconds(50), .most_bytes = 1}, clock_);
  ASSERT_TRUE(measured.missing.has_value());
  EXPECT_THAT(measured.missing->message, HasSubstr("faster than can be measured"));
}

TEST(ProbeText, ComesBackAsItWas) {
  api::ProbeStatus status;
  status.method = kProbeMethod;
  status.cpu_model = "Some CPU @ 2 GHz";
  status.cpus = 96;
  status.figures = {{"cpuOneThread", 812.5, "Mop/s", WallTime{} + seconds(5), "had a processor"}};
  status.missing = {{api::ProbeCheck::kGpu, api::ProbeGap::kNotThere, "no driver"}};
  const Result<api::ProbeStatus> back = ParseProbe(RenderProbe(status));
  ASSERT_TRUE(back.ok()) << back.status().ToString();
  EXPECT_EQ(back->cpu_model, status.cpu_model);
  EXPECT_EQ(back->cpus, 96);
  ASSERT_EQ(back->figures.size(), 1u);
  EXPECT_EQ(back->figures[0].value, 812.5);
  EXPECT_EQ(back->figures[0].at, WallTime{} + seconds(5));
  ASSERT_EQ(back->missing.size(), 1u);
  EXPECT_EQ(back->missing[0].gap, api::ProbeGap::kNotThere);
}

TEST(ProbeText, WhatIsNoneIsRefused) {
  std::string long_name(500, 'x');
  for (const std::string& text : {std::string(), std::string("null"), std::string("[]"), std::string("killed"),
                                  std::string(R"({"figures": [{"value": 1}]})"),
                                  R"({"figures": [{"name": ")" + long_name + R"(", "value": 1}]})"}) {
    EXPECT_EQ(ParseProbe(text).status().code(), StatusCode::kDataLoss) << text;
  }
}

TEST(ProbeText, FindsTheModelOfTheProcessor) {
  EXPECT_EQ(CpuModelOf("processor\t: 0\nmodel name\t: AMD EPYC 9654\nmodel name\t: other\n"), "AMD EPYC 9654");
  EXPECT_EQ(CpuModelOf("processor\t: 0\nCPU part\t: 0xd4f\n"), "");
  EXPECT_EQ(CpuModelOf("model name"), "");
}

class ProbeChildTest : public testing::Test {
 protected:
  // A program in place of the agent.
  ProbeChildOptions With(const std::string& script) {
    const std::string path = folder_.path() + "/child";
    EXPECT_TRUE(RealFileSystem().WriteFileAtomically(path, "#!/bin/sh\n" + script + "\n", 0755).ok());
    return {.program = path, .scratch_folder = "/scratch", .nvml_library = "nvml", .cuda_library = "cuda"};
  }

  const fakes::TemporaryFolder folder_;
  RealClock clock_;
};

TEST_F(ProbeChildTest, IsAskedForWhatTheRequestSays) {
  const ProbeChildOptions options = With("echo \"$*\" > " + folder_.path() + "/arguments; echo '{\"cpus\": 7}'");
  const Result<api::ProbeStatus> found = RunProbeChild(
      options, {3, {api::ProbeCheck::kCpu, api::ProbeCheck::kDisk}, {{"n2", "10.0.0.2:9464"}}}, clock_, {});
  ASSERT_TRUE(found.ok()) << found.status().ToString();
  EXPECT_EQ(found->cpus, 7);
  EXPECT_EQ(*RealFileSystem().ReadFile(folder_.path() + "/arguments", 1000),
            "probe --scratch-folder /scratch --nvml-library nvml --cuda-library cuda --checks Cpu --checks Disk "
            "--peers n2=10.0.0.2:9464\n");
}

TEST_F(ProbeChildTest, OneThatFailsIsNoResult) {
  EXPECT_EQ(RunProbeChild(With("echo ill >&2; exit 3"), {}, clock_, {}).status().code(), StatusCode::kUnavailable);
  EXPECT_EQ(RunProbeChild(With("echo nonsense"), {}, clock_, {}).status().code(), StatusCode::kDataLoss);
}

TEST_F(ProbeChildTest, OneThatHangsIsKilled) {
  std::stop_source stop;
  stop.request_stop();
  EXPECT_EQ(RunProbeChild(With("exec sleep 600"), {}, clock_, stop.get_token()).status().code(),
            StatusCode::kCancelled);
  ProbeChildOptions options = With("exec sleep 600");
  options.limit = milliseconds(1);
  EXPECT_EQ(RunProbeChild(options, {}, clock_, {}).status().code(), StatusCode::kDeadlineExceeded);
}

}  // namespace
}  // namespace paceline::agent
