# Versions of the programs that the test bed builds from source. After a change run ./generate.
# shellcheck shell=bash disable=SC2034
KUBERNETES_1_34=1.34.4
KUBERNETES_1_36=1.36.3
CONTAINERD=2.4.2
COREDNS=1.12.4
HELM=3.22.0
CRICTL=1.34.0
KWOK=0.8.0
CSI_SPEC=1.9.0
GO_FUSE=2.12.1
# CustomResourceDefinitions of other projects; after a change put the new sums of the files into crds.sha256.
JOBSET=0.10.1
TRAINING_OPERATOR=1.9.3
# Build tags of the upstream release builds.
KUBERNETES_TAGS=selinux,notest,grpcnotrace
CONTAINERD_TAGS=no_btrfs,no_zfs,no_devmapper,no_aufs
