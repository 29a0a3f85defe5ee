package main
import (
	_ "github.com/container-storage-interface/spec/lib/go/csi"
	_ "github.com/hanwen/go-fuse/v2/fs"
	_ "google.golang.org/grpc"
	_ "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
)
func main() {}
