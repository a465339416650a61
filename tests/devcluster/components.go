package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"
)

const (
	serviceCIDR = "10.0.0.0/16" // its first address is the SAN 10.0.0.1 of the serving certificate
	podCIDR     = "10.244.0.0/16"
)

// cluster is one control plane and everything that belongs to it.
type cluster struct {
	opts    options
	dir     string
	procs   *processes
	creds   *credentials
	stages  []string // kwok's configuration: stages, and what exec does
	readyMs int64

	etcdPort, apiPort, kubeletPort int // chosen anew for every attempt to start
}

func newCluster(opts options, dir string) (*cluster, error) {
	c := &cluster{opts: opts, dir: dir, procs: newProcesses(dir, opts.gogc)}
	if opts.kwok {
		stages, err := filepath.Glob(filepath.Join(opts.bin, "stages", "*", "*.yaml"))
		if err != nil {
			return nil, err
		}
		if len(stages) == 0 {
			return nil, fmt.Errorf("no kwok stages in %s/stages; build.sh puts them there", opts.bin)
		}
		c.stages = stages
	}
	network, err := startNetwork()
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(c.path("egress.yaml"), egressConfiguration(network), 0o600); err != nil {
		return nil, err
	}
	creds, err := newCredentials(dir)
	c.creds = creds
	return c, err
}

func (c *cluster) path(name string) string { return filepath.Join(c.dir, name) }

func (c *cluster) server() string { return fmt.Sprintf("https://127.0.0.1:%d", c.apiPort) }

// start makes one attempt to bring the cluster up and returns when it is usable.
func (c *cluster) start(ctx context.Context) error {
	ports, err := freePorts(3)
	if err != nil {
		return err
	}
	c.etcdPort, c.apiPort, c.kubeletPort = ports[0], ports[1], ports[2]
	if err := os.WriteFile(c.path("kubeconfig"), c.creds.kubeconfig(c.server()), 0o600); err != nil {
		return err
	}
	api := c.creds.client(c.server())
	etcd := c.creds.client(fmt.Sprintf("https://127.0.0.1:%d", c.etcdPort))

	if err := c.procs.start(c.etcd()); err != nil {
		return err
	}
	if err := c.waitFor(ctx, "etcd", etcd.answers("/health")); err != nil {
		return err
	}
	if err := c.procs.start(c.apiserver()); err != nil {
		return err
	}
	if err := c.waitFor(ctx, "kube-apiserver", api.answers("/readyz")); err != nil {
		return err
	}

	// The rest starts together: each only waits for the API server.
	if c.opts.controllers {
		if err := errors.Join(c.procs.start(c.controllerManager()), c.procs.start(c.scheduler())); err != nil {
			return err
		}
	}
	if c.opts.kwok {
		if err := c.procs.start(c.kwok()); err != nil {
			return err
		}
		if err := c.waitFor(ctx, "node", api.createsNode); err != nil {
			return err
		}
	}
	if err := c.waitFor(ctx, "namespace default", api.answers("/api/v1/namespaces/default")); err != nil {
		return err
	}
	if c.opts.controllers {
		err := c.waitFor(ctx, "its service account", api.answers("/api/v1/namespaces/default/serviceaccounts/default"))
		if err != nil {
			return err
		}
	}
	if c.opts.controllers && c.opts.kwok {
		return c.waitFor(ctx, "schedulable node", api.nodeIsSchedulable)
	}
	return nil
}

// waitFor asks until done answers nil. A child that ends in the meantime ends the wait.
func (c *cluster) waitFor(ctx context.Context, what string, done func(context.Context) error) error {
	const pause = 20 * time.Millisecond
	for {
		err := done(ctx)
		if err == nil {
			// The answer must not have come from a stranger on our lost port: the
			// certificates rule that out, but a dead child must be noticed as well.
			return c.procs.failed()
		}
		if failed := c.procs.failed(); failed != nil {
			return failed
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w (last answer: %v)", what, ctx.Err(), err)
		case <-time.After(pause):
		}
	}
}

func (c *cluster) etcd() command {
	// The peer port is picked by the kernel: a single member never talks to peers, and
	// the advertised address is only its name.
	const self = "http://127.0.0.1:2380"
	args := []string{
		"--name=default",
		"--data-dir=" + c.path("etcd"),
		fmt.Sprintf("--listen-client-urls=https://127.0.0.1:%d", c.etcdPort),
		fmt.Sprintf("--advertise-client-urls=https://127.0.0.1:%d", c.etcdPort),
		"--listen-peer-urls=http://127.0.0.1:0",
		"--initial-advertise-peer-urls=" + self,
		"--initial-cluster=default=" + self,
		// TLS both ways, so that no API server ever writes into its neighbour's etcd.
		"--client-cert-auth",
		"--trusted-ca-file=" + c.creds.caCert,
		"--cert-file=" + c.creds.servingCert,
		"--key-file=" + c.creds.servingKey,
		"--quota-backend-bytes=8589934592", // the default of 2 GiB ends long scale runs
		"--log-level=warn",
	}
	if !c.opts.fsync {
		args = append(args, "--unsafe-no-fsync")
	}
	return command{"etcd", filepath.Join(c.opts.bin, "etcd"), args}
}

func (c *cluster) apiserver() command {
	args := []string{
		fmt.Sprintf("--etcd-servers=https://127.0.0.1:%d", c.etcdPort),
		"--etcd-cafile=" + c.creds.caCert,
		"--etcd-certfile=" + c.creds.clientCert,
		"--etcd-keyfile=" + c.creds.clientKey,
		"--bind-address=127.0.0.1",
		fmt.Sprintf("--secure-port=%d", c.apiPort),
		// Nobody reaches the server through its Service, so no address of this machine is
		// advertised; a documentation address also does on machines without a network.
		"--advertise-address=192.0.2.1",
		"--endpoint-reconciler-type=none",
		"--tls-cert-file=" + c.creds.servingCert,
		"--tls-private-key-file=" + c.creds.servingKey,
		"--client-ca-file=" + c.creds.caCert,
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + c.creds.tokenPublicKey,
		"--service-account-signing-key-file=" + c.creds.tokenKey,
		"--authorization-mode=RBAC",
		"--service-cluster-ip-range=" + serviceCIDR,
		"--allow-privileged",
		// Nodes and pods: kwok plays the kubelet, network.go the rest.
		"--egress-selector-config-file=" + c.path("egress.yaml"),
		"--kubelet-certificate-authority=" + c.creds.caCert,
		"--kubelet-preferred-address-types=InternalIP",
	}
	return command{"kube-apiserver", filepath.Join(c.opts.kubeBin, "kube-apiserver"), append(args, c.opts.apiserver...)}
}

func (c *cluster) controllerManager() command {
	return command{"kube-controller-manager", filepath.Join(c.opts.kubeBin, "kube-controller-manager"), []string{
		"--kubeconfig=" + c.path("kubeconfig"),
		"--secure-port=0", // nobody asks it anything
		"--leader-elect=false",
		"--use-service-account-credentials",
		"--service-account-private-key-file=" + c.creds.tokenKey,
		"--root-ca-file=" + c.creds.caCert,
		"--kube-api-qps=500",
		"--kube-api-burst=1000",
		"--horizontal-pod-autoscaler-sync-period=2s",
		// A busy machine must not look like a lost node: that would evict every pod.
		"--node-monitor-grace-period=10m",
	}}
}

func (c *cluster) scheduler() command {
	return command{"kube-scheduler", filepath.Join(c.opts.kubeBin, "kube-scheduler"), []string{
		"--kubeconfig=" + c.path("kubeconfig"),
		"--secure-port=0",
		"--leader-elect=false",
		"--kube-api-qps=500",
		"--kube-api-burst=1000",
	}}
}

func (c *cluster) kwok() command {
	args := []string{
		"--kubeconfig=" + c.path("kubeconfig"),
		"--manage-all-nodes",
		"--cidr=" + podCIDR,
		"--node-ip=127.0.0.1",
		fmt.Sprintf("--node-port=%d", c.kubeletPort),
		fmt.Sprintf("--server-address=127.0.0.1:%d", c.kubeletPort),
		"--tls-cert-file=" + c.creds.servingCert,
		"--tls-private-key-file=" + c.creds.servingKey,
	}
	for _, stage := range c.stages {
		args = append(args, "--config="+stage)
	}
	return command{"kwok", filepath.Join(c.opts.bin, "kwok"), args}
}

// freePorts returns n different loopback ports that were free a moment ago.
func freePorts(n int) ([]int, error) {
	var ports []int
	for range n {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer listener.Close() // held until all are chosen, so that they differ
		ports = append(ports, listener.Addr().(*net.TCPAddr).Port)
	}
	return ports, nil
}
