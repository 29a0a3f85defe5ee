package main

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/flowcontrol"
)

func connect(kubeconfig, encoding string) (*kubernetes.Clientset, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, err
	}
	if encoding == "protobuf" {
		config.ContentType = "application/vnd.kubernetes.protobuf"
		config.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	}
	config.QPS, config.Burst = -1, 0
	return kubernetes.NewForConfig(config)
}

func cpuSeconds() float64 {
	var usage syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &usage)
	return float64(usage.Utime.Sec+usage.Stime.Sec) + float64(usage.Utime.Usec+usage.Stime.Usec)/1e6
}

// memory reads VmHWM or VmRSS in MiB.
func memory(field string) int {
	status, _ := os.ReadFile("/proc/self/status")
	for _, line := range strings.Split(string(status), "\n") {
		var kib int
		if n, _ := fmt.Sscanf(line, field+": %d kB", &kib); n == 1 {
			return kib / 1024
		}
	}
	return 0
}

type sighting struct {
	version string
	when    int64
}

type recorder struct {
	events atomic.Int64
	mutex  sync.Mutex
	seen   []sighting
}

func (r *recorder) update(object any) {
	r.events.Add(1)
	if pod, ok := object.(*corev1.Pod); ok {
		now := time.Now().UnixNano()
		r.mutex.Lock()
		r.seen = append(r.seen, sighting{pod.ResourceVersion, now})
		r.mutex.Unlock()
	}
}

func say(phase string, began time.Time, r *recorder) {
	line, _ := json.Marshal(map[string]any{
		"phase": phase, "seconds": time.Since(began).Seconds(), "cpu_seconds": cpuSeconds(), "peak_mib": memory("VmHWM"),
		"rss_mib": memory("VmRSS"), "events": r.events.Load(),
	})
	fmt.Println(string(line))
}

// informer mirrors pods and nodes. It prints one line of JSON when synced, one at each SIGUSR1, and at SIGTERM writes
// when it saw which version of a pod.
func informer(args []string) error {
	flags := flag.NewFlagSet("informer", flag.ExitOnError)
	kubeconfig := flags.String("kubeconfig", "", "kubeconfig")
	encoding := flags.String("encoding", "protobuf", "protobuf or json")
	output := flags.String("seen", "", "file for the sightings")
	if err := flags.Parse(args); err != nil {
		return err
	}
	client, err := connect(*kubeconfig, *encoding)
	if err != nil {
		return err
	}
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGTERM)
	record := &recorder{}
	handler := cache.ResourceEventHandlerFuncs{UpdateFunc: func(_, object any) { record.update(object) }}
	began := time.Now()
	factory := informers.NewSharedInformerFactory(client, 0)
	for _, shared := range []cache.SharedIndexInformer{factory.Core().V1().Pods().Informer(), factory.Core().V1().Nodes().Informer()} {
		if _, err := shared.AddEventHandler(handler); err != nil {
			return err
		}
	}
	_ = factory.Core().V1().Pods().Informer().AddIndexers(cache.Indexers{"node": func(object any) ([]string, error) {
		return []string{object.(*corev1.Pod).Spec.NodeName}, nil
	}})
	stop := make(chan struct{})
	factory.Start(stop)
	for kind, synced := range factory.WaitForCacheSync(stop) {
		if !synced {
			return fmt.Errorf("%v did not sync", kind)
		}
	}
	say("synced", began, record)
	for received := range signals {
		if received == syscall.SIGUSR2 { // what is left when the garbage of the list has gone
			runtime.GC()
			debug.FreeOSMemory()
		}
		if received != syscall.SIGTERM {
			say("reading", began, record)
			continue
		}
		close(stop)
		file, err := os.Create(*output)
		if err != nil {
			return err
		}
		buffered := bufio.NewWriter(file)
		for _, s := range record.seen {
			fmt.Fprintln(buffered, s.version, s.when)
		}
		if err := buffered.Flush(); err != nil {
			return err
		}
		return file.Close()
	}
	return nil
}

// write patches pods at a fixed rate and prints, for each write, the version it made and when it returned.
func write(args []string) error {
	flags := flag.NewFlagSet("write", flag.ExitOnError)
	kubeconfig := flags.String("kubeconfig", "", "kubeconfig")
	rate := flags.Float64("rate", 60, "writes per second")
	duration := flags.Duration("duration", 20*time.Second, "how long")
	pods := flags.Int("pods", 50000, "pods in the cluster")
	nodes := flags.Int("nodes", 5000, "nodes in the cluster")
	if err := flags.Parse(args); err != nil {
		return err
	}
	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		return err
	}
	config.ContentConfig = rest.ContentConfig{ContentType: "application/vnd.kubernetes.protobuf"}
	config.RateLimiter = flowcontrol.NewFakeAlwaysRateLimiter()
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	var wait sync.WaitGroup
	var mutex sync.Mutex
	var failed atomic.Int64
	out := bufio.NewWriter(os.Stdout)
	ticker := time.NewTicker(time.Duration(float64(time.Second) / *rate))
	defer ticker.Stop()
	slots := make(chan struct{}, 64)
	end := time.Now().Add(*duration)
	for i := 0; time.Now().Before(end); i++ {
		<-ticker.C
		slots <- struct{}{}
		wait.Add(1)
		go func() {
			defer wait.Done()
			defer func() { <-slots }()
			target := worker(i*7919%*pods, *nodes)
			patch := fmt.Sprintf(`{"metadata":{"annotations":{"bench":"%d"}}}`, time.Now().UnixNano())
			pod, err := client.CoreV1().Pods(target.Namespace).Patch(context.Background(), target.Name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
			now := time.Now().UnixNano()
			if err != nil {
				if failed.Add(1) == 1 {
					fmt.Fprintf(os.Stderr, "peer write: the first failure: %v\n", err)
				}
				return
			}
			mutex.Lock()
			fmt.Fprintln(out, pod.ResourceVersion, now)
			mutex.Unlock()
		}()
	}
	wait.Wait()
	if failed.Load() > 0 {
		fmt.Fprintf(os.Stderr, "peer write: %d writes failed\n", failed.Load())
	}
	return out.Flush()
}
