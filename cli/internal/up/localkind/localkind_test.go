// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package localkind_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/leatdev/leat/cli/internal/up/localkind"
	"github.com/leatdev/leat/internal/testkit/standin"
)

// standIn is not kind: it keeps a list of clusters in $0.clusters, as kind does in containers, records
// its calls in $0.calls, and fails for the verb in $0.broken. It makes no cluster.
const standIn = `#!/bin/sh
echo "$*" >>"$0.calls"
verb="$1"
[ "$verb" = "$(cat "$0.broken" 2>/dev/null)" ] && { echo "ERROR: no $verb today" >&2; exit 1; }
while [ $# -gt 0 ]; do
	case "$1" in
	--name) name=$2 ;;
	--kubeconfig) kubeconfig=$2 ;;
	esac
	shift
done
case "$verb" in
get) cat "$0.clusters" 2>/dev/null || echo "No kind clusters found." >&2 ;;
create)
	grep -qx "$name" "$0.clusters" 2>/dev/null && { echo "ERROR: node(s) already exist for a cluster with the name \"$name\"" >&2; exit 1; }
	echo "$name" >>"$0.clusters"
	echo "kind: Config" >"$kubeconfig" ;;
delete)
	grep -vx "$name" "$0.clusters" >"$0.left"
	mv "$0.left" "$0.clusters" ;;
esac
exit 0
`

// newKind returns the path of a stand-in, and the parameters of a cluster that it makes.
func newKind(t *testing.T) (string, localkind.Params) {
	t.Helper()
	kind := filepath.Join(t.TempDir(), "kind")
	standin.Write(t, kind, standIn)
	return kind, localkind.Params{
		LookPath: func(string) (string, error) { return kind, nil },
		Dir:      filepath.Join(t.TempDir(), "kind"), Name: "demo", Progress: func(string) {},
	}
}

// lines returns the lines of a file of the stand-in.
func lines(t *testing.T, path string) []string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return strings.FieldsFunc(string(text), func(r rune) bool { return r == '\n' })
}

func TestCreateAndDelete(t *testing.T) {
	t.Parallel()
	kind, p := newKind(t)
	c, err := localkind.Create(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(c.Kubeconfig()); err != nil || string(text) != "kind: Config\n" {
		t.Errorf("kubeconfig: got %q, %v", text, err)
	}
	if got := lines(t, kind+".clusters"); len(got) != 1 || !strings.HasPrefix(got[0], "leat-demo-") {
		t.Errorf("clusters: got %q, want one for the demo", got)
	}
	for _, call := range lines(t, kind+".calls") {
		if call != "get clusters" && !strings.Contains(call, "--kubeconfig "+p.Dir) {
			t.Errorf("kind %s: writes to the user's own kubeconfig", call)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := c.Delete(ended); err != nil {
		t.Error(err)
	}
	if got := lines(t, kind+".clusters"); len(got) != 0 {
		t.Errorf("clusters after the end: got %q", got)
	}
}

// A process that was killed leaves its cluster, which the next start replaces.
func TestCreateAgain(t *testing.T) {
	t.Parallel()
	kind, p := newKind(t)
	if left, ok := localkind.Left(p.Dir); ok {
		t.Errorf("left before the first start: got %s", left)
	}
	for range 2 {
		if _, err := localkind.Create(t.Context(), p); err != nil {
			t.Fatal(err)
		}
	}
	if left, ok := localkind.Left(p.Dir); !ok || left != lines(t, kind+".clusters")[0] {
		t.Errorf("left: got %s, %t, want the name of the cluster", left, ok)
	}
	if got := lines(t, kind+".clusters"); len(got) != 1 {
		t.Errorf("clusters: got %q, want one", got)
	}
	var deleted int
	for _, call := range lines(t, kind+".calls") {
		if strings.HasPrefix(call, "delete cluster") {
			deleted++
		}
	}
	if deleted != 1 {
		t.Errorf("got %d deletions, want 1:\n%s", deleted, strings.Join(lines(t, kind+".calls"), "\n"))
	}
}

// A cluster of the same name of another owner is left alone.
func TestSecOtherKindClustersStay(t *testing.T) {
	t.Parallel()
	kind, p := newKind(t)
	if _, err := localkind.Create(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	before := lines(t, kind+".clusters")
	if err := os.Remove(filepath.Join(p.Dir, "made")); err != nil {
		t.Fatal(err)
	}
	_, err := localkind.Create(t.Context(), p)
	if notOurs, ok := errors.AsType[*localkind.NotOursError](err); !ok || notOurs.Name != before[0] {
		t.Errorf("got %v, want a NotOursError for %s", err, before[0])
	}
	if got := lines(t, kind+".clusters"); len(got) != 1 {
		t.Errorf("clusters: got %q, want the one of somebody else", got)
	}
}

func TestFaults(t *testing.T) {
	t.Parallel()
	for _, verb := range []string{"get", "create", "delete"} {
		t.Run(verb, func(t *testing.T) {
			t.Parallel()
			kind, p := newKind(t)
			if verb == "delete" {
				if _, err := localkind.Create(t.Context(), p); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.WriteFile(kind+".broken", []byte(verb), 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := localkind.Create(t.Context(), p)
			if err == nil || !strings.Contains(err.Error(), "kind "+verb+" cluster") || !strings.Contains(err.Error(), "no "+verb+" today") {
				t.Errorf("got %v, want what kind printed", err)
			}
			if err := os.Remove(kind + ".broken"); err != nil {
				t.Fatal(err)
			}
			if _, err := localkind.Create(t.Context(), p); err != nil {
				t.Errorf("after the fault was removed: %v", err)
			}
		})
	}
	t.Run("no kind", func(t *testing.T) {
		t.Parallel()
		_, p := newKind(t)
		p.LookPath = func(string) (string, error) { return "", exec.ErrNotFound }
		if _, err := localkind.Create(t.Context(), p); !errors.Is(err, localkind.ErrNotFound) {
			t.Errorf("got %v, want %v", err, localkind.ErrNotFound)
		}
	})
}
