// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package kubeproxy

import (
	"net/http"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/metric/noop"

	"github.com/leatdev/leat/internal/runtime/h2"
)

// TestSecUploadsHoldNoMoreThanTheirMemory reserves room for bodies that the cluster does not read.
func TestSecUploadsHoldNoMoreThanTheirMemory(t *testing.T) {
	t.Parallel()
	const memory = 16 * heldPerUpload
	u, err := newUploads(memory, noop.Meter{})
	if err != nil {
		t.Fatal(err)
	}
	request := func(major int, length int64) *http.Request {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://hub", strings.NewReader("x"))
		if err != nil {
			t.Fatal(err)
		}
		r.ProtoMajor, r.ContentLength = major, length
		return r
	}
	reserved := func(subject string, r *http.Request) (releases []func()) {
		t.Helper()
		for range memory {
			release, ok := u.reserve(subject, r)
			if !ok {
				return releases
			}
			releases = append(releases, release)
		}
		t.Fatalf("%s had room for ever", subject)
		return nil
	}
	var releases []func()
	for _, person := range []string{"ada", "bob", "eve", "kim"} {
		own := reserved(person, request(2, -1))
		if len(own) != 4 {
			t.Errorf("%s: got room for %d bodies of unknown length, want 4", person, len(own))
		}
		releases = append(releases, own...)
	}
	if _, ok := u.reserve("zoe", request(2, 1)); ok || u.held != memory {
		t.Errorf("got room beside %d bytes held, want none", u.held)
	}
	if _, ok := u.reserve("zoe", request(1, -1)); ok {
		t.Error("a body over HTTP/1.1: got room for a buffer beside all the memory, want none")
	}
	exec := request(1, -1)
	exec.Header.Set("Connection", "Upgrade")
	exec.Header.Set("Upgrade", "websocket")
	if _, ok := u.reserve("zoe", exec); !ok {
		t.Error("an upgrade: got no room, want some: it has buffers of its own")
	}
	for _, release := range releases {
		release()
	}
	own := reserved("ada", request(1, -1))
	if want := memory / 4 / h2.UploadBuffer; len(own) != want {
		t.Errorf("over HTTP/1.1: got room for %d bodies, want %d: a buffer for each", len(own), want)
	}
	for _, release := range own {
		release()
	}
	if u.held != 0 || len(u.people) != 0 {
		t.Errorf("after all have ended: got %d bytes of %d people, want none", u.held, len(u.people))
	}
	if got := len(reserved("ada", request(2, 64<<10))); got != memory/4>>16 {
		t.Errorf("got room for %d bodies of 64 KiB, want %d: they reserve no more than they hold", got, memory/4>>16)
	}
}
