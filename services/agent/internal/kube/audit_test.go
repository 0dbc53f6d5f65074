// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package kube_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/leatdev/leat/services/agent/internal/fingerprint"
)

// request is one of the agent's requests in the API server's audit log.
type request struct {
	verb, resource, namespace, name string
}

func (r request) String() string {
	return fmt.Sprintf("%s %s %s/%s", r.verb, r.resource, r.namespace, r.name)
}

// auditLog holds the part that was read of an API server's audit log, which grows.
type auditLog struct {
	mu   sync.Mutex
	size int64 // of what was read
	all  []request
}

// requests lists the requests of the agent so far. It leaves out discovery and health checks, which
// concern no objects.
func (c *cluster) requests(t *testing.T) []request {
	t.Helper()
	c.audit.mu.Lock()
	defer c.audit.mu.Unlock()
	log, err := os.Open(c.cp.AuditLogPath())
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	news, err := io.ReadAll(io.NewSectionReader(log, c.audit.size, math.MaxInt64-c.audit.size))
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(news) {
		if !bytes.HasSuffix(line, []byte("}\n")) {
			break // it is being written
		}
		c.audit.size += int64(len(line))
		if !bytes.Contains(line, []byte(userAgent)) {
			continue // parsing takes longer
		}
		var event struct {
			Verb, UserAgent, Stage string
			ObjectRef              *struct{ Resource, Namespace, Name, Subresource string }
		}
		if err := json.Unmarshal(line, &event); err != nil {
			t.Fatalf("audit log: %v in %s", err, line)
		}
		if event.UserAgent != userAgent || event.ObjectRef == nil || event.Stage != "ResponseComplete" && event.Verb != "watch" {
			continue
		}
		resource := event.ObjectRef.Resource
		if event.ObjectRef.Subresource != "" {
			resource += "/" + event.ObjectRef.Subresource
		}
		c.audit.all = append(c.audit.all, request{event.Verb, resource, event.ObjectRef.Namespace, event.ObjectRef.Name})
	}
	return c.audit.all[:len(c.audit.all):len(c.audit.all)]
}

// applies counts the agent's applies of an object.
func (c *cluster) applies(t *testing.T, resource, namespace, name string) (count int) {
	t.Helper()
	for _, r := range c.requests(t) {
		if r == (request{"patch", resource, namespace, name}) {
			count++
		}
	}
	return count
}

// isQuiet reports whether an agent may make the request while nothing changes.
func isQuiet(r request) bool {
	return r.verb == "watch" || r.verb == "list" && !strings.HasPrefix(r.name, "leat-inventory")
}

// memoryPrints are fingerprints that outlive an engine.
type memoryPrints struct {
	mu     sync.Mutex
	tables map[string][]byte
}

// Load implements reconcile.Fingerprints.
func (p *memoryPrints) Load(_ context.Context, service string) fingerprint.Table {
	p.mu.Lock()
	defer p.mu.Unlock()
	table, err := fingerprint.DecodeTable(p.tables[service])
	if err != nil {
		return nil
	}
	return table
}

// Save implements reconcile.Fingerprints.
func (p *memoryPrints) Save(_ context.Context, service string, table fingerprint.Table) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.tables == nil {
		p.tables = map[string][]byte{}
	}
	p.tables[service] = table.Encode()
	return nil
}

// Delete implements reconcile.Fingerprints.
func (p *memoryPrints) Delete(_ context.Context, service string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.tables, service)
	return nil
}
