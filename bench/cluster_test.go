// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package bench_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/leatdev/leat/internal/kit/backoff"
	"github.com/leatdev/leat/internal/runtime/localkube"
)

const (
	namespacesPath = "/api/v1/namespaces"
	// pollPatience bounds the wait of poll.
	pollPatience = 15 * time.Minute
)

// watched is what benchmarks look at in an object of a cluster.
type watched struct {
	Metadata struct{ Name, Namespace string }
	Data     map[string]string
	Status   struct {
		Conditions []struct{ Type, Status string }
	}
}

// watchObjects calls see with each object at a path of an API server, as it is and whenever it changes, until the benchmark
// ends. Calls do not overlap.
func watchObjects(b *testing.B, cp *localkube.ControlPlane, path string, see func(watched)) {
	b.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var group sync.WaitGroup
	b.Cleanup(func() {
		cancel()
		group.Wait()
	})
	group.Go(func() {
		// A busy API server ends a watch that falls behind. The next one begins with the current objects.
		err := backoff.Retry(ctx, backoff.Policy{Initial: 10 * time.Millisecond, Max: time.Second}, func(ctx context.Context) error {
			return watchOnce(ctx, cp, path, see)
		})
		if ctx.Err() == nil {
			b.Errorf("watch of %s: %v", path, err)
		}
	})
}

// watchOnce reads events until a watch ends, and returns why it did.
func watchOnce(ctx context.Context, cp *localkube.ControlPlane, path string, see func(watched)) error {
	separator := "?"
	if strings.Contains(path, separator) {
		separator = "&"
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, cp.Host()+path+separator+"watch=true&timeoutSeconds=7200", http.NoBody)
	if err != nil {
		return backoff.Permanent(err)
	}
	response, err := cp.HTTPClient().Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	for events := json.NewDecoder(response.Body); ; {
		var event struct{ Object watched }
		if err := events.Decode(&event); err != nil {
			return err
		}
		see(event.Object)
	}
}

// poll asks every 100 ms until the answer is yes.
func poll(b *testing.B, what string, done func() bool) {
	b.Helper()
	timeout, tick := time.After(pollPatience), time.NewTicker(100*time.Millisecond)
	defer tick.Stop()
	for !done() {
		select {
		case <-tick.C:
		case <-timeout:
			b.Fatalf("waited %s for %s", pollPatience, what)
		}
	}
}

// served reports whether the API server has a collection.
func served(b *testing.B, cp *localkube.ControlPlane, path string) bool {
	b.Helper()
	status, _ := request(b, cp, http.MethodGet, path, "")
	return status == http.StatusOK
}

// createObject creates an object, in YAML, in the collection at a path of the API server.
func createObject(b *testing.B, cp *localkube.ControlPlane, path, manifest string) {
	b.Helper()
	if status, answer := request(b, cp, http.MethodPost, path, manifest); status != http.StatusCreated {
		b.Fatalf("POST %s: status %d: %s", path, status, answer)
	}
}

func request(b *testing.B, cp *localkube.ControlPlane, method, path, body string) (int, []byte) {
	b.Helper()
	status, answer, err := send(b.Context(), cp, method, path, "application/yaml", body)
	if err != nil {
		b.Fatal(err)
	}
	return status, answer
}

// send sends a request to an API server, and returns the status and the body of the answer.
func send(ctx context.Context, cp *localkube.ControlPlane, method, path, contentType, body string) (int, []byte, error) {
	request, err := http.NewRequestWithContext(ctx, method, cp.Host()+path, strings.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	request.Header.Set("Content-Type", contentType)
	response, err := cp.HTTPClient().Do(request)
	if err != nil {
		return 0, nil, err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	return response.StatusCode, answer, err
}
