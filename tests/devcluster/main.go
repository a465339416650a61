// Command devcluster runs a real Kubernetes control plane on loopback for tests, the
// demo and scale runs: etcd, kube-apiserver, kube-controller-manager, kube-scheduler,
// and kwok, which plays one node and its pods.
//
// It prints one JSON line on stdout once the cluster is usable, logs to stderr, and runs
// until SIGTERM, SIGINT or, with -stdin, the end of its standard input. Several instances
// can run side by side: each has ports, certificates and a state directory of its own.
//
// Reading order: main.go (life of one cluster), components.go (what is started with which
// flags), process.go (child processes), network.go (where nodes and pods answer), api.go
// (questions to the API server), certs.go.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
)

type options struct {
	bin         string        // directory of the binaries and stages
	kubeBin     string        // directory of the three kube servers, another version perhaps
	dir         string        // state directory; "" means a fresh temporary one
	kwok        bool          // play a node and its pods
	controllers bool          // run the controller manager and the scheduler
	fsync       bool          // let etcd wait for the disk
	keep        bool          // leave the state directory behind
	stdin       bool          // stop at the end of standard input
	gogc        string        // GOGC of the children; "" means Go's own
	timeout     time.Duration // for the whole start
	apiserver   stringList    // more flags for kube-apiserver
}

// stringList is a flag that may be given several times.
type stringList []string

func (l *stringList) String() string { return strings.Join(*l, " ") }

func (l *stringList) Set(value string) error {
	*l = append(*l, value)
	return nil
}

// The kernel kills a child with Pdeathsig when the *thread* that forked it ends. Children
// are therefore started from the main goroutine only, which owns the main thread for ever.
func init() { runtime.LockOSThread() }

func main() {
	opts, err := parseFlags(os.Args[1:])
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err == nil {
		err = run(opts)
	}
	if err != nil {
		logf("error: %v", err)
		os.Exit(1)
	}
}

func parseFlags(args []string) (options, error) {
	var o options
	f := flag.NewFlagSet("devcluster", flag.ContinueOnError)
	f.StringVar(&o.bin, "bin", "", "`directory` of the binaries (default: where devcluster itself is)")
	f.StringVar(&o.kubeBin, "kube-bin", "", "`directory` of kube-apiserver, kube-controller-manager and kube-scheduler (default: -bin)")
	f.StringVar(&o.dir, "dir", "", "state `directory`, empty or not there yet (default: a fresh temporary one)")
	f.BoolVar(&o.kwok, "kwok", true, "play one node and its pods")
	f.BoolVar(&o.controllers, "controllers", true, "run kube-controller-manager and kube-scheduler")
	f.BoolVar(&o.fsync, "fsync", false, "let etcd wait for the disk, as in production")
	f.BoolVar(&o.keep, "keep", false, "keep the state directory (logs, data) after the stop")
	f.BoolVar(&o.stdin, "stdin", false, "stop at the end of standard input: dies with the process that holds the other end")
	f.StringVar(&o.gogc, "gogc", "", "`percent` by which the heap of a child may grow between garbage collections: more costs memory and saves time")
	f.DurationVar(&o.timeout, "timeout", 2*time.Minute, "give up when the cluster is not ready after this `time`")
	f.Var(&o.apiserver, "apiserver-arg", "one more `flag` for kube-apiserver, e.g. --v=4; may be repeated")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if f.NArg() > 0 {
		return o, fmt.Errorf("unexpected argument %q", f.Arg(0))
	}
	if o.bin == "" {
		self, err := os.Executable()
		if err != nil {
			return o, err
		}
		o.bin = filepath.Dir(self)
	}
	if o.kubeBin == "" {
		o.kubeBin = o.bin
	}
	return o, nil
}

// run is the life of one cluster. Whatever the reason to return, no child is left behind.
func run(opts options) (err error) {
	begin := time.Now()
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	defer cancel()
	if opts.stdin {
		go func() {
			_, _ = io.Copy(io.Discard, os.Stdin)
			cancel()
		}()
	}

	dir, err := stateDir(opts.dir)
	if err != nil {
		return err
	}
	defer func() {
		switch {
		case opts.keep:
			logf("kept %s", dir)
		default:
			err = errors.Join(err, os.RemoveAll(dir))
		}
	}()

	c, err := newCluster(opts, dir)
	if err != nil {
		return err
	}
	defer c.procs.stopAll()

	if err := c.startWithRetry(ctx); err != nil {
		if ctx.Err() != nil {
			return nil // asked to stop while starting
		}
		return err
	}
	if err := c.announce(time.Since(begin)); err != nil {
		return err
	}
	return c.supervise(ctx)
}

// stateDir returns an absolute, empty directory. It refuses one with contents, because
// the directory is removed at the end.
func stateDir(dir string) (string, error) {
	if dir == "" {
		return os.MkdirTemp("", "devcluster-")
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return "", err
	}
	if len(entries) > 0 {
		return "", fmt.Errorf("state directory %s is not empty", dir)
	}
	return dir, nil
}

// startWithRetry starts the cluster. Between choosing a free port and binding it somebody
// else may take it; then all is started again with other ports.
func (c *cluster) startWithRetry(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, c.opts.timeout)
	defer cancel()
	for attempt := 1; ; attempt++ {
		err := c.start(ctx)
		if err == nil {
			return nil
		}
		lost := c.procs.lostPort()
		c.procs.stopAll()
		if !lost || attempt == 5 || ctx.Err() != nil {
			return err
		}
		logf("a port was taken in the meantime; once more with others")
		if err := os.RemoveAll(c.path("etcd")); err != nil {
			return err
		}
	}
}

// announcement is the one line on stdout. The same is kept up to date in cluster.json in
// the state directory, because a child that was restarted has another pid.
type announcement struct {
	Kubeconfig string         `json:"kubeconfig"`
	Server     string         `json:"server"`
	Dir        string         `json:"dir"`
	Pids       map[string]int `json:"pids"`
	ReadyMs    int64          `json:"ready_ms"`
}

func (c *cluster) announce(took time.Duration) error {
	c.readyMs = took.Milliseconds()
	line, err := c.writeAnnouncement()
	if err != nil {
		return err
	}
	_, err = fmt.Println(string(line))
	return err
}

func (c *cluster) writeAnnouncement() ([]byte, error) {
	line, err := json.Marshal(announcement{
		Kubeconfig: c.path("kubeconfig"),
		Server:     c.server(),
		Dir:        c.dir,
		Pids:       c.procs.pids(),
		ReadyMs:    c.readyMs,
	})
	if err != nil {
		return nil, err
	}
	// Renamed into place, so that a reader never sees half of it.
	if err := os.WriteFile(c.path("cluster.json.new"), line, 0o600); err != nil {
		return nil, err
	}
	return line, os.Rename(c.path("cluster.json.new"), c.path("cluster.json"))
}

// supervise waits for the end and, like a kubelet, starts a child again that ended. A test
// can so kill the API server by pid and see it return on the same port.
func (c *cluster) supervise(ctx context.Context) error {
	const restartDelay = 500 * time.Millisecond
	restarts := 0
	for {
		var ended *process
		select {
		case <-ctx.Done():
			return nil
		case ended = <-c.procs.ended:
		}
		if restarts++; restarts > 100 {
			return fmt.Errorf("%s ended too often: %w", ended.name, ended.failure())
		}
		logf("%s ended (%v); starting it again", ended.name, ended.err)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(restartDelay):
		}
		if err := c.procs.start(ended.command); err != nil {
			return err
		}
		if _, err := c.writeAnnouncement(); err != nil {
			return err
		}
	}
}

func logf(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "devcluster: "+format+"\n", args...)
}
