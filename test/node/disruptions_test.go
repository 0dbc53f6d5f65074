// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package node_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/leatdev/leat/internal/testkit/await"
)

// services are the services of the hub that have several replicas, with their workloads.
var services = map[string]string{"gitcache": "statefulset/gitcache", "distributor": "statefulset/distributor", "tunnel": "deployment/tunnel"}

// calls are reads of each service that continue while the hub is disturbed, one after the other,
// each by a connection of its own.
type calls struct {
	stop chan struct{}
	done sync.WaitGroup

	mu       sync.Mutex
	answered map[string]int
	// again are the answers that asked for the same request again. client-go follows them by itself.
	again  map[string]int
	failed []error
}

// errAgain means that an answer has a Retry-After.
var errAgain = errors.New("the caller is to repeat the request")

// call begins to read. The requests to the tunnel go through it to the cluster.
func (h *trial) call(t *testing.T) *calls {
	t.Helper()
	token := h.run(t, "leat", "token")
	c := &calls{stop: make(chan struct{}), answered: map[string]int{}, again: map[string]int{}}
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM([]byte(read(t, h.authority)))
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: trusted, MinVersion: tls.VersionTLS13}}}
	for service, url := range map[string]string{
		"gitcache":    "https://gitcache.leat.svc:8702/",
		"distributor": hubURL + "/.well-known/jwks.json",
		"tunnel":      tunnelURL + "/clusters/berlin/api/v1/namespaces/hello/pods",
	} {
		ctx, want := context.WithoutCancel(t.Context()), http.StatusOK
		if service == "gitcache" { // whose reads need the hub's own tokens
			want = http.StatusNotFound
		}
		c.done.Go(func() {
			for {
				select {
				case <-c.stop:
					return
				default:
				}
				err := get(ctx, client, url, token, want)
				c.mu.Lock()
				switch {
				case errors.Is(err, errAgain):
					c.again[service]++
				case err != nil:
					c.failed = append(c.failed, err)
				default:
					c.answered[service]++
				}
				c.mu.Unlock()
			}
		})
	}
	return c
}

// get reads a page, and returns an error unless the answer has the status.
func get(ctx context.Context, client *http.Client, url, token string, want int) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	request.Header.Set("Authorization", "Bearer "+token)
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err == nil && response.Header.Get("Retry-After") != "" {
		return errAgain
	}
	if err == nil && response.StatusCode != want {
		err = fmt.Errorf("GET %s: got %s and %q", url, response.Status, body)
	}
	return err
}

// end stops the reads, and fails the test unless all of them were answered, and few of these answers
// asked for the same request again.
func (c *calls) end(t *testing.T) {
	t.Helper()
	close(c.stop)
	c.done.Wait()
	t.Logf("answered: %v; asked for the request again: %v", c.answered, c.again)
	if len(c.failed) > 0 {
		t.Errorf("%d of the reads failed, the first with\n%v", len(c.failed), errors.Join(c.failed[:min(len(c.failed), 5)]...))
	}
	for service := range services {
		if c.answered[service] <= c.again[service] {
			t.Errorf("%s answered %d reads, and asked for %d again", service, c.answered[service], c.again[service])
		}
	}
}

// checkRestarts replaces all pods of each service, as `kubectl rollout restart` does, during reads.
func (h *trial) checkRestarts(t *testing.T) {
	c := h.call(t)
	for _, workload := range services {
		h.kubectl(t, "--namespace", "leat", "rollout", "restart", workload)
	}
	for _, workload := range services {
		h.rolledOut(t, "leat", workload)
	}
	c.end(t)
}

// checkDrain drains the node of the hub's services during reads. The node is the only one, so the
// pods that were evicted have no other: budgets refuse the second of each service, until the node
// takes pods again.
func (h *trial) checkDrain(t *testing.T) {
	c := h.call(t)
	drain := h.command(t, "kubectl", "drain", "leat-node", "--ignore-daemonsets", "--delete-emptydir-data",
		"--pod-selector", "app.kubernetes.io/part-of=leat,app.kubernetes.io/name in (gitcache,distributor,tunnel)")
	reader, writer := io.Pipe()
	drain.Stdout, drain.Stderr = writer, writer
	if err := drain.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		ended <- drain.Wait()
		_ = writer.Close()
	}()
	t.Cleanup(func() { _ = drain.Process.Kill() })
	lines := bufio.NewScanner(reader)
	refused := map[string]bool{}
	for len(refused) < len(services) {
		if !lines.Scan() {
			t.Fatalf("the drain ended, and the budgets refused evictions of %v alone", refused)
		}
		for service := range services {
			if strings.Contains(lines.Text(), `"`+service+"-") && strings.Contains(lines.Text(), "would violate the pod's disruption budget") {
				refused[service] = true
			}
		}
	}
	h.kubectl(t, "uncordon", "leat-node")
	for lines.Scan() {
		_ = lines.Text() // what remains is of no interest, but has to be read
	}
	if err := <-ended; err != nil {
		t.Errorf("drain: %v", err)
	}
	for _, workload := range services {
		h.rolledOut(t, "leat", workload)
	}
	c.end(t)
}

// process returns the number of the process that is a pod's container.
func (h *trial) process(t *testing.T, p pod) int {
	t.Helper()
	id := strings.TrimPrefix(p.Status.ContainerStatuses[0].ContainerID, "containerd://")
	for line := range strings.Lines(h.run(t, "ctr", "--namespace", "k8s.io", "tasks", "list")) {
		if f := strings.Fields(line); f[0] == id {
			number, err := strconv.Atoi(f[1])
			if err != nil {
				t.Fatal(err)
			}
			return number
		}
	}
	t.Fatalf("no process of pod %s", p.Metadata.Name)
	return 0
}

// awaitPod blocks until a pod, by its name, is as the condition wants it.
func (h *trial) awaitPod(t *testing.T, what, name string, isSo func(pod) bool) {
	t.Helper()
	await.Success(t, "pod "+name+" to be "+what, func(context.Context) error {
		if p := h.pod(t, "leat", name); !isSo(p) {
			return fmt.Errorf("got %+v", p.Status)
		}
		return nil
	})
}

// checkProbes freezes a process of each service, as a deadlock would. A process that thaws in time is
// ready again; the kubelet replaces one that does not.
func (h *trial) checkProbes(t *testing.T) {
	for service := range services {
		t.Run(service, func(t *testing.T) {
			t.Parallel()
			p := h.pods(t, "leat", service)[0]
			name, before := p.Metadata.Name, p.restarts()
			frozen := h.process(t, p)
			if err := syscall.Kill(frozen, syscall.SIGSTOP); err != nil {
				t.Fatal(err)
			}
			h.awaitPod(t, "not ready while its process is frozen", name, func(p pod) bool { return !p.isReady() })
			if service == "gitcache" {
				if err := syscall.Kill(frozen, syscall.SIGCONT); err != nil {
					t.Fatal(err)
				}
				h.awaitPod(t, "ready without a restart", name, func(p pod) bool { return p.isReady() && p.restarts() == before })
				return
			}
			h.awaitPod(t, "ready after a restart", name, func(p pod) bool { return p.isReady() && p.restarts() == before+1 })
		})
	}
}

// checkRedis takes Redis away. Nothing of the hub is unready without it, reads continue, and the
// next commit arrives once it is back, with nothing in it.
func (h *trial) checkRedis(t *testing.T) {
	c := h.call(t)
	h.kubectl(t, "--namespace", "leat", "scale", "deployment/redis", "--replicas=0")
	h.kubectl(t, "--namespace", "leat", "wait", "--for=delete", "pod", "--selector", "app.kubernetes.io/name=redis", patience)
	for service := range services {
		for _, p := range h.pods(t, "leat", service) {
			if !p.isReady() {
				t.Errorf("pod %s is not ready without Redis", p.Metadata.Name)
			}
		}
	}
	h.kubectl(t, "--namespace", "leat", "scale", "deployment/redis", "--replicas=1")
	h.rolledOut(t, "leat", "deployment/redis")
	c.end(t)
	h.repo.Commit(t, "main", map[string]string{"deploy/hello.yaml": hello("after-redis")})
	h.arrives(t, "after-redis")
}
