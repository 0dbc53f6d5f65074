// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package uploadpack_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
)

// packet returns a line of the Git protocol.
func packet(line string) string { return fmt.Sprintf("%04x%s", len(line)+4, line) }

// TestSecListsWithoutEndAreCutOff fetches from an upstream that lists refs or capabilities without
// end. Its lines are as long as the protocol allows, because the bound counts bytes.
func TestSecListsWithoutEndAreCutOff(t *testing.T) {
	t.Parallel()
	const id = "1111111111111111111111111111111111111111"
	long := strings.Repeat("a", 65_000)
	for name, c := range map[string]struct {
		begin string
		more  func(i int) string
		limit int64
	}{
		"refs": {
			packet("# service=git-upload-pack\n") + "0000" + packet(id+" refs/heads/a\x00agent=x\n"),
			func(i int) string {
				return packet(fmt.Sprintf("%s refs/heads/%s%08d\n", id, long, i))
			}, 80 << 20,
		},
		"capabilities": {
			packet("# service=git-upload-pack\n") + "0000" + packet("version 2\n"),
			func(i int) string { return packet(fmt.Sprintf("c%08d=%s\n", i, long)) }, 80 << 20,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var sent atomic.Int64
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/x-git-upload-pack-advertisement")
				_, err := io.WriteString(w, c.begin)
				for i := 0; err == nil && sent.Load() < 2*c.limit; i++ { // bounded, so that the test ends
					var n int
					n, err = io.WriteString(w, c.more(i))
					sent.Add(int64(n))
				}
			}))
			t.Cleanup(server.Close)
			f := newFixture(t, server.URL+"/demo")
			upstream, ok := errors.AsType[*mirror.UpstreamError](f.try(t.Context()))
			server.Close() // blocks until the handler has stopped sending
			if !ok || upstream.Reason != reason.UpstreamProtocol || sent.Load() > c.limit {
				t.Errorf("got %v after %d bytes, want %s after at most %d", upstream, sent.Load(), reason.UpstreamProtocol, c.limit)
			}
		})
	}
}
