// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package uplink_test

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	tunnelv1 "github.com/leatdev/leat/gen/go/leat/tunnel/v1"
	"github.com/leatdev/leat/services/agent/internal/uplink"
)

// TestAcceptedConnection uses a connection that the hub has opened. When the hub wants the agent on
// another replica it opens another connection, and this one continues until the hub ends it.
func TestAcceptedConnection(t *testing.T) {
	u, err := uplink.New(uplink.Params{
		Tokens: &fakeTokens{}, Version: "v1", Logger: slog.New(slog.DiscardHandler),
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.URL.Path) }),
	})
	if err != nil {
		t.Fatal(err)
	}
	introduction, err := u.Introduce(t.Context())
	if err != nil || introduction.Get("Authorization") != "Bearer token-0" || introduction.Get("Leat-Connection-Id") == "" || introduction.Get("Leat-Agent-Instance") == "" {
		t.Fatalf("got %v, %v, want what an agent connects with", introduction, err)
	}
	for _, end := range []string{"by the hub", "by the agent"} {
		hub := &replica{t: t, name: "r", conns: make(chan *hubConn, 1)}
		ours, theirs := net.Pipe()
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			u.Accept(ctx, theirs, introduction)
		}()
		go hub.use(ours, introduction, "dialled")
		conn := hub.next(time.Minute, 2)
		if _, err := conn.link.Heartbeat(t.Context(), &tunnelv1.HeartbeatRequest{Drain: &tunnelv1.DrainNotice{ReconnectAfter: durationpb.New(0)}}); err != nil {
			t.Fatal(err)
		}
		for range 10 {
			if got := conn.get(t, "/x"); got != "/x" {
				t.Errorf("%s: got %q after the notice, want an answer", end, got)
			}
		}
		if !u.Connected() {
			t.Errorf("%s: the agent does not count as connected", end)
		}
		if end == "by the hub" {
			_ = ours.Close()
		} else {
			stop()
		}
		<-done
		if u.Connected() {
			t.Errorf("%s: the agent counts as connected after the end", end)
		}
		stop()
	}
}
