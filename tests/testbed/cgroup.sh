# Cgroups of a node: one child of this shell's own cgroup in every hierarchy, so that limits above it still
# hold. Inside the node a cgroup namespace makes it "/", so kubelet needs no setting of its own, and a limit
# on that folder limits the whole node.
# shellcheck shell=bash

cgroup_parent() { echo "paceline-testbed-$BED_NAME"; }

# Prints one folder per v1 hierarchy (or the one of v2) in which node groups are made.
cgroup_bases() {
  local controllers path folder
  if [ "$(stat -f -c %T /sys/fs/cgroup)" = cgroup2fs ]; then
    # Only the root may hold processes and hand controllers down at the same time.
    echo /sys/fs/cgroup
    return
  fi
  while IFS=: read -r _ controllers path; do
    case $controllers in
      "") continue ;;
      name=systemd) folder=/sys/fs/cgroup/systemd ;;
      name=*) continue ;;
      *) folder=/sys/fs/cgroup/$controllers ;;
    esac
    [ -d "$folder" ] && echo "$folder${path%/}"
  done </proc/self/cgroup
}

node_cgroups_up() { # node; records the folders in RUN/NODE.cgroups
  local base parent
  for base in $(cgroup_bases); do
    parent=$base/$(cgroup_parent)
    mkdir -p "$parent"
    case $base in
      /sys/fs/cgroup)
        echo "+cpu +cpuset +memory +pids +io" >"$base/cgroup.subtree_control"
        echo "+cpu +cpuset +memory +pids +io" >"$parent/cgroup.subtree_control"
        ;;
      */cpuset*)
        cat "$base/cpuset.cpus" >"$parent/cpuset.cpus"
        cat "$base/cpuset.mems" >"$parent/cpuset.mems"
        echo 1 >"$parent/cgroup.clone_children"
        ;;
    esac
    mkdir -p "$parent/$1"
    echo "$parent/$1"
  done >"$RUN/$1.cgroups"
}

remove_cgroup_tree() { find "$1" -depth -type d -exec rmdir {} + 2>/dev/null; [ ! -d "$1" ]; }

node_cgroups_down() { # node
  local folder
  [ -e "$RUN/$1.cgroups" ] || return 0
  # A killed container stays in its group until the kernel has reaped it.
  while read -r folder; do
    for _ in {1..100}; do remove_cgroup_tree "$folder" && break; sleep 0.05; done
  done <"$RUN/$1.cgroups"
  rm -f "$RUN/$1.cgroups"
}

instance_cgroups_down() {
  local base parent
  for base in $(cgroup_bases); do
    parent=$base/$(cgroup_parent)
    [ ! -d "$parent" ] || remove_cgroup_tree "$parent" || say "cannot remove $parent: a process is still in it"
  done
}

join_node_cgroups() { # node; moves the calling shell
  local folder
  # Under v2 a group that hands controllers down holds no processes itself: node-init has made "init" for them.
  while read -r folder; do
    [ ! -d "$folder/init" ] || folder=$folder/init
    echo "$BASHPID" >"$folder/cgroup.procs"
  done <"$RUN/$1.cgroups"
}

node_cpu_limit() { # node percent-of-one-core|off
  local folder quota
  folder=$(grep -E '/cpu[/,]' "$RUN/$1.cgroups" || true)
  if [ -n "$folder" ]; then
    quota=-1
    [ "$2" = off ] || quota=$(($2 * 1000))
    echo "$quota" >"$folder/cpu.cfs_quota_us"
  else
    quota=max
    [ "$2" = off ] || quota=$(($2 * 1000))
    echo "$quota 100000" >"$(head -1 "$RUN/$1.cgroups")/cpu.max"
  fi
}
