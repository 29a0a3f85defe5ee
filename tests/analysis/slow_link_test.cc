#include "analysis/slow_link.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "analysis/tables_json.h"
#include "lib/base/json.h"

namespace paceline::analysis {
namespace {

constexpr uint64_t kComm = 0x5ace;

// A ring of four ranks on two nodes, with a rate for each link.
Tables Ring(const std::vector<double>& rates, uint64_t operations = 100) {
  Tables tables;
  for (int32_t rank = 0; rank < 4; ++rank) {
    ProcessView process;
    process.world_rank = 10 + rank;
    process.node = rank < 2 ? "n1" : "n2";
    process.state = ProcessState::kRunning;
    CommView comm;
    comm.id = kComm;
    comm.name = "dp";
    comm.rank = rank;
    comm.ranks = 4;
    process.comms = {comm};
    tables.processes.push_back(process);
    tables.links.push_back({kComm, rank, (rank + 1) % 4, operations, 1 << 20, rates[static_cast<size_t>(rank)]});
  }
  return tables;
}

TEST(SlowLink, NamesBothEndsOfTheLinkThatStandsOut) {
  Tables tables = Ring({1e9, 1.1e8, 0.9e9, 1.2e9});
  tables.missing = {"n3: no answer"};
  const std::optional<Verdict> verdict = FindSlowLinks(tables, {});
  ASSERT_TRUE(verdict);
  EXPECT_EQ(verdict->category, Category::kNetwork);
  EXPECT_EQ(verdict->communicator, "dp");
  EXPECT_EQ(verdict->edge->from, 11);
  EXPECT_EQ(verdict->edge->to, 12);
  EXPECT_EQ(verdict->edge->channel, -1);
  EXPECT_EQ(verdict->culprits, (std::vector<Culprit>{{11, "n1", ""}, {12, "n2", ""}}));
  EXPECT_EQ(verdict->cause, "the network from rank 11 to rank 12 carries 0.11 of what the other links carry");
  EXPECT_GT(verdict->confidence, 0.8);
  EXPECT_EQ(verdict->not_visible, std::vector<std::string>{"links of n3: no answer"});
}

TEST(SlowLink, LinksWithinAFactorOfTwoAreAlike) {
  EXPECT_FALSE(FindSlowLinks(Ring({1e9, 0.6e9, 1.1e9, 1e9}), {}));
  EXPECT_TRUE(FindSlowLinks(Ring({1e9, 0.4e9, 1.1e9, 1e9}), {}));
}

TEST(SlowLink, TooLittleIsNoEvidence) {
  EXPECT_FALSE(FindSlowLinks(Ring({1e9, 1e7, 1e9, 1e9}, 4), {})) << "few operations";
  Tables two = Ring({1e9, 1e7, 1e9, 1e9});
  two.links.resize(2);
  EXPECT_FALSE(FindSlowLinks(two, {})) << "nothing to compare with";
  EXPECT_FALSE(FindSlowLinks({}, {}));
}

TEST(SlowLink, OfSeveralCommunicatorsTheWorstLinkIsNamed) {
  Tables tables = Ring({1e9, 0.4e9, 1e9, 1e9});
  for (const LinkView& link : Ring({1e9, 1e9, 1e9, 1e8}).links) {
    tables.links.push_back(link);
    tables.links.back().comm = 7;  // whose ranks no process has
  }
  const std::optional<Verdict> verdict = FindSlowLinks(tables, {});
  ASSERT_TRUE(verdict);
  EXPECT_TRUE(verdict->culprits.empty()) << "a rank that is not in the tables is not made up";
  EXPECT_EQ(verdict->edge->from, -1);
}

// Adds to each rank the two sides of one operation: what it has sent, and what it has received.
void AddSteps(Tables& tables, const std::vector<uint64_t>& sent, const std::vector<uint64_t>& received) {
  for (int32_t rank = 0; rank < 4; ++rank) {
    ProcessView& process = tables.processes[static_cast<size_t>(rank)];
    CallView call;
    call.kind = CallKind::kColl;
    call.comm = 0;
    call.sequence = 7;
    process.calls = {call};
    ProxyView send, receive;
    for (ProxyView* proxy : {&send, &receive}) {
      proxy->comm = 0;
      proxy->call = 0;
      proxy->rank = rank;
    }
    send.is_send = true;
    send.peer = (rank + 1) % 4;
    send.done = sent[static_cast<size_t>(rank)];
    receive.peer = (rank + 3) % 4;
    receive.done = received[static_cast<size_t>(rank)];
    process.proxies = {send, receive};
  }
}

TEST(SlowLink, ASocketThatTakesDataAndDoesNotDeliverItShowsByTheStepsUnderWay) {
  Tables tables = Ring({1e9, 1e9, 1e9, 1e9});
  AddSteps(tables, {14, 15, 12, 13}, {13, 14, 11, 12});
  LinkGaps gaps;
  for (int look = 0; look < 7; ++look) gaps.Add(tables);
  EXPECT_FALSE(FindSlowLinks(tables, gaps)) << "too few looks";
  gaps.Add(tables);
  const std::optional<Verdict> verdict = FindSlowLinks(tables, gaps);
  ASSERT_TRUE(verdict);
  EXPECT_EQ(verdict->edge->from, 11);
  EXPECT_EQ(verdict->edge->to, 12);
  EXPECT_EQ(verdict->cause,
            "the network from rank 11 to rank 12 holds 4.0 steps at a time that were sent and have not arrived");
  EXPECT_EQ(verdict->evidence[0].value, 4);
}

TEST(SlowLink, AStepHereAndThereIsUnderWayOnEveryLink) {
  Tables tables = Ring({1e9, 1e9, 1e9, 1e9});
  AddSteps(tables, {14, 14, 14, 14}, {13, 12, 13, 13});
  LinkGaps gaps;
  for (int look = 0; look < 20; ++look) gaps.Add(tables);
  EXPECT_FALSE(FindSlowLinks(tables, gaps));
}

TEST(SlowLink, WhatStandsStillComesFirst) {
  Tables tables = Ring({1e9, 1e7, 1e9, 1e9});
  EXPECT_EQ(DiagnoseSlowdown(tables, {}).category, Category::kNetwork);
  tables.processes[0].state = ProcessState::kDead;
  EXPECT_EQ(DiagnoseSlowdown(tables, {}).category, Category::kProcessLost);
  EXPECT_EQ(DiagnoseSlowdown(Ring({1e9, 1e9, 1e9, 1e9}), {}).category, Category::kNone);
}

TEST(SlowLink, ComesBackFromTheTablesText) {
  const Tables tables = Ring({1e9, 1e7, 1e9, 1e9});
  Result<Tables> read = ParseTables(DumpJson(WriteTables(tables)));
  ASSERT_TRUE(read.ok()) << read.status().ToString();
  ASSERT_EQ(read->links.size(), 4u);
  EXPECT_EQ(read->links[1].comm, kComm);
  EXPECT_EQ(read->links[1].to, 2);
  EXPECT_EQ(read->links[1].operations, 100u);
  EXPECT_EQ(read->links[1].bytes_per_second, 1e7);
  Tables all = tables;
  Append(*std::move(read), all);
  EXPECT_EQ(all.links.size(), 8u);
  EXPECT_EQ(ParseTables(R"({"version":1,"links":[{"comm":"zz"}]})").status().code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace paceline::analysis
