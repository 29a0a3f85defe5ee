"""Checks of the part hdfs. Each takes the cluster as it finds it and leaves it whole."""
import os
import tempfile

from bed import BUSYBOX, Failure, Skip, apply, check, exec_in, nodes, run, testbed, wait_for, wait_ready

FOLDER = "/smoke"


def hdfs(*arguments, **options):
    return testbed("hdfs", *arguments, **options)


def mode():
    return os.environ["HDFS_MODE"]


def put(name, size):
    """A file of random bytes in HDFS; returns the bytes."""
    content = os.urandom(size)
    with tempfile.NamedTemporaryFile() as file:
        file.write(content)
        file.flush()
        hdfs("dfs", "-mkdir", "-p", FOLDER)
        hdfs("dfs", "-put", "-f", file.name, f"{FOLDER}/{name}")
    return content


def expect_same(name, content):
    with tempfile.TemporaryDirectory() as folder:
        hdfs("dfs", "-get", f"{FOLDER}/{name}", f"{folder}/copy")
        with open(f"{folder}/copy", "rb") as file:
            if file.read() != content:
                raise Failure("the bytes differ")


def need_jvm():
    if mode() != "jvm":
        raise Skip("needs --hdfs-mode jvm")


def need_second_namenode():
    if os.environ["HDFS_URI"] != "hdfs://testbed":
        raise Skip("needs --hdfs-namenodes 2")


def live_datanodes():
    return hdfs("dfsadmin", "-report", "-live").count("Hostname:")


@check("HDFS: put, get and a healthy fsck", part="hdfs")
def put_get():
    content = put("file", 20_000_003)
    expect_same("file", content)
    if "is HEALTHY" not in hdfs("fsck", FOLDER):
        raise Failure(hdfs("fsck", FOLDER))


@check("HDFS: WebHDFS from the machine", part="hdfs")
def webhdfs():
    if mode() == "kerberos":
        raise Skip("WebHDFS of a secure cluster wants a ticket by SPNEGO")
    content = put("web", 100_000)
    with tempfile.NamedTemporaryFile() as file:
        run("curl", "-sfL", "--max-time", "20", "-o", file.name, f"{os.environ['HDFS_WEB_URL']}/webhdfs/v1{FOLDER}/web?op=OPEN")
        if file.read() != content:
            raise Failure("the bytes differ")


@check("HDFS: a DataNode dies and comes back, the file stays readable", part="hdfs")
def datanode_dies():
    before = live_datanodes()
    if before < 2:
        raise Skip("needs two DataNodes")
    content = put("survivor", 5_000_000)
    hdfs("kill", "dn1")
    try:
        expect_same("survivor", content)
    finally:
        hdfs("start", "dn1")
    wait_for("all DataNodes", lambda: live_datanodes() == before)


@check("HDFS: a cut DataNode does not answer", part="hdfs")
def cut():
    address = os.environ["HDFS_WEB_URL"].replace("http://", "").split(":")[0].rsplit(".", 1)[0] + ".41"
    probe = ["timeout", "3", "bash", "-c", f"exec 3<>/dev/tcp/{address}/9866"]
    run(*probe)
    hdfs("cut", "dn1")
    try:
        if run(*probe, ok=False)[0] == 0:
            raise Failure("it answers")
    finally:
        hdfs("heal", "dn1")
    wait_for("an answer", lambda: run(*probe, ok=False)[0] == 0, timeout=10)


@check("HDFS: a corrupt replica is found", part="hdfs")
def corrupt():
    need_jvm()
    content = put("damaged", 1_000_000)
    for address in hdfs("do", "blocks", f"{FOLDER}/damaged").split("@")[1].strip().rstrip(",").split(",")[:1]:
        hdfs("do", "corrupt", f"{FOLDER}/damaged", "0", f"dn{int(address.split('.')[-1]) - 40}")
    if live_datanodes() > 1:
        expect_same("damaged", content)


@check("HDFS: the other NameNode takes over", part="hdfs")
def failover():
    need_second_namenode()
    content = put("before", 1_000_000)
    hdfs("failover", "nn2")
    try:
        expect_same("before", content)
        expect_same("after", put("after", 1_000_000))
    finally:
        hdfs("failover", "nn1")


@check("HDFS: a pod reaches the NameNode and a DataNode", part="hdfs")
def from_pod():
    if "KUBECONFIG" not in os.environ:
        raise Skip("part kubernetes is not up")
    apply("client.yaml", name="hdfs-client", image=BUSYBOX, node=nodes()[0])
    wait_ready("hdfs-client")
    address = os.environ["HDFS_WEB_URL"].replace("http://", "").split(":")[0]
    for host, port in ((address, 8020), (address.rsplit(".", 1)[0] + ".41", 9866)):
        # busybox's nc ends with 1 when it cannot connect, and else waits for the other side.
        probe = f"timeout 3 nc -w 2 {host} {port} </dev/null >/dev/null; test $? -ne 1"
        wait_for(f"{host}:{port}", lambda command=probe: exec_in("hdfs-client", "sh", "-c", command) is not None)


@check("HDFS: what the checks made can be removed", part="hdfs")
def remove():
    hdfs("dfs", "-rm", "-r", "-f", "-skipTrash", FOLDER)
