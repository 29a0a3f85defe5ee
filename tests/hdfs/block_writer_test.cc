// BlockWriter and ParallelWriter against the DataNodes of a FakeCluster.
#include "lib/hdfs/block_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/hdfs/block_reader.h"
#include "lib/hdfs/file_writer.h"
#include "lib/hdfs/parallel_writer.h"
#include "tests/hdfs/fake_cluster.h"
#include "tests/hdfs/sample_bytes.h"

namespace paceline::hdfs {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::IsEmpty;
using Fault = FakeCluster::Fault;

class Writing : public testing::Test {
 protected:
  // Impatient, so that what takes seconds in a cluster takes a part of one here.
  DataNodeClient::Options ClientOptions() const {
    return {.client_name = "test", .probe_after = 50ms, .probe_patience = 300ms, .heartbeat_interval = 60ms};
  }
  Deadline Soon() const { return Deadline::After(clock_, 20s); }

  FakeCluster cluster_{4};
  RealClock clock_;
  DataNodeClient datanodes_{ClientOptions(), clock_};
};

class BlockWriting : public Writing {
 protected:
  std::unique_ptr<BlockWriter> Open(PipelineFailure* failure) {
    LocatedBlock block;
    block.block = {"BP-1", 77, 1, 0};
    block.nodes = {cluster_.node(0), cluster_.node(1), cluster_.node(2)};
    return BlockWriter::Open(datanodes_, {.block = block, .packets = {.packet_bytes = 8192}}, Soon(), failure);
  }
};

TEST_F(BlockWriting, SendsEveryByteOnceAndInOrder) {
  const LocatedBlock planted = cluster_.PlantBlock("", 0, {0});
  PipelineFailure failure;
  const std::string bytes = SampleBytes(100'001);
  LocatedBlock block = planted;
  block.nodes.push_back(cluster_.node(1));
  auto writer = BlockWriter::Open(datanodes_, {.block = block, .packets = {.packet_bytes = 8192}}, Soon(), &failure);
  ASSERT_NE(writer, nullptr) << failure.status.ToString();
  for (size_t at = 0; at < bytes.size(); at += 7001) {
    ASSERT_TRUE(writer->Write(std::string_view(bytes).substr(at, 7001), Soon()).ok());
    // In the middle of a chunk, which the next packet carries once more.
    if (at % 3 == 0) {
      ASSERT_TRUE(writer->Flush(BlockWriter::Durability::kDisk, Soon()).ok());
    }
  }
  EXPECT_EQ(writer->position(), bytes.size());
  const Status finished = writer->Finish(Soon());
  ASSERT_TRUE(finished.ok()) << finished.ToString();
  EXPECT_EQ(writer->acknowledged(), bytes.size());
  LocatedBlock whole = planted;
  whole.block.length_bytes = bytes.size();
  std::string out(bytes.size(), '?');
  ReadControl control;
  const Status read =
      ReadBlockRange(datanodes_, cluster_.node(3), whole, 0, std::as_writable_bytes(std::span(out)), control, Soon());
  ASSERT_TRUE(read.ok()) << read.ToString();
  EXPECT_TRUE(out == bytes);
}

TEST_F(BlockWriting, NamesTheNodeThatAnAcknowledgementBlames) {
  cluster_.SetFault(0, Fault::kBlamesSecond);
  PipelineFailure failure;
  auto writer = Open(&failure);
  ASSERT_NE(writer, nullptr);
  const std::string bytes = SampleBytes(20'000);
  writer->Write(bytes, Soon()).IgnoreError();
  EXPECT_FALSE(writer->Flush(BlockWriter::Durability::kMemory, Soon()).ok());
  EXPECT_THAT(writer->failure().bad_nodes, ElementsAre(1));
  // What the next pipeline gets is everything that was taken and not acknowledged, without a gap. Bytes that Write had
  // not come to when the failure was seen are still the caller's.
  const uint64_t taken = writer->position();
  uint64_t at = writer->acknowledged();
  for (const auto& packet : writer->TakeUnacknowledged()) {
    EXPECT_EQ(packet->offset, at);
    EXPECT_EQ(packet->data, bytes.substr(packet->offset, packet->data.size()));
    at = packet->end();
  }
  EXPECT_EQ(at, taken);
}

TEST_F(BlockWriting, KeepsThePacketsOfACutConnection) {
  cluster_.SetFault(0, Fault::kCutsInWrite);
  PipelineFailure failure;
  auto writer = Open(&failure);
  ASSERT_NE(writer, nullptr);
  const std::string bytes = SampleBytes(300'000);
  writer->Write(bytes, Soon()).IgnoreError();
  EXPECT_EQ(writer->Flush(BlockWriter::Durability::kMemory, Soon()).code(), StatusCode::kUnavailable);
  size_t kept = 0;
  for (const auto& packet : writer->TakeUnacknowledged()) kept += packet->data.size();
  EXPECT_EQ(kept, writer->position());
}

TEST_F(BlockWriting, LeavesOutOnlyTheNodeThatDoesNotAnswer) {
  cluster_.SetFault(0, Fault::kSilentInWrite);
  cluster_.SetFault(2, Fault::kHangs);
  PipelineFailure failure;
  auto writer = Open(&failure);
  ASSERT_NE(writer, nullptr);
  ASSERT_TRUE(writer->Write(SampleBytes(9000), Soon()).ok());
  EXPECT_EQ(writer->Flush(BlockWriter::Durability::kMemory, Soon()).code(), StatusCode::kDeadlineExceeded);
  EXPECT_THAT(writer->failure().bad_nodes, ElementsAre(2));
}

TEST_F(BlockWriting, WaitsForASlowPipelineWhoseNodesAnswer) {
  cluster_.SetFault(0, Fault::kSilentInWrite);
  PipelineFailure failure;
  auto writer = Open(&failure);
  ASSERT_NE(writer, nullptr);
  ASSERT_TRUE(writer->Write(SampleBytes(9000), Soon()).ok());
  // The limit of this call ends, the pipeline goes on.
  EXPECT_EQ(writer->Flush(BlockWriter::Durability::kMemory, Deadline::After(clock_, 1s)).code(),
            StatusCode::kDeadlineExceeded);
  EXPECT_TRUE(writer->failure().status.ok()) << writer->failure().status.ToString();
}

TEST_F(BlockWriting, SaysWhoseFaultASetUpIs) {
  const struct {
    Fault fault;
    size_t node;
    std::vector<size_t> bad;
  } cases[] = {{Fault::kRefuses, 0, {0}}, {Fault::kHangs, 0, {0}}};
  for (const auto& c : cases) {
    cluster_.SetFault(c.node, c.fault);
    PipelineFailure failure;
    EXPECT_EQ(Open(&failure), nullptr);
    EXPECT_EQ(failure.bad_nodes, c.bad) << failure.status.ToString();
    cluster_.SetFault(c.node, Fault::kNone);
  }
}

TEST_F(BlockWriting, KeepsAnIdlePipelineAlive) {
  PipelineFailure failure;
  auto writer = Open(&failure);
  ASSERT_NE(writer, nullptr);
  ASSERT_TRUE(writer->Write(SampleBytes(9000), Soon()).ok());
  ASSERT_TRUE(writer->Flush(BlockWriter::Durability::kMemory, Soon()).ok());
  clock_.SleepFor(300ms, {});  // several heartbeats; the fake DataNode cuts when their number is wrong
  ASSERT_TRUE(writer->Write(SampleBytes(9000), Soon()).ok());
  const Status finished = writer->Finish(Soon());
  EXPECT_TRUE(finished.ok()) << finished.ToString();
}

TEST_F(BlockWriting, AbortEndsACallInAnotherThread) {
  cluster_.SetFault(0, Fault::kSilentInWrite);
  PipelineFailure failure;
  auto writer = Open(&failure);
  ASSERT_NE(writer, nullptr);
  ASSERT_TRUE(writer->Write(SampleBytes(9000), Soon()).ok());
  std::jthread aborter([&] { writer->Abort(); });
  EXPECT_EQ(writer->Flush(BlockWriter::Durability::kMemory, Soon()).code(), StatusCode::kCancelled);
}

class ParallelWriting : public Writing {
 protected:
  std::shared_ptr<WriteContext> Context(int pipelines) {
    return std::make_shared<WriteContext>(WriteContext{
        .namenode = namenode_,
        .datanodes = datanodes_,
        .clock = clock_,
        .budget = budget_,
        .spread = spread_,
        .leases = leases_,
        .defaults = {.block_size_bytes = 1 << 20},
        .replacement = {},
        .pipelines = pipelines,
        .segment_bytes = 100'000,
        .is_concat_refused = std::make_shared<std::atomic<bool>>(false),
        .open = [](const std::string&, Deadline) { return Status(StatusCode::kUnimplemented, "no reads here"); },
    });
  }
  Result<OpenFile> CreateTarget(const std::string& path) {
    return namenode_.Create("/." + path.substr(1) + ".target", {.replication = 2, .block_size_bytes = 1 << 20}, Soon());
  }
  std::unique_ptr<ParallelWriter> Create(const std::string& path, int pipelines = 4, std::stop_token stop = {}) {
    Result<OpenFile> file = CreateTarget(path);
    EXPECT_TRUE(file.ok()) << file.status().ToString();
    if (!file.ok()) return nullptr;
    return std::make_unique<ParallelWriter>(
        Context(pipelines), *std::move(file),
        ParallelWriter::Target{path, CreateOptions{.stop = std::move(stop)}, MakeWriterId(clock_)});
  }
  Status WriteAll(ParallelWriter& writer, std::string_view bytes) {
    for (size_t at = 0; at < bytes.size(); at += 30'011) {
      RETURN_IF_ERROR(writer.Write(std::as_bytes(std::span(bytes.substr(at, 30'011))), Soon()));
    }
    return writer.Close(Soon());
  }

  NameNode namenode_{cluster_.RpcOptions(), "test", clock_};
  ByteBudget budget_{1 << 20, clock_};
  BlockSpread spread_{namenode_, clock_};
  LeaseRenewer leases_{namenode_, clock_};
};

TEST_F(ParallelWriting, JoinsTheSegmentsInOrder) {
  for (const size_t size : {0, 1, 99'999, 100'000, 100'001, 1'234'567}) {
    const std::string bytes = SampleBytes(size);
    auto writer = Create("/f");
    ASSERT_NE(writer, nullptr);
    const Status status = WriteAll(*writer, bytes);
    ASSERT_TRUE(status.ok()) << size << ": " << status.ToString();
    EXPECT_TRUE(cluster_.Contents("/f") == bytes) << size;
    EXPECT_THAT(cluster_.Paths(), ElementsAre("/f"));
  }
  EXPECT_TRUE(budget_.Take(1 << 20, clock_.Now())) << "all memory is given back";
}

TEST_F(ParallelWriting, WritesElsewhereWhatADataNodeFails) {
  for (const Fault fault : {Fault::kRefuses, Fault::kCutsInWrite, Fault::kBlamesSecond, Fault::kHangs}) {
    cluster_.SetFault(1, fault);
    const std::string bytes = SampleBytes(700'000);
    auto writer = Create("/f");
    ASSERT_NE(writer, nullptr);
    const Status status = WriteAll(*writer, bytes);
    ASSERT_TRUE(status.ok()) << static_cast<int>(fault) << ": " << status.ToString();
    EXPECT_TRUE(cluster_.Contents("/f") == bytes) << static_cast<int>(fault);
    EXPECT_THAT(cluster_.Paths(), ElementsAre("/f"));
    datanodes_.MarkAlive(cluster_.node(0));
    datanodes_.MarkAlive(cluster_.node(1));
    datanodes_.MarkAlive(cluster_.node(2));
  }
  EXPECT_GT(cluster_.Calls("abandonBlock"), 0);
}

TEST_F(ParallelWriting, GivesAnErrorAndLeavesNothingWhenNoDataNodeWorks) {
  for (size_t i = 0; i < 4; ++i) cluster_.SetFault(i, Fault::kRefuses);
  auto writer = Create("/f");
  ASSERT_NE(writer, nullptr);
  const Status status = WriteAll(*writer, SampleBytes(500'000));
  EXPECT_FALSE(status.ok());
  EXPECT_EQ(writer->Close(Soon()), status) << "the first failure again";
  writer->Abandon();
  EXPECT_THAT(cluster_.Paths(), IsEmpty());
  EXPECT_TRUE(budget_.Take(1 << 20, clock_.Now()));
}

TEST_F(ParallelWriting, AbandonDoesNotWaitForASlowDataNode) {
  for (size_t i = 0; i < 4; ++i) cluster_.SetFault(i, Fault::kSilentInWrite);
  auto writer = Create("/f");
  ASSERT_NE(writer, nullptr);
  const std::string bytes = SampleBytes(350'000);
  ASSERT_TRUE(writer->Write(std::as_bytes(std::span(bytes)), Soon()).ok());
  const TimePoint start = clock_.Now();
  writer->Abandon();
  EXPECT_LT(clock_.Now() - start, 5s);
  EXPECT_THAT(cluster_.Paths(), IsEmpty());
}

TEST_F(ParallelWriting, AStopEndsACallOfEitherWriterInAnotherThread) {
  for (size_t i = 0; i < 4; ++i) cluster_.SetFault(i, Fault::kSilentInWrite);
  const std::string bytes = SampleBytes(350'000);
  for (const bool is_single : {false, true}) {
    std::stop_source stop;
    std::unique_ptr<Writer> writer;
    if (is_single) {
      Result<OpenFile> file = CreateTarget("/f");
      ASSERT_TRUE(file.ok());
      Result<std::unique_ptr<FileWriter>> made =
          FileWriter::Make(Context(4), {.file = *file}, {"/f", CreateMode::kOverwrite, stop.get_token()}, Soon());
      ASSERT_TRUE(made.ok());
      writer = *std::move(made);
    } else {
      writer = Create("/f", 4, stop.get_token());
    }
    ASSERT_TRUE(writer->Write(std::as_bytes(std::span(bytes)), Soon()).ok());
    const TimePoint start = clock_.Now();
    {
      std::jthread stopper([&] { stop.request_stop(); });
      EXPECT_EQ(writer->Close(Soon()).code(), StatusCode::kCancelled);
    }
    EXPECT_EQ(writer->Write(std::as_bytes(std::span(bytes)), Soon()).code(), StatusCode::kCancelled);
    writer.reset();
    EXPECT_LT(clock_.Now() - start, 5s) << is_single;
    EXPECT_THAT(cluster_.Paths(), IsEmpty());
  }
  EXPECT_TRUE(budget_.Take(1 << 20, clock_.Now()));
}

TEST_F(ParallelWriting, KeepsItsTargetOpenUntilItIsClosed) {
  auto writer = Create("/f");
  ASSERT_NE(writer, nullptr);
  const std::string bytes = SampleBytes(10'000);
  ASSERT_TRUE(writer->Write(std::as_bytes(std::span(bytes)), Soon()).ok());
  ASSERT_TRUE(writer->Flush(Soon()).ok());
  EXPECT_EQ(cluster_.Calls("complete"), 0) << "its lease is what says that the writer lives";
  ASSERT_TRUE(writer->Close(Soon()).ok());
  EXPECT_EQ(cluster_.Calls("complete"), 1);
  EXPECT_TRUE(cluster_.Contents("/f") == bytes);
}

TEST_F(ParallelWriting, KeepsWithinItsMemory) {
  auto writer = Create("/f", 16);
  ASSERT_NE(writer, nullptr);
  const std::string bytes = SampleBytes(4'000'000);
  const Status status = WriteAll(*writer, bytes);
  ASSERT_TRUE(status.ok()) << status.ToString();
  EXPECT_TRUE(cluster_.Contents("/f") == bytes);
  EXPECT_LE(budget_.peak_bytes(), 1u << 20);
}

}  // namespace
}  // namespace paceline::hdfs
