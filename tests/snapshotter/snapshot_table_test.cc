#include "snapshotter/plugin/snapshot_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <thread>

#include "tests/fakes/memory_filesystem.h"
#include "tests/fakes/simulated_clock.h"

namespace paceline::snapshotter {
namespace {

using fakes::MemoryFileSystem;
using testing::AnyOf;
using testing::ElementsAre;

class SnapshotTableTest : public testing::Test {
 protected:
  SnapshotTableTest() { Open(); }

  void Open() {
    Result<std::unique_ptr<SnapshotTable>> table = SnapshotTable::Open("/root", files_, clock_);
    ASSERT_TRUE(table.ok()) << table.status().ToString();
    table_ = *std::move(table);
  }

  Status Add(const std::string& name, const std::string& parent = "", SnapshotKind kind = SnapshotKind::kActive) {
    return table_->Add({name, parent, kind, {{"l", name}, {"empty", ""}}}, [](auto&, auto&) { return Status(); })
        .status();
  }
  Status Commit(const std::string& key, const std::string& name) {
    return table_
        ->Commit(key, {name, "", SnapshotKind::kCommitted, {{"c", "1"}}},
                 [](SnapshotRecord& snapshot) {
                   snapshot.size_bytes = 5;
                   return Status();
                 })
        .status();
  }
  std::vector<std::string> Names() const {
    std::vector<std::string> names;
    for (const SnapshotPtr& snapshot : table_->All()) names.push_back(snapshot->name);
    return names;
  }

  fakes::SimulatedClock clock_;
  MemoryFileSystem files_{clock_};
  std::unique_ptr<SnapshotTable> table_;
};

TEST_F(SnapshotTableTest, LayersBecomeCommittedOneOnTheOther) {
  ASSERT_TRUE(Add("extract-1").ok());
  ASSERT_TRUE(Commit("extract-1", "base").ok());
  ASSERT_TRUE(Add("extract-2", "base").ok());
  ASSERT_TRUE(Commit("extract-2", "top").ok());
  ASSERT_TRUE(Add("container", "top").ok());
  EXPECT_THAT(Names(), ElementsAre("base", "container", "top"));
  const Result<SnapshotPtr> base = table_->Find("base");
  ASSERT_TRUE(base.ok());
  EXPECT_EQ((*base)->kind, SnapshotKind::kCommitted);
  EXPECT_EQ((*base)->labels, (SnapshotLabels{{"c", "1"}}));
  EXPECT_EQ((*base)->size_bytes, 5u);
  const Result<std::vector<SnapshotPtr>> parents = table_->ParentsOf(**table_->Find("container"));
  ASSERT_TRUE(parents.ok());
  ASSERT_EQ(parents->size(), 2u);
  EXPECT_EQ((*parents)[0]->name, "top");
  EXPECT_EQ((*parents)[1]->name, "base");
}

TEST_F(SnapshotTableTest, SaysNoAsContainerdExpects) {
  ASSERT_TRUE(Add("a").ok());
  ASSERT_TRUE(Add("other").ok());
  ASSERT_TRUE(Commit("other", "base").ok());
  ASSERT_TRUE(Add("child", "base").ok());
  const struct {
    const char* what;
    Status status;
    StatusCode code;
  } cases[] = {
      {"a key that is there", Add("a"), StatusCode::kAlreadyExists},
      {"a parent that is not", Add("b", "nobody"), StatusCode::kNotFound},
      {"a parent that is not committed", Add("b", "a"), StatusCode::kInvalidArgument},
      {"no key", Add(""), StatusCode::kInvalidArgument},
      {"commit of nothing", Commit("nobody", "x"), StatusCode::kNotFound},
      {"commit to a name that is there", Commit("a", "base"), StatusCode::kAlreadyExists},
      {"commit of what is committed", Commit("base", "x"), StatusCode::kAborted},
      {"removal of nothing", table_->Remove("nobody").status(), StatusCode::kNotFound},
      {"removal below others", table_->Remove("base").status(), StatusCode::kAborted},
      {"update of nothing", table_->UpdateLabels("nobody", {}).status(), StatusCode::kNotFound},
  };
  for (const auto& c : cases) EXPECT_EQ(c.status.code(), c.code) << c.what << ": " << c.status.ToString();
  ASSERT_TRUE(table_->Remove("child").ok());
  EXPECT_TRUE(table_->Remove("base").ok());
  EXPECT_THAT(Names(), ElementsAre("a"));
}

TEST_F(SnapshotTableTest, LabelsAreReplacedOrChangedByKey) {
  ASSERT_TRUE(Add("a").ok());
  EXPECT_EQ((*table_->Find("a"))->labels, (SnapshotLabels{{"l", "a"}}));
  LabelChange one{{{"x", "1"}, {"not named", "2"}}, false, {"x"}};
  ASSERT_TRUE(table_->UpdateLabels("a", one).ok());
  EXPECT_EQ((*table_->Find("a"))->labels, (SnapshotLabels{{"l", "a"}, {"x", "1"}}));
  ASSERT_TRUE(table_->UpdateLabels("a", {{}, false, {"l"}}).ok());
  EXPECT_EQ((*table_->Find("a"))->labels, (SnapshotLabels{{"x", "1"}}));
  ASSERT_TRUE(table_->UpdateLabels("a", {{{"y", "3"}, {"z", ""}}, true, {}}).ok());
  Open();
  EXPECT_EQ((*table_->Find("a"))->labels, (SnapshotLabels{{"y", "3"}}));
}

TEST_F(SnapshotTableTest, WhatWasAnsweredForSurvivesAPowerCut) {
  ASSERT_TRUE(Add("a").ok());
  ASSERT_TRUE(Commit("a", "base").ok());
  ASSERT_TRUE(Add("b", "base").ok());
  const uint64_t last = (*table_->Find("b"))->id;
  files_.LosePower();
  Open();
  EXPECT_THAT(Names(), ElementsAre("b", "base"));
  EXPECT_EQ(table_->Remove("base").status().code(), StatusCode::kAborted);
  ASSERT_TRUE(Add("c").ok());
  EXPECT_GT((*table_->Find("c"))->id, last);
}

TEST_F(SnapshotTableTest, AnIdIsNeverGivenAgain) {
  std::set<uint64_t> ids;
  for (int round = 0; round < 4; ++round) {
    ASSERT_TRUE(Add("a").ok());
    EXPECT_TRUE(ids.insert((*table_->Find("a"))->id).second);
    ASSERT_TRUE(table_->Remove("a").ok());
    if (round % 2 == 0) files_.LosePower();
    Open();
    if (table_->Find("a").ok()) {  // the power cut undid the removal
      ASSERT_TRUE(table_->Remove("a").ok());
    }
  }
}

TEST_F(SnapshotTableTest, AFailedWriteChangesNothing) {
  ASSERT_TRUE(Add("a").ok());
  files_.FailNext(MemoryFileSystem::Operation::kWrite, "/root/records", ENOSPC);
  EXPECT_EQ(Add("b").code(), StatusCode::kResourceExhausted);
  files_.FailNext(MemoryFileSystem::Operation::kSync, "/root/records", EIO);
  EXPECT_FALSE(Commit("a", "base").ok());
  files_.FailNext(MemoryFileSystem::Operation::kRemove, "/root/records", EIO);
  EXPECT_FALSE(table_->Remove("a").ok());
  EXPECT_THAT(Names(), ElementsAre("a"));
  Open();
  EXPECT_THAT(Names(), ElementsAre("a"));
  EXPECT_TRUE(Commit("a", "base").ok());
}

TEST_F(SnapshotTableTest, AFailedMakerLeavesNothingAndFreesTheParent) {
  ASSERT_TRUE(Add("a").ok());
  ASSERT_TRUE(Commit("a", "base").ok());
  uint64_t id = 0;
  const Status made = table_
                          ->Add({"b", "base", SnapshotKind::kActive, {}},
                                [&](SnapshotRecord& snapshot, const std::vector<SnapshotPtr>& parents) {
                                  id = snapshot.id;
                                  EXPECT_EQ(parents.size(), 1u);
                                  EXPECT_TRUE(table_->IsLive(id));
                                  EXPECT_EQ(table_->Remove("base").status().code(), StatusCode::kAborted);
                                  return UnavailableError("no mount");
                                })
                          .status();
  EXPECT_EQ(made.code(), StatusCode::kUnavailable);
  EXPECT_FALSE(table_->IsLive(id));
  EXPECT_TRUE(table_->Remove("base").ok());
}

TEST_F(SnapshotTableTest, DamagedRecordsAreSetAside) {
  ASSERT_TRUE(Add("a").ok());
  files_.AddFile("/root/records/77.json", "{\"version\":1");
  files_.AddFile("/root/records/78.json", EncodeSnapshot(**table_->Find("a")));
  files_.AddFile("/root/snapshots/90/fs/x", "");
  Open();
  EXPECT_THAT(Names(), ElementsAre("a"));
  EXPECT_EQ(table_->damaged_records(), 2);
  EXPECT_TRUE(files_.Stat("/root/records/77.json.damaged").ok());
  ASSERT_TRUE(Add("b").ok());
  EXPECT_GT((*table_->Find("b"))->id, 90u);
}

TEST_F(SnapshotTableTest, OneOfManyMakesASnapshot) {
  std::atomic<int> there{0}, made{0};
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 8; ++i) {
      threads.emplace_back([&] {
        for (int round = 0; round < 50; ++round) {
          const Status status = Add("same");
          if (!status.ok()) {
            EXPECT_THAT(status.code(), AnyOf(StatusCode::kAlreadyExists, StatusCode::kAborted));
            continue;
          }
          ++made;
          EXPECT_EQ(++there, 1) << "two threads have made the same snapshot";
          --there;
          EXPECT_TRUE(table_->Remove("same").ok());
        }
      });
    }
  }
  // How often each of them comes first is the scheduler's business; one of them always does.
  EXPECT_GE(made, 1);
  EXPECT_THAT(Names(), ElementsAre());
}

}  // namespace
}  // namespace paceline::snapshotter
