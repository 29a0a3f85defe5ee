// The whole operator against the fake API server: what a user's objects become. The test plays kubelet, the scheduler
// and the Job controller.
#include "operator/operator.h"

#include "tests/operator/operator_fixture.h"

namespace paceline::operator_ {
namespace {

using kube::ObjectKey;

const kube::Resource kJobSets{"jobset.x-k8s.io", "v1alpha2", "jobsets", "JobSet", true};

TEST_F(OperatorTest, ATrainingJobGoesFromCreationToComplete) {
  const auto replica = Start();
  const Json job = TrainingJob("llama");
  ASSERT_TRUE(Eventually([&] { return Exists(kube::kJobs, "llama-g0"); }));
  const Json child = Get(kube::kJobs, "llama-g0");
  EXPECT_EQ(child["spec"]["completions"], 2);
  EXPECT_EQ(child["spec"]["parallelism"], 2);
  EXPECT_EQ(child["spec"]["completionMode"], "Indexed");
  EXPECT_EQ(child["spec"]["template"]["spec"]["subdomain"], "llama");
  std::map<std::string, std::string> env;
  for (const Json& entry : child["spec"]["template"]["spec"]["containers"][0]["env"])
    env[entry["name"]] = entry.value("value", "(field)");
  EXPECT_EQ(env["MASTER_ADDR"], "llama-g0-0.llama");
  EXPECT_EQ(env["WORLD_SIZE"], "2");
  EXPECT_EQ(env["NODE_RANK"], "(field)");
  EXPECT_EQ(env["PACELINE_RUN"], RunNameOf(job));
  const Json service = Get(kube::kServices, "llama");
  EXPECT_EQ(service["spec"]["clusterIP"], "None");
  EXPECT_EQ(service["spec"]["publishNotReadyAddresses"], true);
  ASSERT_TRUE(Eventually([&] { return Phase(Get(kTrainingRuns, RunNameOf(job))) == "Pending"; }));

  for (int index : {0, 1}) RunPod(MakePod(child, index)["metadata"]["name"], "n" + std::to_string(index));
  // Without a stage volume nobody can see steps: it runs when its containers do.
  ASSERT_TRUE(Eventually([&] { return Phase(Get(kTrainingRuns, RunNameOf(job))) == "Running"; }));
  ASSERT_TRUE(Eventually([&] { return Phase(Get(kTrainingJobs, "llama")) == "Running"; }));
  const Json run = Get(kTrainingRuns, RunNameOf(job));
  EXPECT_EQ(run["spec"]["workers"], 2);
  EXPECT_EQ(run["status"]["workers"].size(), 2u);
  EXPECT_EQ(Condition(run, "FirstStepSeen", "reason"), "NotVisible");
  EXPECT_EQ(run["metadata"]["ownerReferences"][0]["uid"], job["metadata"]["uid"]);

  for (int index : {0, 1}) EndPod("llama-g0-" + std::to_string(index) + "-abcde", 0);
  EndJob("llama-g0", "Complete");
  ASSERT_TRUE(Eventually([&] { return Phase(Get(kTrainingJobs, "llama")) == "Complete"; }));
  ASSERT_TRUE(Eventually([&] { return Phase(Get(kTrainingRuns, RunNameOf(job))) == "Succeeded"; }));
}

TEST_F(OperatorTest, AFailedWorkerStartsTheGangAgainAsTheNextGeneration) {
  const auto replica = Start();
  const Json job = TrainingJob("llama", {{"restartPolicy", {{"mode", "OnFailure"}, {"maxRestarts", 1}}}});
  ASSERT_TRUE(Eventually([&] { return Exists(kube::kJobs, "llama-g0"); }));
  RunPod(MakePod(Get(kube::kJobs, "llama-g0"), 0)["metadata"]["name"], "n1");
  EndPod("llama-g0-0-abcde", 3);
  EndJob("llama-g0", "Failed");
  ASSERT_TRUE(
      Eventually([&] { return Condition(Get(kTrainingJobs, "llama"), "Restarting", "reason") == "ContainerFailed"; }));
  ASSERT_TRUE(Eventually([&] { return Exists(kube::kJobs, "llama-g1"); }));
  ASSERT_TRUE(Eventually([&] { return Phase(Get(kTrainingRuns, RunNameOf(job))) == "Failed"; }));
  EXPECT_NE(Condition(Get(kTrainingRuns, RunNameOf(job)), "Failed", "message").find("exit code 3"), std::string::npos);
  ASSERT_TRUE(Eventually([&] { return Exists(kTrainingRuns, RunNameOf(job, 1)); }));
  EndJob("llama-g1", "Failed");
  ASSERT_TRUE(Eventually([&] { return Phase(Get(kTrainingJobs, "llama")) == "Failed"; }));
  EXPECT_EQ(Get(kTrainingJobs, "llama")["status"]["restarts"], 1);
  EXPECT_FALSE(Exists(kube::kJobs, "llama-g2"));
}

TEST_F(OperatorTest, AForeignServiceOfTheSameNameIsLeftAlone) {
  server_.Put(kube::kServices, {{"apiVersion", "v1"},
                                {"kind", "Service"},
                                {"metadata", {{"name", "llama"}, {"namespace", "team"}}},
                                {"spec", {{"clusterIP", "10.0.0.7"}}}});
  const auto replica = Start();
  TrainingJob("llama");
  ASSERT_TRUE(Eventually(
      [&] { return Condition(Get(kTrainingJobs, "llama"), "ConfigurationValid", "reason") == "NameConflict"; }));
  EXPECT_EQ(Get(kube::kServices, "llama")["spec"]["clusterIP"], "10.0.0.7");
  EXPECT_FALSE(Exists(kube::kJobs, "llama-g0"));
  ASSERT_TRUE(Eventually([&] { return EventNotes("NameConflict").find("another name") != std::string::npos; }));
}

TEST_F(OperatorTest, AJobThatAnOlderCrdLetInIsToldWhatIsWrong) {
  const auto replica = Start();
  TrainingJob("bad", {{"workers", "two"}});
  ASSERT_TRUE(Eventually([&] { return Condition(Get(kTrainingJobs, "bad"), "ConfigurationValid") == "False"; }));
  EXPECT_NE(Condition(Get(kTrainingJobs, "bad"), "ConfigurationValid", "message").find("spec.workers"),
            std::string::npos);
  ASSERT_TRUE(Eventually([&] { return EventNotes("InvalidSpec").find("spec.workers") != std::string::npos; }));
  TrainingJob("none", {{"workers", 0}});
  ASSERT_TRUE(Eventually(
      [&] { return Condition(Get(kTrainingJobs, "none"), "ConfigurationValid", "reason") == "InvalidSpec"; }));
  EXPECT_FALSE(Exists(kube::kJobs, "none-g0"));
}

TEST_F(OperatorTest, WhatTheServerRefusesBecomesACondition) {
  server_.Inject({.method = "POST", .target_part = "/jobs", .times = 1, .status = 422});
  const auto replica = Start();
  TrainingJob("llama");
  ASSERT_TRUE(Eventually(
      [&] { return Condition(Get(kTrainingJobs, "llama"), "ConfigurationValid", "reason") == "JobRejected"; }));
}

TEST_F(OperatorTest, MakesNothingTwiceOverRestartsAndLostAnswers) {
  TrainingJob("llama");
  server_.Inject({.method = "POST", .times = 2, .status = 0, .is_carried_out = true});
  for (int round = 0; round < 5; ++round) {
    const auto replica = Start();
    ASSERT_TRUE(Eventually([&] { return replica->get().is_ready(); }));
    if (round % 2 == 1) server_.DropWatches(fakes::WatchEnd::kBroken);
    if (round % 2 == 0) server_.Compact();
    EXPECT_TRUE(replica->Stop().ok());
  }
  const auto last = Start();
  ASSERT_TRUE(Eventually([&] {
    return Exists(kube::kJobs, "llama-g0") && Exists(kube::kServices, "llama") &&
           server_.All(kTrainingRuns).size() == 1;
  }));
  EXPECT_EQ(server_.All(kube::kJobs).size(), 1u);
  EXPECT_EQ(server_.All(kube::kServices).size(), 1u);
}

TEST_F(OperatorTest, AnEnabledForeignJobGetsARunAndAnOrdinaryOneDoesNot) {
  const auto replica = Start();
  const auto indexed_job = [&](const char* name, Json annotations) {
    return server_.Put(
        kube::kJobs,
        {{"apiVersion", "batch/v1"},
         {"kind", "Job"},
         {"metadata", {{"name", name}, {"namespace", "team"}, {"annotations", annotations}}},
         {"spec",
          {{"completions", 2},
           {"parallelism", 2},
           {"completionMode", "Indexed"},
           {"template",
            {{"metadata", Json::object()}, {"spec", {{"containers", Json::array({{{"name", "main"}}})}}}}}}}});
  };
  const Json enabled = indexed_job("enabled", {{"paceline.dev/enabled", "true"}});
  const Json plain = indexed_job("plain", Json::object());
  const Json bad = indexed_job(
      "bad", {{"paceline.dev/enabled", "true"}, {"paceline.dev/trace", "perhaps"}, {"paceline.dev/no-such", "1"}});
  for (const Json& job : {enabled, plain, bad}) RunPod(MakePod(job, 0)["metadata"]["name"], "n1");
  ASSERT_TRUE(Eventually([&] { return Phase(Get(kTrainingRuns, RunNameOf(enabled))) == "Starting"; }));
  EXPECT_EQ(Get(kTrainingRuns, RunNameOf(enabled))["spec"]["job"]["kind"], "Job");
  ASSERT_TRUE(
      Eventually([&] { return Condition(Get(kTrainingRuns, RunNameOf(bad)), "ConfigurationValid") == "False"; }));
  EXPECT_NE(Condition(Get(kTrainingRuns, RunNameOf(bad)), "ConfigurationValid", "message").find("paceline.dev/trace"),
            std::string::npos);
  ASSERT_TRUE(Eventually([&] { return EventNotes("InvalidAnnotation").find("no-such") != std::string::npos; }));
  EXPECT_FALSE(Exists(kTrainingRuns, RunNameOf(plain)));
}

TEST_F(OperatorTest, AForeignJobFromBeforeTheStartGetsItsRunToo) {
  // Items of a list of a built-in kind come without apiVersion and kind.
  const Json job = server_.Put(
      kube::kJobs,
      {{"apiVersion", "batch/v1"},
       {"kind", "Job"},
       {"metadata", {{"name", "early"}, {"namespace", "team"}, {"annotations", {{"paceline.dev/enabled", "true"}}}}},
       {"spec", {{"completions", 2}, {"parallelism", 2}, {"completionMode", "Indexed"}}}});
  const auto replica = Start();
  ASSERT_TRUE(Eventually([&] { return Exists(kTrainingRuns, RunNameOf(job)); }));
  const Json run = Get(kTrainingRuns, RunNameOf(job));
  EXPECT_EQ(run["spec"]["job"]["apiVersion"], "batch/v1");
  EXPECT_EQ(run["metadata"]["ownerReferences"][0]["kind"], "Job");
}

TEST_F(OperatorTest, AKindWhoseCrdComesLaterIsFound) {
  config_.discovery_period = std::chrono::milliseconds(50);
  const auto replica = Start();
  ASSERT_TRUE(Eventually([&] { return replica->get().is_ready(); }));
  server_.AddResource(kJobSets);
  const Json set = server_.Put(
      kJobSets,
      {{"apiVersion", "jobset.x-k8s.io/v1alpha2"},
       {"kind", "JobSet"},
       {"metadata", {{"name", "set"}, {"namespace", "team"}, {"annotations", {{"paceline.dev/enabled", "true"}}}}},
       {"spec",
        {{"replicatedJobs",
          Json::array({{{"name", "workers"}, {"replicas", 1}, {"template", {{"spec", {{"parallelism", 2}}}}}}})}}}});
  ASSERT_TRUE(Eventually([&] { return Exists(kTrainingRuns, RunNameOf(set)); }));
  EXPECT_EQ(Get(kTrainingRuns, RunNameOf(set))["spec"]["workers"], 2);
}

TEST_F(OperatorTest, EveryNodeHasAPlanThatNamesItsJobs) {
  server_.Put(kube::kNodes, {{"apiVersion", "v1"}, {"kind", "Node"}, {"metadata", {{"name", "n1"}}}});
  const auto replica = Start();
  ASSERT_TRUE(Eventually([&] { return !Get(kNodePlans, "n1", "").is_null(); }));
  EXPECT_EQ(Get(kNodePlans, "n1", "")["metadata"]["ownerReferences"][0]["kind"], "Node");
  const Json job = TrainingJob("llama");
  ASSERT_TRUE(Eventually([&] { return Exists(kube::kJobs, "llama-g0"); }));
  RunPod(MakePod(Get(kube::kJobs, "llama-g0"), 0)["metadata"]["name"], "n1");
  ASSERT_TRUE(Eventually(
      [&] { return Get(kNodePlans, "n1", "").value("/spec/jobs/0/run"_json_pointer, "") == RunNameOf(job); }));
  EndPod("llama-g0-0-abcde", 0);
  ASSERT_TRUE(Eventually([&] { return !Get(kNodePlans, "n1", "").contains("/spec/jobs/0"_json_pointer); }));
}

TEST_F(OperatorTest, ThePlansOfARunsNodesNameEachOtherAsPeers) {
  for (const char* node : {"n1", "n2", "n3"}) {
    server_.Put(kube::kNodes, {{"apiVersion", "v1"}, {"kind", "Node"}, {"metadata", {{"name", node}}}});
  }
  const auto replica = Start();
  for (const char* node : {"n1", "n2", "n3"}) {
    ASSERT_TRUE(Eventually([&] { return !Get(kNodePlans, node, "").is_null(); }));
  }
  const auto share = [&](const std::string& node, const std::string& address) {
    Json plan = Get(kNodePlans, node, "");
    plan["metadata"].erase("resourceVersion");
    plan["status"]["peerAddress"] = address;
    server_.Put(kNodePlans, plan);
  };
  const auto peers_of = [&](const std::string& node) {
    std::string peers;
    const Json plan = Get(kNodePlans, node, "");
    for (const Json& peer : plan.value("/spec/peers"_json_pointer, Json::array())) {
      peers += peer["node"].get<std::string>() + "=" + peer["address"].get<std::string>() + " ";
    }
    return peers;
  };
  share("n1", "10.0.0.1:9466");
  share("n2", "10.0.0.2:9466");
  share("n3", "10.0.0.3:9466");
  TrainingJob("llama");
  ASSERT_TRUE(Eventually([&] { return Exists(kube::kJobs, "llama-g0"); }));
  RunPod(MakePod(Get(kube::kJobs, "llama-g0"), 0)["metadata"]["name"], "n1");
  RunPod(MakePod(Get(kube::kJobs, "llama-g0"), 1)["metadata"]["name"], "n2");
  EXPECT_TRUE(Eventually([&] { return peers_of("n1") == "n2=10.0.0.2:9466 "; })) << peers_of("n1");
  EXPECT_TRUE(Eventually([&] { return peers_of("n2") == "n1=10.0.0.1:9466 "; })) << peers_of("n2");
  EXPECT_EQ(peers_of("n3"), "");
  EndPod("llama-g0-1-abcde", 0);
  EXPECT_TRUE(Eventually([&] { return peers_of("n2").empty(); })) << peers_of("n2");
}

TEST_F(OperatorTest, APlanForgetsAJobThatWentBeforeItsPods) {
  server_.Put(kube::kNodes, {{"apiVersion", "v1"}, {"kind", "Node"}, {"metadata", {{"name", "n1"}}}});
  const auto replica = Start();
  TrainingJob("llama");
  ASSERT_TRUE(Eventually([&] { return Exists(kube::kJobs, "llama-g0"); }));
  RunPod(MakePod(Get(kube::kJobs, "llama-g0"), 0)["metadata"]["name"], "n1");
  ASSERT_TRUE(Eventually([&] { return Get(kNodePlans, "n1", "").contains("/spec/jobs/0"_json_pointer); }));
  server_.Erase(kTrainingJobs, {"team", "llama"});
  ASSERT_TRUE(Eventually([&] { return !Exists(kTrainingJobs, "llama"); }));
  server_.Erase(kube::kPods, {"team", "llama-g0-0-abcde"});
  EXPECT_TRUE(Eventually([&] { return !Get(kNodePlans, "n1", "").contains("/spec/jobs/0"_json_pointer); }));
}

TEST_F(OperatorTest, APlanFollowsAForeignJobWhoseRunCameAfterItsPods) {
  server_.Put(kube::kNodes, {{"apiVersion", "v1"}, {"kind", "Node"}, {"metadata", {{"name", "n1"}}}});
  Json job = server_.Put(kube::kJobs, {{"apiVersion", "batch/v1"},
                                       {"kind", "Job"},
                                       {"metadata", {{"name", "late"}, {"namespace", "team"}}},
                                       {"spec",
                                        {{"completions", 1},
                                         {"parallelism", 1},
                                         {"completionMode", "Indexed"},
                                         {"template", {{"spec", {{"containers", {{{"name", "main"}}}}}}}}}}});
  RunPod(MakePod(job, 0)["metadata"]["name"], "n1");
  const auto replica = Start();
  ASSERT_TRUE(Eventually([&] { return !Get(kNodePlans, "n1", "").is_null(); }));
  EXPECT_FALSE(Get(kNodePlans, "n1", "").contains("/spec/jobs/0"_json_pointer));
  const auto annotate = [&](const char* name, const char* value) {
    job = Get(kube::kJobs, "late");
    job["metadata"].erase("resourceVersion");
    job["metadata"]["annotations"][name] = value;
    server_.Put(kube::kJobs, job);
  };
  annotate("paceline.dev/enabled", "true");
  const auto planned = [&](const char* field) {
    return Get(kNodePlans, "n1", "").value(Json::json_pointer(std::string("/spec/jobs/0/") + field), Json());
  };
  ASSERT_TRUE(Eventually([&] { return planned("run") == RunNameOf(job); }));
  EXPECT_NE(planned("traced"), true);
  annotate("paceline.dev/trace", "true");
  EXPECT_TRUE(Eventually([&] { return planned("traced") == true; }));
}

TEST_F(OperatorTest, ReadsTheFirstStepFromTheAgentsReport) {
  server_.Put(kube::kNodes, {{"apiVersion", "v1"}, {"kind", "Node"}, {"metadata", {{"name", "n1"}}}});
  const auto replica = Start();
  const Json job = TrainingJob("llama", {{"workers", 1}});
  ASSERT_TRUE(Eventually([&] { return Exists(kube::kJobs, "llama-g0"); }));
  Json pod = MakePod(Get(kube::kJobs, "llama-g0"), 0);
  pod["metadata"]["annotations"]["paceline.dev/injected"] = "identity,stage";
  pod["metadata"].erase("resourceVersion");
  server_.Put(kube::kPods, pod);
  ASSERT_TRUE(Eventually([&] { return !Get(kNodePlans, "n1", "").is_null(); }));
  Json plan = Get(kNodePlans, "n1", "");
  plan["metadata"].erase("resourceVersion");
  plan["status"] = {{"heartbeat", FormatRfc3339(clock_.WallNow())}};
  server_.Put(kNodePlans, plan);
  RunPod(pod["metadata"]["name"], "n1");
  ASSERT_TRUE(Eventually([&] { return Phase(Get(kTrainingRuns, RunNameOf(job))) == "Starting"; }));
  plan = Get(kNodePlans, "n1", "");
  plan["metadata"].erase("resourceVersion");
  const WallTime step = clock_.WallNow() + seconds(2);
  plan["status"] = {
      {"heartbeat", FormatRfc3339(clock_.WallNow())},
      {"pods", Json::array({{{"uid", pod["metadata"]["uid"]},
                             {"namespace", "team"},
                             {"name", pod["metadata"]["name"]},
                             {"stages", Json::array({{{"name", "first_step"}, {"at", FormatRfc3339Micro(step)}}})}}})}};
  server_.Put(kNodePlans, plan);
  ASSERT_TRUE(Eventually([&] { return Phase(Get(kTrainingRuns, RunNameOf(job))) == "Running"; }));
  const Json run = Get(kTrainingRuns, RunNameOf(job));
  EXPECT_EQ(Condition(run, "FirstStepSeen"), "True");
  double sum = 0;
  for (const Json& stage : run["status"]["workers"][0]["stages"]) {
    sum += ToSeconds(*ParseRfc3339(stage["end"].get<std::string>()) - *ParseRfc3339(stage["start"].get<std::string>()));
  }
  EXPECT_NEAR(sum, run["status"]["wallSeconds"].get<double>(), 0.001);
}

TEST_F(OperatorTest, OneOfTwoReplicasLeadsAndTheOtherTakesOver) {
  config_.leader_election = true;
  config_.retry_period = std::chrono::milliseconds(100);
  config_.renew_deadline = seconds(1);
  config_.lease_duration = seconds(2);
  auto a = Start();
  ASSERT_TRUE(Eventually([&] { return a->get().is_leading(); }));
  auto b = Start();
  ASSERT_TRUE(Eventually([&] { return b->get().is_ready(); }));
  EXPECT_FALSE(b->get().is_leading());
  EXPECT_TRUE(a->Stop().ok());
  ASSERT_TRUE(Eventually([&] { return b->get().is_leading(); }));
  TrainingJob("llama");
  ASSERT_TRUE(Eventually([&] { return Exists(kube::kJobs, "llama-g0"); }));
}

// The elector's thread starts the controllers; the end of the program must not meet it halfway (seen by TSan).
TEST_F(OperatorTest, EndsCleanlyWhenItIsStoppedAsItBeginsToLead) {
  config_.leader_election = true;
  config_.retry_period = std::chrono::milliseconds(100);
  for (int round = 0; round < 5; ++round) {
    const auto replica = Start();
    ASSERT_TRUE(Eventually([&] { return replica->get().is_leading(); }));
    EXPECT_TRUE(replica->Stop().ok());
    EXPECT_FALSE(replica->get().is_leading());
  }
}

TEST_F(OperatorTest, KeepsTheLastEndedRuns) {
  const auto replica = Start();
  const Json job =
      TrainingJob("llama", {{"runHistoryLimit", 1}, {"restartPolicy", {{"mode", "OnFailure"}, {"maxRestarts", 2}}}});
  for (int generation = 0; generation < 2; ++generation) {
    const std::string child = "llama-g" + std::to_string(generation);
    ASSERT_TRUE(
        Eventually([&] { return Exists(kube::kJobs, child) && Exists(kTrainingRuns, RunNameOf(job, generation)); }));
    Json failed = Get(kube::kJobs, child);
    failed["metadata"].erase("resourceVersion");
    failed["status"] = {
        {"conditions",
         Json::array({{{"type", "Failed"},
                       {"status", "True"},
                       {"lastTransitionTime", FormatRfc3339(clock_.WallNow() - std::chrono::minutes(10))}}})}};
    server_.Put(kube::kJobs, failed);
  }
  ASSERT_TRUE(Eventually([&] { return !Exists(kTrainingRuns, RunNameOf(job, 0)); }));
  EXPECT_TRUE(Exists(kTrainingRuns, RunNameOf(job, 1)));
}

TEST_F(OperatorTest, ShowsRunsNodesAndOpenIncidentsAsMetrics) {
  for (const char* name : {"n1", "n2"}) {
    server_.Put(kube::kNodes, {{"apiVersion", "v1"},
                               {"kind", "Node"},
                               {"metadata", {{"name", name}}},
                               {"spec", {{"unschedulable", std::string_view(name) == "n2"}}},
                               {"status", {{"conditions", Json::array({{{"type", "Ready"}, {"status", "True"}}})}}}});
  }
  const auto incident = [this](const char* name, Json status) {
    server_.Put(kIncidents, {{"apiVersion", api::kApiVersion},
                             {"kind", "Incident"},
                             {"metadata", {{"name", name}, {"namespace", "team"}}},
                             {"spec", {{"job", {{"name", "llama"}}}, {"run", "llama-run"}}},
                             {"status", std::move(status)}});
  };
  const Json verdict = {{"category", "Network"}, {"cause", "one link is slow"}};
  incident("open", {{"state", "Open"}, {"verdict", verdict}});
  incident("over", {{"state", "Resolved"}, {"verdict", verdict}});
  incident("begun", Json::object());
  const auto replica = Start();
  const Json job = TrainingJob("llama");
  const std::string run = "paceline_run_workers{job=\"llama\",namespace=\"team\",run=\"" + RunNameOf(job) + "\"} 2\n";
  ASSERT_TRUE(Eventually([&] { return replica->MetricsPage().find(run) != std::string::npos; }));
  const std::string page = replica->MetricsPage();
  for (const char* line : {
           "paceline_nodes{state=\"All\"} 2\n",
           "paceline_nodes{state=\"Cordoned\"} 1\n",
           "paceline_nodes{state=\"Silent\"} 2\n",
           "paceline_node_cordoned{by=\"other\",node=\"n2\"} 1\n",
           "paceline_open_incidents{category=\"Network\",job=\"llama\",namespace=\"team\",run=\"llama-run\"} 1\n",
           "paceline_runs{namespace=\"team\",phase=\"Pending\"} 1\n",
       }) {
    EXPECT_NE(page.find(line), std::string::npos) << line << page;
  }
  server_.Erase(kTrainingJobs, {"team", "llama"});
  ASSERT_TRUE(Eventually([&] { return replica->MetricsPage().find(run) == std::string::npos; })) << "gone with its job";
}

}  // namespace
}  // namespace paceline::operator_
