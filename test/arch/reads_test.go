// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package arch

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// holders are the packages of the agent that name the types k8s.API or k8s.Reader, by which they could
// read any object of the cluster. Each has its reason.
var holders = map[string]string{
	"services/agent/internal/kube":                  "the adapter",
	"services/agent/internal/reconcile":             "hands the cluster to the executor and to the registry of owners",
	"services/agent/internal/reconcile/clustertest": "the suite of the port",
	"services/agent/internal/reconcile/execute":     "reads the service's own objects; see ownReads",
	"services/agent/internal/reconcile/ownership":   "asks for the scope of kinds alone",
	"services/agent/internal/reconcile/submit":      "reads the service's own objects; see ownReads",
}

const (
	fromManifests = "objects of the service's manifests, which checkLimits or complete has compared with the limits of its project"
	fromInventory = "objects of the service's inventory, which it has applied"
)

// ownReads are the reads of the cluster by a holder that is not the adapter or a Reader: how many a
// file has, and why they are within the limits of the service. A read of anything else that a spec
// names (dependencies, look-ups, references, keys) belongs to services/agent/internal/confine.
var ownReads = map[string]struct {
	calls int
	why   string
}{
	"services/agent/internal/reconcile/execute/depart.go":   {1, fromInventory},
	"services/agent/internal/reconcile/execute/diff.go":     {2, fromManifests + "; " + fromInventory},
	"services/agent/internal/reconcile/execute/drift.go":    {2, fromManifests},
	"services/agent/internal/reconcile/execute/handover.go": {1, fromManifests},
	"services/agent/internal/reconcile/execute/hooks.go":    {1, fromManifests},
	"services/agent/internal/reconcile/execute/prune.go":    {1, fromInventory},
	"services/agent/internal/reconcile/execute/recreate.go": {1, fromManifests},
	"services/agent/internal/reconcile/execute/remove.go":   {3, fromInventory + ", and what a namespace or definition among them contains"},
	"services/agent/internal/reconcile/execute/run.go":      {1, fromManifests + "; " + fromInventory},
	"services/agent/internal/reconcile/execute/symptoms.go": {1, "why an object of the service hangs; " + fromInventory},
	"services/agent/internal/reconcile/execute/tests.go":    {3, fromManifests + ", and the log of a test"},
	"services/agent/internal/reconcile/submit/adopt.go":     {3, fromManifests},
	"services/agent/internal/reconcile/submit/submit.go":    {1, fromManifests},
}

// reading are the methods of k8s.Reader that read objects, and what follows them.
var reading = []string{"Get", "List", "Watch", "Contents", "Follow", "Logs", "Symptoms"}

// TestSecAgentReadsForServicesByTheirReader finds the code of the agent that can read any object of the
// cluster. Package confine declares a port of its own, which only its callers fill. A read that a spec directs must go through the Reader of its service.
func TestSecAgentReadsForServicesByTheirReader(t *testing.T) {
	t.Parallel()
	held, calls := map[string]bool{}, map[string]int{}
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
			switch n := node.(type) {
			case *ast.SelectorExpr:
				if isNamed(n.X, "k8s") && (n.Sel.Name == "API" || n.Sel.Name == "Reader") {
					held[folder] = true
				}
			case *ast.CallExpr:
				if isRead(n) {
					calls[file]++
				}
			}
			return true
		})
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
	for _, folder := range []string{"services/agent/internal/kube", "services/agent/internal/reconcile/clustertest"} {
		maps.DeleteFunc(calls, func(file string, _ int) bool { return path.Dir(file) == folder })
	}
	for _, file := range slices.Sorted(maps.Keys(calls)) {
		if holders[path.Dir(file)] != "" && calls[file] != ownReads[file].calls {
			t.Errorf("%s reads the cluster %d times, and ownReads has %d: read what a spec names by the service's confine.Reader, or give a reason there",
				file, calls[file], ownReads[file].calls)
		}
	}
	for file := range ownReads {
		if calls[file] == 0 {
			t.Errorf("%s does not read the cluster any more: remove it from ownReads", file)
		}
	}
}

// isRead reports whether a call reads the cluster: a method of that name with a context, of something
// that is called a cluster; or a follower of one.
func isRead(call *ast.CallExpr) bool {
	method, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || len(call.Args) < 2 {
		return false
	}
	if isNamed(method.X, "follow") && method.Sel.Name == "Start" {
		return isCluster(call.Args[1])
	}
	return slices.Contains(reading, method.Sel.Name) && isCluster(method.X)
}

func isCluster(x ast.Expr) bool {
	if selector, ok := x.(*ast.SelectorExpr); ok {
		x = selector.Sel
	}
	return isNamed(x, "cluster") || isNamed(x, "Cluster")
}

func isNamed(x ast.Expr, name string) bool {
	ident, ok := x.(*ast.Ident)
	return ok && ident.Name == name
}
