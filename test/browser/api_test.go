// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package browser_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"connectrpc.com/connect"

	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/gen/go/leat/fleet/v1/fleetv1connect"
	"github.com/leatdev/leat/internal/runtime/fleetcalls"
	"github.com/leatdev/leat/internal/testkit/await"
)

// example is a block of the page, and what its output has to hold.
type example struct{ language, text, want string }

// examplesOf returns the examples of a page: each is a block of a language, with a block of text behind it.
func examplesOf(page string) (all []example) {
	blocks := regexp.MustCompile("(?ms)^```(\\w*)\\n(.*?)^```$").FindAllStringSubmatch(page, -1)
	for i, block := range blocks {
		if block[1] != "" && i+1 < len(blocks) && blocks[i+1][1] == "" {
			all = append(all, example{block[1], block[2], strings.TrimSpace(blocks[i+1][2])})
		}
	}
	return all
}

// TestExamplesOfTheAPI makes the calls of docs/reference/api.md with curl, grpcurl and a browser, in their order.
func TestExamplesOfTheAPI(t *testing.T) {
	t.Parallel()
	h, b := start(t), open(t)
	h.signIn(t, b, "ada")
	h.atHome(t, b)
	page, err := os.ReadFile("../../docs/reference/api.md")
	if err != nil {
		t.Fatal(err)
	}
	tried := map[string]int{}
	for _, e := range examplesOf(string(page)) {
		var got string
		program, _, _ := strings.Cut(e.text, " ")
		switch e.language {
		case "sh":
			got = h.shell(t, e.text, e.want)
		case "js":
			program = "fetch"
			got = script[string](t, b, fmt.Sprintf("(async token => {%s})(%q)", e.text, adminToken))
		}
		tried[program]++
		if !strings.Contains(compact(got), compact(e.want)) {
			t.Errorf("got %s, want %s of\n%s", got, e.want, e.text)
		}
	}
	if tried["curl"] != 4 || tried["grpcurl"] != 2 || tried["fetch"] != 1 {
		t.Errorf("tried %v; the page has calls of each kind", tried)
	}
}

// compact leaves the space out of JSON, which protobuf's encoder varies.
func compact(text string) string { return strings.Join(strings.Fields(text), "") }

// shell runs a command with grpcurl on the path until it ends or has said what it should, and returns its output. The hub
// is asked without TLS.
func (h *hub) shell(t *testing.T, command, want string) string {
	t.Helper()
	built, err := exec.CommandContext(t.Context(), "../../tools/grpcurl/build.sh").Output()
	if err != nil {
		t.Fatal(err)
	}
	programs := t.TempDir()
	if err := os.Symlink(strings.TrimSpace(string(built)), filepath.Join(programs, "grpcurl")); err != nil {
		t.Fatal(err)
	}
	run := exec.CommandContext(await.Context(t), "bash", "-euc", strings.Replace(command, "grpcurl ", "grpcurl -plaintext ", 1))
	run.Dir = "../.."
	run.Env = append(os.Environ(), "LEAT_URL="+h.base.BaseURL, "LEAT_TOKEN="+adminToken, "PATH="+programs+":"+os.Getenv("PATH"))
	run.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	run.Cancel = func() error { return syscall.Kill(-run.Process.Pid, syscall.SIGKILL) }
	said, err := run.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	run.Stderr = run.Stdout
	if err := run.Start(); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	lines := bufio.NewScanner(said)
	for !strings.Contains(compact(out.String()), compact(want)) && lines.Scan() {
		out.WriteString(lines.Text() + "\n")
	}
	_ = run.Cancel() // a watch would continue
	_ = run.Wait()
	return out.String()
}

// TestDocumentsInEachProtocol reads and lists an object by Connect, gRPC and gRPC-Web, in protobuf and in JSON.
func TestDocumentsInEachProtocol(t *testing.T) {
	t.Parallel()
	h := start(t)
	for name, options := range map[string][]connect.ClientOption{
		"Connect": nil, "Connect by GET": {connect.WithHTTPGet()}, "gRPC": {connect.WithGRPC()}, "gRPC-Web": {connect.WithGRPCWeb()},
		"Connect with JSON": {connect.WithProtoJSON()}, "gRPC with JSON": {connect.WithGRPC(), connect.WithProtoJSON()},
		"gRPC-Web with JSON": {connect.WithGRPCWeb(), connect.WithProtoJSON()},
	} {
		t.Run(name, func(t *testing.T) {
			client := fleetv1connect.NewFleetServiceClient(h.base.HTTP, h.base.BaseURL, append(slices.Clone(h.base.Options), options...)...)
			checkDocuments(await.Context(t), t, client)
		})
	}
}

func checkDocuments(ctx context.Context, t *testing.T, client fleetv1connect.FleetServiceClient) {
	t.Helper()
	berlin, err := fleetcalls.Get[*fleetv1.Cluster](ctx, client, "berlin")
	if err != nil || berlin.GetMetadata().GetUid() == "" {
		t.Errorf("got %v, %v", berlin, err)
	}
	listed, err := fleetcalls.List[*fleetv1.Cluster](ctx, client, &fleetv1.ListRequest{})
	if err != nil || len(listed.Objects) != 1 {
		t.Errorf("got %v, %v, want the one cluster", listed, err)
	}
	stream, err := client.Watch(ctx, &fleetv1.WatchRequest{Kind: "Cluster", Name: "berlin"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = stream.Close() }()
	if !stream.Receive() || stream.Msg().GetDocument().GetCluster().GetMetadata().GetUid() != berlin.GetMetadata().GetUid() {
		t.Errorf("got %v, %v, want the cluster first", stream.Msg(), stream.Err())
	}
	if !stream.Receive() || !stream.Msg().GetSynced() {
		t.Errorf("got %v, %v, want no other object", stream.Msg(), stream.Err())
	}
}
