package dev.paceline.testbed;

import java.io.File;
import java.io.IOException;
import java.io.RandomAccessFile;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.stream.Stream;
import org.apache.hadoop.hdfs.DistributedFileSystem;
import org.apache.hadoop.hdfs.protocol.DatanodeInfo;
import org.apache.hadoop.hdfs.protocol.HdfsConstants.DatanodeReportType;
import org.apache.hadoop.hdfs.protocol.LocatedBlock;
import org.apache.hadoop.hdfs.server.datanode.DataNode;
import org.apache.hadoop.hdfs.server.datanode.DataNodeFaultInjector;
import org.apache.hadoop.hdfs.client.BlockReportOptions;

/** Damage to replicas and misbehaviour of DataNodes, all in this JVM. Not thread-safe. */
final class Faults {
  private static final long EXPIRE_LIMIT_MS = 30_000;
  private final Cluster cluster;

  Faults(Cluster cluster) { this.cluster = cluster; }

  /** Flips each bit of 512 bytes in the middle of a replica; its checksum file stays as it was. */
  void corrupt(String path, int block, String dataNode) throws IOException {
    try (RandomAccessFile file = new RandomAccessFile(replica(path, block, dataNode), "rw")) {
      long at = Math.max(0, file.length() / 2 - 256);
      byte[] bytes = new byte[(int) Math.min(512, file.length() - at)];
      file.seek(at);
      file.readFully(bytes);
      for (int i = 0; i < bytes.length; i++) bytes[i] = (byte) ~bytes[i];
      file.seek(at);
      file.write(bytes);
    }
  }

  long halve(String path, int block, String dataNode) throws IOException {
    try (RandomAccessFile file = new RandomAccessFile(replica(path, block, dataNode), "rw")) {
      file.setLength(file.length() / 2);
      return file.length();
    }
  }

  void remove(String path, int block, String dataNode) throws IOException { Files.delete(replica(path, block, dataNode).toPath()); }

  /** offset+length@address,address,... for each block. */
  String blocks(String path) throws IOException {
    StringBuilder text = new StringBuilder();
    try (DistributedFileSystem client = cluster.client()) {
      for (LocatedBlock block : client.getClient().getLocatedBlocks(path, 0, Long.MAX_VALUE).getLocatedBlocks()) {
        text.append(' ').append(block.getStartOffset()).append('+').append(block.getBlockSize()).append('@');
        for (DatanodeInfo node : block.getLocations()) text.append(node.getIpAddr()).append(',');
      }
    }
    return text.toString().trim();
  }

  /** No heartbeats any more: the NameNode forgets the node in time, clients still reach it. */
  void silence(String dataNode, boolean silent) { cluster.dataNode(dataNode).setHeartbeatsDisabledForTests(silent); }

  /** As silence, and comes back when the NameNode has taken the node for dead. */
  void expire(String dataNode) throws Exception {
    silence(dataNode, true);
    cluster.active().getNamesystem().getBlockManager().getDatanodeManager().setHeartbeatExpireInterval(3000);
    String uuid = cluster.dataNode(dataNode).getDatanodeId().getDatanodeUuid();
    long end = System.nanoTime() + EXPIRE_LIMIT_MS * 1_000_000;
    try (DistributedFileSystem client = cluster.client()) {
      while (!isDead(client, uuid)) Cluster.pauseUntil(end, dataNode + " to be taken for dead");
    }
  }

  private static boolean isDead(DistributedFileSystem client, String uuid) throws IOException {
    for (DatanodeInfo node : client.getDataNodeStats(DatanodeReportType.DEAD)) if (node.getDatanodeUuid().equals(uuid)) return true;
    return false;
  }

  /** Every acknowledgement and packet hop of all DataNodes of this JVM takes that much longer; 0 ends it. */
  void delayAcks(long milliseconds) {
    DataNodeFaultInjector.set(milliseconds == 0 ? new DataNodeFaultInjector() : new DataNodeFaultInjector() {
      @Override public void delay() { nap(); }
      @Override public void delaySendingAckToUpstream(String upstream) { nap(); }
      private void nap() {
        try { Thread.sleep(milliseconds); } catch (InterruptedException stopping) { Thread.currentThread().interrupt(); }
      }
    });
  }

  void reportBlocks() throws IOException {
    for (String name : cluster.dataNodeNames()) {
      DataNode node = cluster.dataNode(name);
      node.triggerBlockReport(new BlockReportOptions.Factory().setIncremental(false).build());
    }
  }

  private File replica(String path, int block, String dataNode) throws IOException {
    long id;
    try (DistributedFileSystem client = cluster.client()) {
      id = client.getClient().getLocatedBlocks(path, 0, Long.MAX_VALUE).get(block).getBlock().getBlockId();
    }
    String wanted = "blk_" + id;
    try (Stream<Path> files = Files.walk(cluster.folderOf(dataNode).toPath())) {
      return files.filter(file -> file.getFileName().toString().equals(wanted)).findFirst()
          .orElseThrow(() -> new IOException(dataNode + " has no replica of block " + block + " of " + path)).toFile();
    }
  }
}
