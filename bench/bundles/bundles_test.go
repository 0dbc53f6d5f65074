// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package bundles measures how fast a distributor serves bundles, compared with nginx serving the
// same bytes from a file.
package bundles_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/leatdev/leat/bench/internal/edge"
	gitcachev1 "github.com/leatdev/leat/gen/go/leat/gitcache/v1"
	"github.com/leatdev/leat/gen/go/leat/gitcache/v1/gitcachev1connect"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/contract/bundle"
	"github.com/leatdev/leat/internal/contract/digest"
	"github.com/leatdev/leat/internal/runtime/config"
	"github.com/leatdev/leat/internal/runtime/identity"
	"github.com/leatdev/leat/internal/testkit/hubkeys"
	"github.com/leatdev/leat/internal/testkit/loopback"
	"github.com/leatdev/leat/internal/testkit/nginxtest"
)

const (
	clients = 64
)

// serveFiles is the variable that makes this program a bare file server of the folder that it
// names, on the address in the first argument.
const serveFiles = "LEAT_BENCH_SERVE_FILES"

func TestMain(m *testing.M) {
	if dir := os.Getenv(serveFiles); dir != "" {
		server := &http.Server{Addr: os.Args[1], Handler: http.FileServer(http.Dir(dir)), ReadHeaderTimeout: time.Minute}
		_ = server.ListenAndServe() // until a signal ends it
		return
	}
	os.Exit(m.Run())
}

// BenchmarkBundleThroughput downloads a bundle over HTTP/1.1 with 64 clients that keep their
// connections: from a distributor, which has it in its cache and verifies a token each time, and
// from nginx, which has the same bytes in a file and admits everybody. The bare file server shows
// the limit of Go's own server. All are separate processes. Each server's CPU time is reported too,
// because the machine may do other work.
func BenchmarkBundleThroughput(b *testing.B) {
	sizes := []int{64 << 10, 1 << 20, 16 << 20}
	git := &gitcache{}
	for _, size := range sizes {
		git.contents = append(git.contents, pack(b, size))
	}
	hub := startHub(b, git)
	dir := b.TempDir()
	if err := os.Chmod(dir, 0o755); err != nil {
		b.Fatal(err)
	}
	peer := nginxtest.Start(b, runtime.GOMAXPROCS(0), func(addr, _ string) string {
		return "\tserver { listen " + addr + "; root " + dir + "; }"
	})
	nginx := server{addr: peer.Addr, token: hub.token, pids: peer.PIDs(b)}
	self, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	bare := server{addr: loopback.Addr(b), token: hub.token}
	bare.pids = []int{startProcess(b, self, []string{serveFiles + "=" + dir}, bare.addr)}
	await(b, bare.addr)
	for i, size := range sizes {
		content := git.contents[i]
		if err := os.WriteFile(filepath.Join(dir, content.digest.Hex()), content.packed, 0o644); err != nil {
			b.Fatal(err)
		}
		name := "size=" + config.Bytes(size).String()
		b.Run(name+"/leat", func(b *testing.B) {
			measure(b, hub, "/v1/bundles/"+content.digest.String(), len(content.packed))
		})
		b.Run(name+"/peer=nginx", func(b *testing.B) { measure(b, nginx, "/"+content.digest.Hex(), len(content.packed)) })
		b.Run(name+"/limit=net-http", func(b *testing.B) { measure(b, bare, "/"+content.digest.Hex(), len(content.packed)) })
	}
}

// measure downloads from all clients, which cost the same for either server and as little as
// possible.
func measure(b *testing.B, from server, path string, size int) {
	request := []byte("GET " + path + " HTTP/1.1\r\nHost: " + from.addr + "\r\nAuthorization: Bearer " + from.token + "\r\n\r\n")
	before := from.cpu(b)
	b.SetBytes(int64(size))
	b.SetParallelism(clients / runtime.GOMAXPROCS(0))
	b.RunParallel(func(pb *testing.PB) {
		conn, err := new(net.Dialer).DialContext(b.Context(), "tcp", from.addr)
		if err != nil {
			b.Error(err)
			return
		}
		defer conn.Close()
		reader := bufio.NewReaderSize(conn, 128<<10)
		for pb.Next() {
			if _, err := conn.Write(request); err != nil {
				b.Error(err)
				return
			}
			if err := discard(reader, size); err != nil {
				b.Error(err)
				return
			}
		}
	})
	b.ReportMetric(float64((from.cpu(b)-before).Microseconds())/float64(b.N), "server-µs/op")
}

// discard reads an answer with a body of that size.
func discard(reader *bufio.Reader, size int) error {
	status, err := reader.ReadSlice('\n')
	if err != nil {
		return err
	}
	if !bytes.HasPrefix(status, []byte("HTTP/1.1 200")) {
		return fmt.Errorf("got %q", status)
	}
	for line := status; len(line) > 2; { // up to the empty one
		if line, err = reader.ReadSlice('\n'); err != nil {
			return err
		}
	}
	_, err = reader.Discard(size)
	return err
}

// content is a bundle of one file.
type content struct {
	path   string
	digest digest.Digest
	size   int64
	packed []byte
}

// pack makes a bundle of about the given size, of incompressible content.
func pack(b *testing.B, size int) content {
	b.Helper()
	noise := make([]byte, size)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(noise)
	var plain, packed bytes.Buffer
	z, err := bundle.Compress(&packed)
	if err != nil {
		b.Fatal(err)
	}
	w := bundle.NewWriter(io.MultiWriter(&plain, z), bundle.DefaultLimits())
	err = w.WriteFile("noise", false, int64(size), bytes.NewReader(noise))
	if err := errors.Join(err, w.Close(), z.Close()); err != nil {
		b.Fatal(err)
	}
	return content{
		path: fmt.Sprintf("app-%d", size), digest: digest.FromBytes(plain.Bytes()), size: int64(plain.Len()), packed: packed.Bytes(),
	}
}

// gitcache answers like gitcache, from memory.
type gitcache struct {
	gitcachev1connect.UnimplementedGitCacheServiceHandler

	contents []content
}

// PutRepository implements GitCacheService.
func (g *gitcache) PutRepository(context.Context, *gitcachev1.PutRepositoryRequest) (*gitcachev1.PutRepositoryResponse, error) {
	return &gitcachev1.PutRepositoryResponse{}, nil
}

// ListRepositories implements GitCacheService.
func (g *gitcache) ListRepositories(context.Context, *gitcachev1.ListRepositoriesRequest) (*gitcachev1.ListRepositoriesResponse, error) {
	return &gitcachev1.ListRepositoriesResponse{}, nil
}

// ResolveSnapshot implements GitCacheService.
func (g *gitcache) ResolveSnapshot(_ context.Context, r *gitcachev1.ResolveSnapshotRequest) (*gitcachev1.ResolveSnapshotResponse, error) {
	for _, c := range g.contents {
		if c.path == r.GetSource().GetPath() {
			return &gitcachev1.ResolveSnapshotResponse{Epoch: 1, Snapshot: &typev1.Snapshot{
				Commit: "c1", Digest: c.digest.String(), ContentSize: c.size, StoredSize: int64(len(c.packed)), FileCount: 1,
			}}, nil
		}
	}
	return nil, connect.NewError(connect.CodeNotFound, errors.New("no such folder"))
}

// DownloadBundle implements GitCacheService.
func (g *gitcache) DownloadBundle(_ context.Context, r *gitcachev1.DownloadBundleRequest, stream *connect.ServerStream[gitcachev1.DownloadBundleResponse]) error {
	for _, c := range g.contents {
		if c.digest.String() != r.GetDigest() {
			continue
		}
		err := stream.Send(&gitcachev1.DownloadBundleResponse{Frame: &gitcachev1.DownloadBundleResponse_Header{
			Header: &gitcachev1.BundleHeader{Digest: r.GetDigest(), StoredSize: int64(len(c.packed))},
		}})
		for rest := c.packed; err == nil && len(rest) > 0; rest = rest[min(len(rest), 256<<10):] {
			err = stream.Send(&gitcachev1.DownloadBundleResponse{Frame: &gitcachev1.DownloadBundleResponse_Chunk{Chunk: rest[:min(len(rest), 256<<10)]}})
		}
		return err
	}
	return connect.NewError(connect.CodeNotFound, errors.New("no such bundle"))
}

// startHub runs a distributor whose one cluster uses all of gitcache's folders, and returns once
// the bundles are in its cache.
func startHub(b *testing.B, git *gitcache) server {
	b.Helper()
	mux := http.NewServeMux()
	mux.Handle(gitcachev1connect.NewGitCacheServiceHandler(git))
	upstream := httptest.NewUnstartedServer(mux)
	upstream.Config.Protocols = new(http.Protocols)
	upstream.Config.Protocols.SetUnencryptedHTTP2(true)
	upstream.Start()
	b.Cleanup(upstream.Close)

	addr := loopback.Addr(b)
	process := startProcess(b, build(b), []string{
		"LEAT_LISTEN_ADDR=" + addr, "LEAT_INTERNAL_LISTEN_ADDR=" + loopback.Addr(b), "LEAT_DISTRIBUTOR_DATA_DIR=" + b.TempDir(),
		"LEAT_GITCACHE_URL=" + upstream.URL, "LEAT_DISTRIBUTOR_ADMIN_TOKEN=" + edge.AdminToken,
		"LEAT_SERVICE_SECRET=" + hubkeys.Secret(identity.ServiceDistributor), "LEAT_SERVICE_KEYS=" + strings.Join(hubkeys.List(), ","),
		"LEAT_LOG_LEVEL=error",
	})
	await(b, addr)
	hub := server{addr: addr, pids: []int{process}}
	hub.token = enrol(b, "http://"+addr, git)
	warm(b, hub, git)
	return hub
}

// server is a server to download from.
type server struct {
	addr  string
	token string // of an agent
	pids  []int  // of its processes
}

// cpu returns the CPU time that the server has used so far.
func (s server) cpu(b *testing.B) time.Duration {
	b.Helper()
	const tick = 10 * time.Millisecond // USER_HZ is 100 on every Linux that Go knows
	var sum time.Duration
	for _, pid := range s.pids {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			b.Fatal(err)
		}
		fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:])) // from the third one on
		for _, field := range fields[11:13] {                                     // utime, stime
			ticks, err := strconv.ParseInt(field, 10, 64)
			if err != nil {
				b.Fatal(err)
			}
			sum += time.Duration(ticks) * tick
		}
	}
	return sum
}

// build builds the distributor as it is shipped.
func build(b *testing.B) string {
	b.Helper()
	path := filepath.Join(b.TempDir(), "distributor")
	out, err := exec.CommandContext(b.Context(), "go", "build", "-trimpath", "-o", path, "github.com/leatdev/leat/services/distributor/cmd/distributor").CombinedOutput()
	if err != nil {
		b.Fatalf("build distributor: %v\n%s", err, out)
	}
	return path
}

// startProcess runs a program until the benchmark ends.
func startProcess(b *testing.B, path string, environment []string, args ...string) int {
	b.Helper()
	command := exec.Command(path, args...)
	command.Env = environment
	command.Stdout, command.Stderr = os.Stderr, os.Stderr
	if err := command.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = command.Process.Signal(syscall.SIGTERM)
		_ = command.Wait()
	})
	return command.Process.Pid
}

// await blocks until a server listens.
func await(b *testing.B, addr string) {
	b.Helper()
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); {
		if conn, err := net.DialTimeout("tcp", addr, time.Second); err == nil {
			_ = conn.Close()
			return
		}
		<-time.After(10 * time.Millisecond)
	}
	b.Fatalf("no server listens on %s", addr)
}

// enrol returns an access token of an agent whose plan has all the contents.
func enrol(b *testing.B, url string, git *gitcache) string {
	b.Helper()
	var folders []string
	for _, c := range git.contents {
		folders = append(folders, c.path)
	}
	return edge.Enrol(b, url, folders)
}

// warm downloads every bundle once it is in the plan, and compares its bytes.
func warm(b *testing.B, hub server, git *gitcache) {
	b.Helper()
	client := &http.Client{Transport: &http.Transport{DisableCompression: true}}
	for _, c := range git.contents {
		for deadline := time.Now().Add(30 * time.Second); ; {
			status, body := get(b, client, "http://"+hub.addr+"/v1/bundles/"+c.digest.String(), hub.token)
			if status == http.StatusOK && bytes.Equal(body, c.packed) {
				break
			}
			if time.Now().After(deadline) {
				b.Fatalf("warm %s: got %d and %d bytes", c.path, status, len(body))
			}
		}
	}
}

func get(b *testing.B, client *http.Client, url, token string) (int, []byte) {
	b.Helper()
	request, err := http.NewRequestWithContext(b.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		b.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+token)
	response, err := client.Do(request)
	if err != nil {
		b.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		b.Fatal(err)
	}
	return response.StatusCode, body
}
