package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"
)

// nodeName is the one node kwok plays; every pod of the cluster runs there.
const nodeName = "node-0"

// apiClient asks a server whose certificate our CA has signed, as cluster administrator.
type apiClient struct {
	server string
	http   *http.Client
}

// request returns the status code and the body of the answer.
func (a *apiClient) request(ctx context.Context, method, path string, body []byte) (int, []byte, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, a.server+path, bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := a.http.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	return resp.StatusCode, answer, err
}

// get reads path into out; nil means the answer itself is of no interest.
func (a *apiClient) get(ctx context.Context, path string, out any) error {
	code, answer, err := a.request(ctx, http.MethodGet, path, nil)
	if err != nil {
		return err
	}
	if code != http.StatusOK {
		return fmt.Errorf("GET %s: %d %s", path, code, bytes.TrimSpace(answer))
	}
	if out == nil {
		return nil
	}
	return json.Unmarshal(answer, out)
}

// answers gives a condition for waitFor: path answers 200.
func (a *apiClient) answers(path string) func(context.Context) error {
	return func(ctx context.Context) error { return a.get(ctx, path, nil) }
}

func (a *apiClient) createsNode(ctx context.Context) error {
	node, err := json.Marshal(map[string]any{
		"apiVersion": "v1",
		"kind":       "Node",
		"metadata": map[string]any{
			"name": nodeName,
			"labels": map[string]string{
				"kubernetes.io/hostname": nodeName,
				"kubernetes.io/os":       "linux",
				"kubernetes.io/arch":     "amd64",
				"type":                   "kwok",
			},
			"annotations": map[string]string{"kwok.x-k8s.io/node": "fake"},
		},
	})
	if err != nil {
		return err
	}
	code, answer, err := a.request(ctx, http.MethodPost, "/api/v1/nodes", node)
	if err != nil {
		return err
	}
	if code != http.StatusCreated && code != http.StatusConflict {
		return fmt.Errorf("create node: %d %s", code, answer)
	}
	return nil
}

// nodeIsSchedulable tells whether a pod created now finds a node: Ready, and the taint
// that every new node starts with has been taken away.
func (a *apiClient) nodeIsSchedulable(ctx context.Context) error {
	var node struct {
		Spec struct {
			Taints []struct{ Key string }
		}
		Status struct {
			Conditions []struct{ Type, Status string }
		}
	}
	if err := a.get(ctx, "/api/v1/nodes/"+nodeName, &node); err != nil {
		return err
	}
	if len(node.Spec.Taints) > 0 {
		return fmt.Errorf("%s still has taints: %v", nodeName, node.Spec.Taints)
	}
	for _, condition := range node.Status.Conditions {
		if condition.Type == "Ready" && condition.Status == "True" {
			return nil
		}
	}
	return fmt.Errorf("%s is not ready: %v", nodeName, node.Status.Conditions)
}
