// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package tunnel_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// copySize is the size of files that are copied into and out of pods.
const copySize = 3 << 20

// protocols are the two protocols of kubectl on upgraded connections.
var protocols = map[string][]string{
	"WebSocket": {"KUBECTL_REMOTE_COMMAND_WEBSOCKETS=true", "KUBECTL_PORT_FORWARD_WEBSOCKETS=true"},
	"SPDY":      {"KUBECTL_REMOTE_COMMAND_WEBSOCKETS=false", "KUBECTL_PORT_FORWARD_WEBSOCKETS=false"},
}

// TestStreams uses a pod: exec, attach, logs, cp and port-forward, by every way and in both
// protocols.
func TestStreams(t *testing.T) {
	t.Parallel()
	r := theRig(t)
	keepLogGoing(t, r)
	steps := []step{
		k("create", "namespace", "$NS"),
		k("wait", "--for=create", "serviceaccount/default", "--timeout=240s"),
		k("apply", "--filename=-").reads(`{apiVersion: v1, kind: Pod, metadata: {name: box}, spec: {containers: [{name: main, image: "shop:1"}]}}`),
		k("wait", "--for=condition=Ready", "pod/box", "--timeout=240s"),
		k("logs", "box", "--tail=3"),
		k("logs", "box", "--timestamps", "--limit-bytes=500"),
		k("logs", "box"),
		k("logs", "box", "--follow", "--tail=5").stops("line 199 of the log"),
		k("logs", "absent").fails(1),
	}
	for name, env := range protocols {
		steps = append(steps, streamSteps(name, env)...)
	}
	compare(t, r, "streams", names(true, true), append(steps, k("delete", "namespace", "$NS", "--wait=false")))
}

// streamSteps use the pod box in one protocol.
func streamSteps(protocol string, env []string) []step {
	large := noise(rand.New(rand.NewPCG(1, 35)), copySize)
	steps := []step{
		k("exec", "box", "--", "echo", "hello").with(env...),
		k("exec", "box", "--", "sh", "-c", "echo out; echo err >&2; exit 3").with(env...).fails(1), // kwok reports any exit code but 0 as an internal error
		k("exec", "box", "--", "/nonexistent").with(env...).fails(1),
		k("exec", "absent", "--", "true").with(env...).fails(1),
		// kwok does not forward the end of standard input, so the commands here must detect the end
		// themselves.
		k("exec", "-i", "box", "--", "head", "-c", "10").with(env...).reads("to and fro"),
		k("exec", "-i", "box", "--", "sh", "-c", fmt.Sprintf("head -c %d | sha256sum", copySize)).with(env...).reads(string(large)),
		k("exec", "box", "--", "sh", "-c", "head -c 3000000 /dev/zero | tr '\\0' x").with(env...),
		k("attach", "box").with(env...).stops("tick"),
		{name: "cp, " + protocol, do: func(ctx context.Context, w *way) (string, error) { return w.copy(ctx, large, env) }},
		{name: "port-forward, " + protocol, do: func(ctx context.Context, w *way) (string, error) { return w.portForward(ctx, large, env) }},
	}
	for i := range steps {
		// On a busy machine the end of the connection may overtake earlier data, also directly: in SPDY
		// inside kubectl. In WebSocket the API server resets the connection if a ping of kubectl has come
		// that it has not read, and the reset drops the data under way.
		steps[i].lossy = steps[i].until == ""
	}
	return steps
}

// keepLogGoing writes lines to the log that attach shows, until the test ends.
func keepLogGoing(t *testing.T, r *rig) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.tick(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
}

// copy copies a file into the pod and back. kubectl cp relies on a tar that reads to the end of
// standard input, which kwok does not forward, so the copy into the pod is done by hand.
func (w *way) copy(ctx context.Context, content []byte, env []string) (string, error) {
	down, name := filepath.Join(w.dir, "down"), w.namespace+".copy"
	var said strings.Builder
	for _, s := range []step{
		k("exec", "-i", "box", "--", "sh", "-c", fmt.Sprintf("head -c %d > %s", len(content), name)).reads(string(content)),
		k("cp", "box:"+name, down),
	} {
		code, out, errOut := w.command(ctx, s.with(env...))
		fmt.Fprintf(&said, "%d %s%s\n", code, out, errOut)
	}
	for _, file := range []string{filepath.Join(w.rig.dir, podDir, name), down} {
		got, err := os.ReadFile(file)
		if err != nil {
			return said.String(), err
		}
		if !bytes.Equal(got, content) {
			return said.String(), fmt.Errorf("the copy has %d bytes, want the %d that were copied", len(got), len(content))
		}
		fmt.Fprintf(&said, "%x\n", sha256.Sum256(got))
	}
	return said.String(), nil
}

var forwarding = regexp.MustCompile(`Forwarding from (127\.0\.0\.1:\d+)`)

// portForward sends bytes through a forwarded port to an echo server, twice.
func (w *way) portForward(ctx context.Context, content []byte, env []string) (string, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ready := make(chan struct{})
	cmd := w.cmd(ctx, step{args: []string{"port-forward", "pod/box", ":80", "--address=127.0.0.1"}, env: env})
	var errOut bytes.Buffer
	out := &tail{until: "Forwarding from", found: func() { close(ready) }}
	cmd.Stdout, cmd.Stderr = out, &errOut
	if err := cmd.Start(); err != nil {
		return "", err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case <-ready:
	case err := <-ended:
		return errOut.String(), fmt.Errorf("port-forward ended: %w", err)
	}
	defer func() {
		cancel()
		<-ended
	}()
	found := forwarding.FindStringSubmatch(out.String())
	if found == nil {
		return out.String(), fmt.Errorf("no address in %q", out.String())
	}
	var said strings.Builder
	for range 2 {
		got, err := echo(ctx, found[1], content)
		if err != nil {
			return said.String(), err
		}
		fmt.Fprintf(&said, "%x\n", sha256.Sum256(got))
	}
	return said.String(), nil
}

// echo sends bytes, and reads as many.
func echo(ctx context.Context, addr string, content []byte) ([]byte, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	sent := make(chan error, 1)
	go func() {
		_, err := conn.Write(content)
		sent <- err
	}()
	got := make([]byte, len(content))
	if _, err := io.ReadFull(conn, got); err != nil {
		return nil, fmt.Errorf("read the echo: %w", err)
	}
	return got, <-sent
}
