// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package serve_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/leatdev/leat/internal/runtime/config"
	"github.com/leatdev/leat/internal/runtime/serve"
	"github.com/leatdev/leat/internal/testkit/await"
	"github.com/leatdev/leat/internal/testkit/offline"
)

func TestMain(m *testing.M) {
	code := offline.Run(m)
	if code == 0 {
		if err := goleak.Find(); err != nil {
			_, _ = os.Stderr.WriteString("goroutines leak: " + err.Error() + "\n")
			code = 1
		}
	}
	os.Exit(code)
}

// buffer is a log that is read while it is written.
type buffer struct {
	mu      sync.Mutex
	buf     bytes.Buffer
	changed chan struct{} // closed at the next write, where a reader waits for one
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.changed != nil {
		close(b.changed)
		b.changed = nil
	}
	return b.buf.Write(p)
}

// await waits until the log holds all of these.
func (b *buffer) await(t *testing.T, texts ...string) {
	t.Helper()
	ctx := await.Context(t)
	for {
		b.mu.Lock()
		log := b.buf.String()
		if b.changed == nil {
			b.changed = make(chan struct{})
		}
		changed := b.changed
		b.mu.Unlock()
		if !slices.ContainsFunc(texts, func(text string) bool { return !strings.Contains(log, text) }) {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			t.Fatalf("the log does not tell of %q:\n%s", texts, log)
		}
	}
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// refusing returns the parameters of a server that answers 404 to everything.
func refusing(cfg serve.Config) serve.Params {
	return serve.Params{Config: cfg, Public: http.NotFoundHandler(), Logger: slog.New(slog.DiscardHandler)}
}

// running is a server under test on a port of the kernel's choice.
type running struct {
	t      *testing.T
	addr   string
	client *http.Client // HTTP/2 with prior knowledge
	log    *buffer
	stop   func()
	ended  chan error
}

func start(t *testing.T, cfg serve.Config, handler http.Handler, internal ...http.Handler) *running {
	t.Helper()
	if cfg.Listener == nil {
		cfg.Listener = listen(t)
	}
	ctx, stop := context.WithCancel(t.Context())
	r := &running{
		t: t, addr: cfg.Listener.Addr().String(), client: http2Client(t), log: new(buffer), stop: stop, ended: make(chan error, 1),
	}
	logger := slog.New(slog.NewTextHandler(r.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	params := serve.Params{Config: cfg, Public: handler, Logger: logger}
	if len(internal) > 0 {
		params.Internal = internal[0]
	}
	go func() { r.ended <- serve.Run(ctx, params) }()
	t.Cleanup(func() {
		stop()
		_ = r.wait()
	})
	return r
}

// wait returns what Run returned.
func (r *running) wait() error {
	err := <-r.ended
	r.ended <- err
	return err
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("listen: %v", err)
	}
	return listener
}

func http2Client(t *testing.T) *http.Client {
	t.Helper()
	transport := offline.Transport()
	transport.Protocols = new(http.Protocols)
	transport.Protocols.SetUnencryptedHTTP2(true)
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

func http1Client(t *testing.T) *http.Client {
	t.Helper()
	transport := offline.Transport()
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// open sends a request and returns the answer, whose body is still to be read.
func open(t *testing.T, client *http.Client, url string) *http.Response {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatalf("make request: %v", err)
	}
	response, err := client.Do(request)
	if err != nil {
		t.Fatalf("GET %s: %v", url, err)
	}
	t.Cleanup(func() { _ = response.Body.Close() })
	return response
}

func get(t *testing.T, client *http.Client, url string) (int, string) {
	t.Helper()
	response := open(t, client, url)
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatalf("read %s: %v", url, err)
	}
	return response.StatusCode, string(body)
}

// until streams a first byte, then waits for done, then a goodbye.
func until(done func(*http.Request) <-chan struct{}) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "hello ")
		_ = http.NewResponseController(w).Flush()
		<-done(r)
		_, _ = io.WriteString(w, "goodbye")
	}
}

func protocol(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.Proto) }

func TestBothProtocolsOnOnePort(t *testing.T) {
	t.Parallel()
	server := start(t, serve.Config{}, http.HandlerFunc(protocol))
	for want, client := range map[string]*http.Client{"HTTP/1.1": http1Client(t), "HTTP/2.0": server.client} {
		if _, got := get(t, client, "http://"+server.addr); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func TestListenOnAnAddress(t *testing.T) {
	t.Parallel()
	cfg := serve.Config{ListenAddr: "127.0.0.1:0"}
	listener, err := cfg.Listen()
	if err != nil {
		t.Fatalf("listen: %v", err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	taken := serve.Config{ListenAddr: listener.Addr().String()}
	err = serve.Run(t.Context(), refusing(taken))
	if err == nil || !strings.Contains(err.Error(), taken.ListenAddr) {
		t.Errorf("address in use: got %v, want an error that names it", err)
	}
}

func TestDrainTellsStreamsAndIsQuick(t *testing.T) {
	t.Parallel()
	server := start(t, serve.Config{DrainTimeout: time.Hour}, until(func(r *http.Request) <-chan struct{} { return serve.Draining(r.Context()) }))
	var bodies []io.Reader
	for _, client := range []*http.Client{server.client, server.client, http1Client(t)} {
		bodies = append(bodies, open(t, client, "http://"+server.addr).Body)
	}
	server.stop()
	for _, body := range bodies {
		if got, err := io.ReadAll(body); string(got) != "hello goodbye" || err != nil {
			t.Errorf("got %q, %v, want a goodbye", got, err)
		}
	}
	if err := server.wait(); err != nil {
		t.Errorf("run: %v", err)
	}
}

func TestDrainLetsCallsFinish(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	server := start(t, serve.Config{DrainTimeout: time.Hour}, until(func(*http.Request) <-chan struct{} { return release }))
	body := open(t, server.client, "http://"+server.addr).Body
	server.stop()
	close(release)
	if got, err := io.ReadAll(body); string(got) != "hello goodbye" || err != nil {
		t.Errorf("got %q, %v, want the whole answer", got, err)
	}
	if err := server.wait(); err != nil {
		t.Errorf("run: %v", err)
	}
}

func TestDrainCutsOffWhatDoesNotEnd(t *testing.T) {
	t.Parallel()
	server := start(t, serve.Config{DrainTimeout: 20 * time.Millisecond},
		until(func(r *http.Request) <-chan struct{} { return r.Context().Done() }))
	body := open(t, server.client, "http://"+server.addr).Body
	server.stop()
	if got, err := io.ReadAll(body); err == nil && string(got) == "hello goodbye" {
		t.Errorf("got a whole answer, want it cut off")
	}
	if err := server.wait(); err != nil {
		t.Errorf("run: %v", err)
	}
	if !strings.Contains(server.log.String(), "drain timed out") {
		t.Errorf("got log %s, want a warning in it", server.log)
	}
}

func TestDrainingOutsideOfRunNeverCloses(t *testing.T) {
	t.Parallel()
	select {
	case <-serve.Draining(t.Context()):
		t.Error("got a closed channel")
	default:
	}
}

func TestUpgradeIsHijackable(t *testing.T) {
	t.Parallel()
	server := start(t, serve.Config{}, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		conn, stream, err := http.NewResponseController(w).Hijack()
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		defer func() { _ = conn.Close() }()
		_, _ = stream.WriteString("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
		line, _ := stream.ReadString('\n')
		_, _ = stream.WriteString(line)
		_ = stream.Flush()
	}))
	conn, err := offline.DialContext(t.Context(), "tcp", server.addr)
	if err != nil {
		t.Fatalf("dial: %v", err)
	}
	defer func() { _ = conn.Close() }()
	_, _ = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\nhello\n")
	reader := bufio.NewReader(conn)
	response, err := http.ReadResponse(reader, nil)
	if err != nil || response.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("got %v, %v, want 101", response, err)
	}
	if line, err := reader.ReadString('\n'); line != "hello\n" {
		t.Errorf("got %q, %v, want the line back", line, err)
	}
}

func TestPanicIsLoggedAndTheServerGoesOn(t *testing.T) {
	t.Parallel()
	server := start(t, serve.Config{}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/panic" {
			panic("kaboom")
		}
		protocol(w, r)
	}))
	client := http1Client(t)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+server.addr+"/panic", nil)
	if err != nil {
		t.Fatalf("make request: %v", err)
	}
	if response, err := client.Do(request); err == nil {
		_ = response.Body.Close()
		t.Errorf("got %s, want the connection closed", response.Status)
	}
	if _, got := get(t, client, "http://"+server.addr); got != "HTTP/1.1" {
		t.Errorf("afterwards: got %q", got)
	}
	server.stop()
	_ = server.wait()
	if log := server.log.String(); !strings.Contains(log, "level=ERROR") || !strings.Contains(log, "kaboom") {
		t.Errorf("got log %s, want the panic as an error", log)
	}
}

func TestRunEndsWhenTheListenerFails(t *testing.T) {
	t.Parallel()
	listener := listen(t)
	_ = listener.Close()
	err := serve.Run(t.Context(), refusing(serve.Config{Listener: listener}))
	if !errors.Is(err, net.ErrClosed) {
		t.Errorf("got %v, want %v", err, net.ErrClosed)
	}
}

func TestConfigDefaultsAndRules(t *testing.T) {
	t.Parallel()
	parse := func(cfg *serve.Config, args ...string) error {
		set := config.New("x", func(string) (string, bool) { return "", false })
		cfg.Bind(set)
		return set.Parse(args)
	}
	var cfg serve.Config
	if err := parse(&cfg); err != nil || cfg.ListenAddr != ":8080" || cfg.DrainTimeout != 25*time.Second {
		t.Errorf("defaults: got %+v, %v", cfg, err)
	}
	own := serve.Config{ListenAddr: ":9000"}
	if err := parse(&own); err != nil || own.ListenAddr != ":9000" {
		t.Errorf("a service's own default: got %+v, %v", own, err)
	}
	if err := parse(&cfg, "--tls-cert-file=x"); err == nil || !strings.Contains(err.Error(), "--tls-key-file") {
		t.Errorf("certificate without key: got %v", err)
	}
	half := serve.Config{TLSKeyFile: "x", Listener: listen(t)}
	if err := serve.Run(t.Context(), refusing(half)); err == nil {
		t.Error("key without certificate: got no error from Run")
	}
	if _, err := half.Listener.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("listener afterwards: got %v, want it closed", err)
	}
}
