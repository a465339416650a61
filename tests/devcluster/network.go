package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"time"
)

// startNetwork stands for the network of nodes and pods, to which the API server reaches out
// for `exec` and for the proxies of pods and Services. Their addresses lead nowhere on this
// machine, so whatever address is asked for, the same port of 127.0.0.1 answers: kwok's own
// as the kubelet's, and a server of a test as that of a pod.
//
// It returns the name of the socket where it listens: an abstract one, so that it ends with
// this process and its length does not depend on the state directory.
func startNetwork() (string, error) {
	name := fmt.Sprintf("@devcluster-%d", os.Getpid())
	listener, err := net.Listen("unix", name)
	if err != nil {
		return "", err
	}
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				logf("network: %v", err)
				return
			}
			go tunnel(conn)
		}
	}()
	return name, nil
}

// tunnel answers one CONNECT and then moves bytes both ways until one side ends.
func tunnel(client net.Conn) {
	defer client.Close()
	reader := bufio.NewReader(client)
	request, err := http.ReadRequest(reader)
	if err != nil || request.Method != http.MethodConnect {
		return
	}
	server, err := net.DialTimeout("tcp", net.JoinHostPort("127.0.0.1", request.URL.Port()), 5*time.Second)
	if err != nil {
		fmt.Fprintf(client, "HTTP/1.1 502 %v\r\n\r\n", err)
		return
	}
	defer server.Close()
	if _, err := fmt.Fprint(client, "HTTP/1.1 200 OK\r\n\r\n"); err != nil {
		return
	}
	done := make(chan struct{}, 2)
	go func() {
		_, _ = io.Copy(server, reader)
		done <- struct{}{}
	}()
	go func() {
		_, _ = io.Copy(client, server)
		done <- struct{}{}
	}()
	<-done
}

// egressConfiguration tells the API server where that network is.
func egressConfiguration(socket string) []byte {
	return fmt.Appendf(nil, `apiVersion: apiserver.k8s.io/v1beta1
kind: EgressSelectorConfiguration
egressSelections:
- name: cluster
  connection:
    proxyProtocol: HTTPConnect
    transport:
      uds:
        udsName: %q
`, socket)
}
