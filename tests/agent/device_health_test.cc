#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "agent/health/gpu_health.h"
#include "agent/health/health_watch.h"
#include "agent/health/kernel_log.h"
#include "agent/health/network_health.h"
#include "lib/base/filesystem.h"
#include "tests/fakes/simulated_clock.h"
#include "tests/fakes/temporary_folder.h"

namespace paceline::agent {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

std::vector<std::string> Texts(const std::vector<analysis::DeviceFault>& faults) {
  std::vector<std::string> texts;
  for (const analysis::DeviceFault& fault : faults) {
    std::string text = fault.device + ": " + fault.fault + " " + std::to_string(static_cast<int64_t>(fault.value));
    texts.push_back(std::move(text));
  }
  return texts;
}

class NetworkHealthTest : public testing::Test {
 protected:
  void Write(const std::string& file, const std::string& text) {
    const std::filesystem::path path = folder_ / ("sys/class/" + file);
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text << "\n";
  }
  std::vector<std::string> Look(Duration after) {
    now_ += after;
    return Texts(health_.Look(now_));
  }

  fakes::TemporaryFolder folder_;
  RealFileSystem files_{folder_.path()};
  NetworkHealth health_{files_};
  TimePoint now_;
};

TEST_F(NetworkHealthTest, TellsErrorsForAMinute) {
  Write("net/eth0/device/vendor", "0x15b3");
  Write("net/eth0/statistics/rx_errors", "1000");
  Write("net/veth1/statistics/rx_errors", "1");
  Write("infiniband/mlx5_0/ports/1/counters/symbol_error", "5");
  EXPECT_THAT(Look(0s), IsEmpty()) << "errors of before may be years old";
  Write("net/eth0/statistics/rx_errors", "1007");
  Write("net/veth1/statistics/rx_errors", "9");
  Write("infiniband/mlx5_0/ports/1/counters/symbol_error", "6");
  EXPECT_THAT(Look(10s), ElementsAre("eth0: receive errors 7", "mlx5_0 port 1: symbol errors 1"));
  Write("net/eth0/statistics/rx_errors", "1010");
  EXPECT_THAT(Look(50s), ElementsAre("eth0: receive errors 10", "mlx5_0 port 1: symbol errors 1"));
  EXPECT_THAT(Look(30s), ElementsAre("eth0: receive errors 3"));
  EXPECT_THAT(Look(60s), IsEmpty());
}

TEST_F(NetworkHealthTest, TakesACounterThatWasSetBackForANewOne) {
  Write("net/eth0/device/vendor", "0x15b3");
  Write("net/eth0/statistics/tx_errors", "1000");
  EXPECT_THAT(Look(0s), IsEmpty());
  Write("net/eth0/statistics/tx_errors", "3");
  EXPECT_THAT(Look(10s), IsEmpty());
  Write("net/eth0/statistics/tx_errors", "not a number");
  EXPECT_THAT(Look(10s), IsEmpty());
}

TEST_F(NetworkHealthTest, TellsALinkThatWasLostButNoneThatNeverWas) {
  for (const char* name : {"eth0", "eth1", "eth2"}) {
    Write(std::string("net/") + name + "/device/vendor", "0x15b3");
    Write(std::string("net/") + name + "/flags", "0x1003");
    Write(std::string("net/") + name + "/carrier", name == std::string("eth1") ? "0" : "1");
  }
  Write("infiniband/mlx5_0/ports/1/state", "4: ACTIVE");
  Write("infiniband/mlx5_0/ports/2/state", "1: DOWN");
  EXPECT_THAT(Look(0s), IsEmpty());
  Write("net/eth0/carrier", "0");
  Write("net/eth2/carrier", "0");
  Write("net/eth2/flags", "0x1002");  // somebody has switched it off
  Write("infiniband/mlx5_0/ports/1/state", "1: DOWN");
  EXPECT_THAT(Look(10s), ElementsAre("eth0: no link 1", "mlx5_0 port 1: no link 1"));
}

TEST(KernelLog, FindsXids) {
  EXPECT_EQ(ParseXid("3,1234,5678,-;NVRM: Xid (PCI:0000:18:00): 79, pid='<unknown>', GPU has fallen off the bus."),
            (Xid{"0000:18:00", 79}));
  EXPECT_EQ(ParseXid("NVRM: Xid (PCI:0000:18:00.0): 31"), (Xid{"0000:18:00.0", 31}));
  for (const char* line : {"", "NVRM: Xid", "NVRM: Xid (PCI:0000:18:00)", "NVRM: Xid (PCI:): 1", "NVRM: Xid (PCI:0): x",
                           "NVRM: Xid (PCI:0): -5", "NVRM: loading"}) {
    EXPECT_EQ(ParseXid(line), std::nullopt) << line;
  }
}

TEST(KernelLog, TellsWhatComesForTenMinutes) {
  const fakes::TemporaryFolder folder;
  std::ofstream log(folder / "kmsg");
  log << "NVRM: Xid (PCI:0000:18:00): 48, of last week\n" << std::flush;
  KernelLog kernel_log(folder / "kmsg");
  TimePoint now;
  EXPECT_THAT(Texts(kernel_log.Look(now)), IsEmpty());
  log << "NVRM: Xid (PCI:0000:18:00): 79, a\nusb 1-1: new device\nNVRM: Xid (PCI:0000:18:00): 79, b\nNVRM: Xid "
         "(PCI:0000:2"
      << std::flush;
  EXPECT_THAT(Texts(kernel_log.Look(now)), ElementsAre("GPU 0000:18:00: Xid 79 2"));
  log << "a:00): 63, c\n" << std::flush;
  now += 599s;
  EXPECT_THAT(Texts(kernel_log.Look(now)), ElementsAre("GPU 0000:18:00: Xid 79 2", "GPU 0000:2a:00: Xid 63 1"));
  now += 2s;
  EXPECT_THAT(Texts(kernel_log.Look(now)), ElementsAre("GPU 0000:2a:00: Xid 63 1"));
  EXPECT_THAT(Texts(KernelLog(folder / "none").Look(now)), IsEmpty());
}

TEST(GpuHealth, TellsWhatNvmlSays) {
  GpuHealth health(PACELINE_FAKE_NVML);
  TimePoint now;
  EXPECT_THAT(Texts(health.Look(now)), ElementsAre("GPU 0: clocks held down by the hardware for heat 1",
                                                   "GPU 0: uncorrected memory errors 2", "GPU 1: GPU is lost 1"));
  now += 10s;
  EXPECT_THAT(Texts(health.Look(now)),
              ElementsAre("GPU 0: clocks held down by the hardware for heat 1", "GPU 0: uncorrected memory errors 2",
                          "GPU 0: NVLink errors 1", "GPU 1: GPU is lost 1"));
}

TEST(GpuHealth, HasNothingToSayWithoutADriver) {
  for (const char* library : {"libno-such-library.so.1", "libc.so.6", PACELINE_BROKEN_NVML}) {
    EXPECT_THAT(GpuHealth(library).Look(TimePoint()), IsEmpty()) << library;
  }
}

TEST(HealthWatch, PutsTheNodesNameToAll) {
  const fakes::TemporaryFolder folder;
  const fakes::SimulatedClock clock;
  const std::unique_ptr<MetricsRegistry> metrics = MetricsRegistry::Create();
  HealthWatch watch({.node = "n1", .host_root = folder.path(), .nvml_library = PACELINE_FAKE_NVML}, clock, *metrics);
  EXPECT_THAT(watch.Faults(), IsEmpty());
  watch.Look();
  ASSERT_EQ(watch.Faults().size(), 3u);
  for (const analysis::DeviceFault& fault : watch.Faults()) EXPECT_EQ(fault.node, "n1");
  EXPECT_NE(metrics->Render().find("paceline_node_device_faults 3"), std::string::npos) << metrics->Render();
}

}  // namespace
}  // namespace paceline::agent
