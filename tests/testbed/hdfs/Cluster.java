package dev.paceline.testbed;

import java.io.File;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.TimeoutException;
import java.util.stream.Stream;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.ha.HAServiceProtocol.RequestSource;
import org.apache.hadoop.ha.HAServiceProtocol.StateChangeRequestInfo;
import org.apache.hadoop.hdfs.DistributedFileSystem;
import org.apache.hadoop.hdfs.HdfsConfiguration;
import org.apache.hadoop.hdfs.server.datanode.DataNode;
import org.apache.hadoop.hdfs.server.namenode.NameNode;
import org.apache.hadoop.hdfs.server.namenode.NameNodeRpcServer;

/**
 * The NameNodes and DataNodes of one JVM, by name (nn1, dn1, dn2 ...). Every daemon has its own Configuration: the shared
 * files of the class path plus the keys bed.*, which those files refer to. Not thread-safe; HdfsBed calls it from one thread.
 */
final class Cluster {
  private static final long START_LIMIT_MS = 90_000;
  private static final StateChangeRequestInfo BY_HAND = new StateChangeRequestInfo(RequestSource.REQUEST_BY_USER_FORCED);

  /** What the program is told: folder of the daemons' data, addresses, counts. */
  record Shape(File folder, String nameNodeAddress, String dataNodePrefix, int firstDataNode, String aliasPrefix, int nameNodes, int dataNodes) {}

  private final Shape shape;
  private final Map<String, NameNode> nameNodes = new TreeMap<>();
  private final Map<String, DataNode> dataNodes = new TreeMap<>();
  private final Map<String, Configuration> configurations = new TreeMap<>();

  Cluster(Shape shape) {
    this.shape = shape;
    for (int k = 1; k <= shape.nameNodes(); k++) configurations.put("nn" + k, nameNodeConfiguration(k));
    for (int k = 1; k <= shape.dataNodes(); k++) configurations.put("dn" + k, dataNodeConfiguration(k));
  }

  private Configuration nameNodeConfiguration(int k) {
    Configuration conf = new HdfsConfiguration();
    conf.set("bed.id", "nn" + k);
    conf.set("bed.namenode", shape.nameNodeAddress());
    conf.set("bed.address", shape.nameNodeAddress());
    if (isHa()) conf.set("dfs.ha.namenode.id", "nn" + k);
    return conf;
  }

  /** A DataNode dials the NameNode by an alias whose route makes its own address the source: see docs/testbed.md. */
  private Configuration dataNodeConfiguration(int k) {
    Configuration conf = new HdfsConfiguration();
    conf.set("bed.id", "dn" + k);
    conf.set("bed.namenode", shape.aliasPrefix() + k);
    conf.set("bed.address", shape.dataNodePrefix() + (shape.firstDataNode() + k - 1));
    return conf;
  }

  boolean isHa() { return shape.nameNodes() > 1; }

  /** Formats, starts everything, makes nn1 active and waits until all DataNodes have reported. */
  void start() throws Exception {
    NameNode.format(configurations.get("nn1"));
    for (int k = 2; k <= shape.nameNodes(); k++) copyFolder(shape.folder().toPath().resolve("nn1"), shape.folder().toPath().resolve("nn" + k));
    for (int k = 1; k <= shape.nameNodes(); k++) startNameNode("nn" + k);
    if (isHa()) nameNodes.get("nn1").getRpcServer().transitionToActive(BY_HAND);
    for (int k = 1; k <= shape.dataNodes(); k++) startDataNode("dn" + k);
    for (int k = 1; k <= shape.dataNodes(); k++) waitReported("dn" + k);
    long end = System.nanoTime() + START_LIMIT_MS * 1_000_000;
    while (active().isInSafeMode()) pauseUntil(end, "the NameNode to leave safe mode");
  }

  void startNameNode(String name) throws IOException {
    nameNodes.put(name, NameNode.createNameNode(new String[0], configuration(name)));
  }

  void stopNameNode(String name) {
    NameNode running = nameNodes.remove(name);
    if (running == null) throw new IllegalArgumentException(name + " does not run");
    running.stop();
    running.joinHttpServer();
  }

  void startDataNode(String name) throws IOException {
    if (dataNodes.containsKey(name)) throw new IllegalArgumentException(name + " runs already");
    dataNodes.put(name, DataNode.createDataNode(new String[0], configuration(name)));
  }

  void stopDataNode(String name) {
    dataNode(name).shutdown();
    dataNodes.remove(name);
  }

  void waitReported(String name) throws Exception {
    long end = System.nanoTime() + START_LIMIT_MS * 1_000_000;
    while (!dataNode(name).isDatanodeFullyStarted(isHa())) pauseUntil(end, name + " to report");
  }

  void failOver(String to) throws Exception {
    if (!isHa()) throw new IllegalArgumentException("there is one NameNode only");
    for (NameNode other : nameNodes.values()) if (other.isActiveState()) rpc(other).transitionToStandby(BY_HAND);
    rpc(nameNode(to)).transitionToActive(BY_HAND);
  }

  void observe(String name) throws Exception { rpc(nameNode(name)).transitionToObserver(BY_HAND); }

  NameNode active() {
    for (NameNode candidate : nameNodes.values()) if (candidate.isActiveState()) return candidate;
    throw new IllegalStateException("no NameNode is active");
  }

  NameNode nameNode(String name) { return require(nameNodes.get(name), name); }

  DataNode dataNode(String name) { return require(dataNodes.get(name), name); }

  /** Data folder of a daemon that runs or ran. */
  File folderOf(String name) { configuration(name); return new File(shape.folder(), name); }

  List<String> dataNodeNames() { return new ArrayList<>(dataNodes.keySet()); }

  /** A fresh client of the active NameNode; the caller closes it. */
  DistributedFileSystem client() throws IOException {
    Configuration conf = new HdfsConfiguration();
    conf.set("bed.namenode", shape.nameNodeAddress());
    conf.set("fs.defaultFS", "hdfs://" + active().getNameNodeAddressHostPortString().replace("0.0.0.0", shape.nameNodeAddress()));
    return (DistributedFileSystem) FileSystem.newInstance(conf);
  }

  String describe() {
    StringBuilder text = new StringBuilder();
    for (Map.Entry<String, NameNode> entry : nameNodes.entrySet())
      text.append(entry.getKey()).append('=').append(entry.getValue().isActiveState() ? "active" : "standby").append(' ');
    for (Map.Entry<String, DataNode> entry : dataNodes.entrySet())
      text.append(entry.getKey()).append('=').append(entry.getValue().getXferAddress().getAddress().getHostAddress()).append(' ');
    return text.toString().trim();
  }

  void stop() {
    for (DataNode running : dataNodes.values()) running.shutdown();
    for (NameNode running : nameNodes.values()) running.stop();
  }

  static void pauseUntil(long endNanos, String what) throws InterruptedException, TimeoutException {
    if (System.nanoTime() > endNanos) throw new TimeoutException("waited too long for " + what);
    Thread.sleep(20);
  }

  private static NameNodeRpcServer rpc(NameNode node) { return (NameNodeRpcServer) node.getRpcServer(); }

  private Configuration configuration(String name) { return require(configurations.get(name), name); }

  private static <T> T require(T found, String name) {
    if (found == null) throw new IllegalArgumentException(name + " is not there or does not run");
    return found;
  }

  private static void copyFolder(Path from, Path to) throws IOException {
    try (Stream<Path> files = Files.walk(from)) {
      for (Path file : (Iterable<Path>) files::iterator) {
        // The lock belongs to the NameNode that made it.
        if (!file.endsWith("in_use.lock")) Files.copy(file, to.resolve(from.relativize(file).toString()));
      }
    }
  }
}
