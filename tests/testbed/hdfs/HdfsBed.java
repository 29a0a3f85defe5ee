package dev.paceline.testbed;

import java.io.BufferedReader;
import java.io.File;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.EnumSet;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.crypto.key.KeyProvider;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.SafeModeAction;
import org.apache.hadoop.fs.permission.FsPermission;
import org.apache.hadoop.hdfs.DistributedFileSystem;
import org.apache.hadoop.hdfs.client.CreateEncryptionZoneFlag;
import org.apache.hadoop.hdfs.client.HdfsAdmin;
import org.apache.hadoop.metrics2.lib.DefaultMetricsSystem;
import org.apache.hadoop.util.ExitUtil;

/**
 * A real HDFS in one JVM, driven by lines on standard input. A line is "NUMBER COMMAND ARGUMENT..."; the answer is one line
 * "NUMBER ok ..." or "NUMBER error ..." in the file that is named at the start. The end of standard input ends the program.
 */
public final class HdfsBed {
  private final Cluster cluster;
  private final Faults faults;

  private HdfsBed(Cluster cluster) {
    this.cluster = cluster;
    this.faults = new Faults(cluster);
  }

  /** Arguments: FOLDER ANSWERS NAMENODE-ADDRESS DATANODE-PREFIX FIRST-DATANODE ALIAS-PREFIX NAMENODES DATANODES. */
  public static void main(String[] arguments) throws Exception {
    long began = System.nanoTime();
    // Several daemons of a kind share the JVM's metrics, and none of them may end it.
    DefaultMetricsSystem.setMiniClusterMode(true);
    ExitUtil.disableSystemExit();
    Cluster cluster = new Cluster(new Cluster.Shape(new File(arguments[0]), arguments[2], arguments[3], Integer.parseInt(arguments[4]),
        arguments[5], Integer.parseInt(arguments[6]), Integer.parseInt(arguments[7])));
    int status = 0;
    try (PrintStream answers = new PrintStream(arguments[1], StandardCharsets.UTF_8)) {
      cluster.start();
      answers.println("0 ok " + cluster.describe() + " after " + (System.nanoTime() - began) / 1_000_000 + " ms");
      answers.flush();
      new HdfsBed(cluster).serve(answers);
      cluster.stop();
    } catch (Throwable failure) {
      failure.printStackTrace();
      status = 1;
    }
    // Hadoop leaves threads behind that would keep the JVM alive.
    Runtime.getRuntime().halt(status);
  }

  private void serve(PrintStream answers) throws IOException {
    BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    String line;
    while ((line = lines.readLine()) != null) {
      String[] words = line.trim().split(" +", 2);
      if (words.length < 2) continue;
      answers.println(words[0] + " " + answer(words[1].split(" +")));
      answers.flush();
    }
  }

  private String answer(String[] words) {
    try {
      return ("ok " + run(words)).trim();
    } catch (Throwable failure) {
      String text = String.valueOf(failure.getMessage()).split("\n")[0];
      return "error " + failure.getClass().getSimpleName() + ": " + text;
    }
  }

  private String run(String[] words) throws Exception {
    String name = words.length > 1 ? words[1] : "";
    switch (words[0]) {
      case "status": return cluster.describe();
      case "stop": stop(name); return "";
      case "start": start(name); return cluster.describe();
      case "failover": cluster.failOver(name); return cluster.describe();
      case "observe": cluster.observe(name); return cluster.describe();
      case "blocks": return faults.blocks(name);
      case "corrupt": faults.corrupt(name, Integer.parseInt(words[2]), words[3]); return "";
      case "halve": return String.valueOf(faults.halve(name, Integer.parseInt(words[2]), words[3]));
      case "remove-replica": faults.remove(name, Integer.parseInt(words[2]), words[3]); return "";
      case "silence": faults.silence(name, true); return "";
      case "unsilence": faults.silence(name, false); return "";
      case "expire": faults.expire(name); return "";
      case "delay-acks": faults.delayAcks(Long.parseLong(name)); return "";
      case "report": faults.reportBlocks(); return "";
      case "lease": setLease(Long.parseLong(name), Long.parseLong(words[2])); return "";
      default: return administer(words, name);
    }
  }

  /** What an administrator would do with Hadoop's own tools, without the second that each costs. */
  private String administer(String[] words, String name) throws Exception {
    try (DistributedFileSystem client = cluster.client()) {
      switch (words[0]) {
        case "safemode": return String.valueOf(client.setSafeMode(SafeModeAction.valueOf(name.toUpperCase())));
        case "chmod": client.setPermission(new Path(name), new FsPermission(words[2])); return "";
        case "chown": client.setOwner(new Path(name), words[2], words.length > 3 ? words[3] : null); return "";
        case "quota": client.setQuota(new Path(name), Long.parseLong(words[2]), Long.parseLong(words[3])); return "";
        case "snapshot": client.allowSnapshot(new Path(name)); return client.createSnapshot(new Path(name), words[2]).toString();
        case "erasure-code": eraseCode(client, name, new Path(words[2])); return "";
        case "encrypt": encrypt(client, name, new Path(words[2])); return "";
        default: throw new IllegalArgumentException("unknown command " + words[0]);
      }
    }
  }

  private void stop(String name) {
    if (name.startsWith("nn")) cluster.stopNameNode(name);
    else cluster.stopDataNode(name);
  }

  private void start(String name) throws Exception {
    if (name.startsWith("nn")) {
      cluster.startNameNode(name);
    } else {
      cluster.startDataNode(name);
      cluster.waitReported(name);
    }
  }

  private void setLease(long softMs, long hardMs) throws ReflectiveOperationException {
    // The lease manager is reached by a method that only Hadoop's own package may call.
    Object names = cluster.active().getNamesystem();
    java.lang.reflect.Method getter = names.getClass().getDeclaredMethod("getLeaseManager");
    getter.setAccessible(true);
    Object leases = getter.invoke(names);
    java.lang.reflect.Method setter = leases.getClass().getDeclaredMethod("setLeasePeriod", long.class, long.class);
    setter.setAccessible(true);
    setter.invoke(leases, softMs, hardMs);
  }

  private static void eraseCode(DistributedFileSystem client, String policy, Path folder) throws IOException {
    client.enableErasureCodingPolicy(policy);
    client.mkdirs(folder);
    client.setErasureCodingPolicy(folder, policy);
  }

  private void encrypt(DistributedFileSystem client, String key, Path folder) throws Exception {
    KeyProvider keys = cluster.active().getNamesystem().getProvider();
    Configuration conf = client.getConf();
    keys.createKey(key, new KeyProvider.Options(conf).setBitLength(128));
    keys.flush();
    client.mkdirs(folder);
    new HdfsAdmin(FileSystem.getDefaultUri(conf), conf).createEncryptionZone(folder, key, EnumSet.noneOf(CreateEncryptionZoneFlag.class));
  }
}
