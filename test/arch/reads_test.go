// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package arch

import (
	"cmp"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write docs/reference/agent/reads.md")

const agentCode = "services/agent/internal/"

// TestSecAgentReadsForServicesByTheirReader finds all code of the agent that reads the cluster, and
// compares it with the table of reads. A read that a spec directs must go through the Reader of its
// service; package confine declares a port of its own, which only its callers fill.
func TestSecAgentReadsForServicesByTheirReader(t *testing.T) {
	t.Parallel()
	held, found := map[string]bool{}, map[readKey]int{}
	for _, file := range filter(trackedFiles(t), ".go") {
		folder := path.Dir(file)
		if !strings.HasPrefix(folder, "services/agent") || strings.HasSuffix(file, "_test.go") || folder == "services/agent/internal/k8s" {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root(t), file), nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(parsed, func(node ast.Node) bool {
			if n, ok := node.(*ast.SelectorExpr); ok && isNamed(n.X, "k8s") && (n.Sel.Name == "API" || n.Sel.Name == "Reader") {
				held[folder] = true
			}
			return true
		})
		if folder == "services/agent/internal/reconcile/clustertest" {
			continue
		}
		file = strings.TrimPrefix(file, agentCode)
		for _, by := range readsIn(parsed, isPort(file)) {
			if isPort(file) {
				by = rowOf(file)
			}
			found[readKey{file, by}]++
		}
	}
	for folder := range held {
		if holders[folder] == "" {
			t.Errorf("%s can read any object of the cluster: take a *confine.Reader or a narrower port, or give a reason in holders", folder)
		}
	}
	for folder := range holders {
		if !held[folder] {
			t.Errorf("%s names neither k8s.API nor k8s.Reader any more: remove it from holders", folder)
		}
	}
	for _, difference := range compareReads(found) {
		t.Error(difference)
	}
}

// TestTableOfReads compares docs/reference/agent/reads.md with the table of reads.
func TestTableOfReads(t *testing.T) {
	t.Parallel()
	page := filepath.Join(root(t), "docs/reference/agent/reads.md")
	want := pageOfReads()
	if *update {
		if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(page); err != nil || string(got) != want {
		t.Errorf("docs/reference/agent/reads.md is not the table of reads (%v); "+
			"run go test ./test/arch -run TestTableOfReads -update", err)
	}
}

// TestReadsAreFound holds the finder to code that reads by names of all kinds, and the comparison to
// tables that lack a read or have one too many.
func TestReadsAreFound(t *testing.T) {
	t.Parallel()
	const code = `package execute
func f() {
	r.cluster.Get(ctx, ref)
	x.params.Cluster.Logs(ctx, o)
	read.Reader.Get(ctx, ref)
	follow.Start(ctx, reader, refs, see)
	other := r.cluster
	other.Get(ctx, ref)
	set.CoreV1().Secrets(ns).List(ctx, options)
	m.Get(context.WithoutCancel(ctx), ref)
	objects.List(record.Clone(), once)
	http.Get(url)
	records.List(ctx)
	b.fetches.Do(ctx, d, f)
}`
	parsed, err := parser.ParseFile(token.NewFileSet(), "", code, 0)
	if err != nil {
		t.Fatal(err)
	}
	want := []by{byAccount, byAgent, byReader, byReader, "", "", ""}
	if got := readsIn(parsed, false); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	whole := map[readKey]int{}
	for _, row := range reads {
		whole[readKey{row.file, row.by}] = row.calls
	}
	if got := compareReads(whole); len(got) > 0 {
		t.Errorf("got %q, want no difference between the table and itself", got)
	}
	for name, change := range map[string]func(map[readKey]int){
		"a new file":        func(m map[readKey]int) { m[readKey{"reconcile/new.go", byAccount}] = 1 },
		"one more read":     func(m map[readKey]int) { m[readKey{"reconcile/execute/prune.go", byAccount}]++ },
		"another reader":    func(m map[readKey]int) { m[readKey{"reconcile/execute/prune.go", ""}] = 1 },
		"a row for nothing": func(m map[readKey]int) { delete(m, readKey{"manifest/lookup.go", byReader}) },
	} {
		changed := maps.Clone(whole)
		change(changed)
		if got := compareReads(changed); len(got) != 1 {
			t.Errorf("%s: got %q, want one difference", name, got)
		}
	}
}

// readKey is a row of the table.
type readKey struct {
	file string
	by   by
}

// compareReads returns how the reads that the code has differ from the table's.
func compareReads(found map[readKey]int) (differences []string) {
	listed := map[readKey]int{}
	for _, row := range reads {
		listed[readKey{row.file, row.by}] = row.calls
	}
	for key, calls := range found {
		if calls != listed[key] {
			differences = append(differences, fmt.Sprintf(
				"%s%s reads the cluster %d times by %s, and the table of reads has %d: read what a spec names by the service's confine.Reader, or add a row",
				agentCode, key.file, calls, cmp.Or(key.by, "a name that is neither cluster nor reader"), listed[key]))
		}
	}
	for key := range listed {
		if found[key] == 0 {
			differences = append(differences, fmt.Sprintf("%s%s does not read the cluster by %s any more: remove the row", agentCode, key.file, key.by))
		}
	}
	slices.Sort(differences)
	return differences
}

// isPort reports whether a file is of the adapter, or of a package that reads for its callers alone.
// The names in such a file do not show for whom it reads, so its row of the table does.
func isPort(file string) bool {
	return slices.ContainsFunc([]string{"kube/", "confine/", "reconcile/follow/"}, func(folder string) bool { return strings.HasPrefix(file, folder) })
}

func rowOf(file string) by {
	for _, row := range reads {
		if row.file == file {
			return row.by
		}
	}
	return ""
}

// reading are the methods by which Kubernetes' clients, k8s.Reader and confine.Reader read. One with
// a context and something else is a read, whatever it is called on.
var reading = []string{"Get", "List", "Watch", "Contents", "Follow", "Logs", "Symptoms"}

// readsIn returns the reader of each read in a file, in the order of the code. It is empty for a read
// by something that the table has no word for. Code of the adapter also reads by raw requests.
func readsIn(file *ast.File, isAdapter bool) (found []by) {
	ast.Inspect(file, func(node ast.Node) bool {
		call, ok := node.(*ast.CallExpr)
		if !ok {
			return true
		}
		method, ok := call.Fun.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		switch {
		case isNamed(method.X, "follow") && method.Sel.Name == "Start" && len(call.Args) > 1:
			found = append(found, readerOf(call.Args[1]))
		case slices.Contains(reading, method.Sel.Name) && len(call.Args) > 1 && isContext(call.Args[0]),
			isAdapter && isRawRequest(method):
			found = append(found, readerOf(method.X))
		}
		return true
	})
	return found
}

// isContext reports whether an expression is a context by its name, or makes one.
func isContext(x ast.Expr) bool {
	switch x := x.(type) {
	case *ast.Ident:
		return x.Name == "ctx" || x.Name == "following"
	case *ast.CallExpr:
		from, ok := x.Fun.(*ast.SelectorExpr)
		return ok && (from.Sel.Name == "Context" || isNamed(from.X, "context"))
	}
	return false
}

// isRawRequest reports whether a method begins a request that reads by its path.
func isRawRequest(method *ast.SelectorExpr) bool {
	if isNamed(method.X, "http") && method.Sel.Name == "NewRequestWithContext" || method.Sel.Name == "Stream" {
		return true
	}
	client, ok := method.X.(*ast.CallExpr)
	if !ok || method.Sel.Name != "Get" {
		return false
	}
	made, ok := client.Fun.(*ast.SelectorExpr)
	return ok && made.Sel.Name == "RESTClient"
}

// readerOf returns which reader an expression is by its name, or "" for a name that is not one's.
func readerOf(x ast.Expr) by {
	name, owner := "", ""
	switch x := x.(type) {
	case *ast.Ident:
		name = x.Name
	case *ast.SelectorExpr:
		name = x.Sel.Name
		if from, ok := x.X.(*ast.SelectorExpr); ok {
			owner = from.Sel.Name
		}
	}
	switch {
	case name == "Cluster" && owner == "params":
		return byAgent
	case name == "cluster" || name == "Cluster":
		return byAccount
	case name == "reader" || name == "Reader" || name == "from":
		return byReader
	}
	return ""
}

func isNamed(x ast.Expr, name string) bool {
	ident, ok := x.(*ast.Ident)
	return ok && ident.Name == name
}

// pageOfReads is docs/reference/agent/reads.md.
func pageOfReads() string {
	var page strings.Builder
	page.WriteString(`# Which reader reads what for a service

<!-- Generated by TestTableOfReads in test/arch; do not edit. -->

The agent reads the cluster for a service by one of three readers.
Only the service's reader reads objects that a spec names, other than the service's own: [what a service may read](rights.md#what-a-service-may-read).
A test compares this page with the code, so a read in the agent's code that has no row fails it.

| reader | rights | limited to |
|---|---|---|
`)
	for _, r := range readers {
		fmt.Fprintf(&page, "| %s | %s | %s |\n", r.by, r.rights, r.limited)
	}
	page.WriteString("\n| what is read | for | reader | code of the agent |\n|---|---|---|---|\n")
	for _, row := range reads {
		if row.what != "" {
			fmt.Fprintf(&page, "| %s | %s | %s | `%s` |\n", row.what, row.why, row.by, row.file)
		}
	}
	return page.String()
}
